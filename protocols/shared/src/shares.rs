//! How many of anything one token may have of what all have.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedSemaphorePermit;

use crate::permits::Permits;

/// Permits of which one token has half at most (rounded up), so that others are served
/// whatever it does. Cloning shares them.
#[derive(Clone, Debug)]
pub struct Shares {
    all: Permits,
    most_of_one: usize,
    tokens: Tokens,
}

/// The tokens that have any: each is held once here, and once by each of its shares.
#[derive(Clone, Debug, Default)]
struct Tokens(Arc<Mutex<HashSet<Arc<str>>>>);

/// One permit, and whose it is; given back when this is dropped.
#[derive(Debug)]
pub struct Share {
    most_of_one: usize,
    tokens: Tokens,
    token: Option<Arc<str>>,
    _permit: OwnedSemaphorePermit,
}

impl Shares {
    /// So many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            all: Permits::new(most),
            most_of_one: most.div_ceil(2),
            tokens: Tokens::default(),
        }
    }

    /// The same, of which one token has so many at most.
    #[must_use]
    pub fn with_most_of_one(self, most_of_one: usize) -> Self {
        Self {
            most_of_one,
            ..self
        }
    }

    /// One of them, if any is left. It is no token's yet.
    #[must_use]
    pub fn take(&self) -> Option<Share> {
        Some(Share {
            _permit: self.all.take()?,
            most_of_one: self.most_of_one,
            tokens: self.tokens.clone(),
            token: None,
        })
    }
}

impl Share {
    /// Makes it this token's, and no other's, if that one may have another; whether it may.
    /// Callers without a token cannot be told apart: their shares are nobody's.
    #[must_use]
    pub fn belong_to(&mut self, token: Option<&str>) -> bool {
        if self.token.as_deref() == token {
            return true;
        }
        self.leave();
        let Some(token) = token else { return true };
        let mut tokens = self.tokens.lock();
        let token = match tokens.get(token) {
            // One of them is held here.
            Some(token) if Arc::strong_count(token) > self.most_of_one => return false,
            Some(token) => Arc::clone(token),
            None if self.most_of_one == 0 => return false,
            None => {
                let token = Arc::from(token);
                tokens.insert(Arc::clone(&token));
                token
            }
        };
        drop(tokens);
        self.token = Some(token);
        true
    }

    fn leave(&mut self) {
        let Some(token) = self.token.take() else {
            return;
        };
        let mut tokens = self.tokens.lock();
        // This one's, and the one that is held here.
        if Arc::strong_count(&token) == 2 {
            tokens.remove(&token);
        }
        drop(token);
    }
}

impl Tokens {
    fn lock(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shares: &Shares, token: &str) -> Option<Share> {
        let mut share = shares.take()?;
        share.belong_to(Some(token)).then_some(share)
    }

    #[test]
    fn one_token_has_half_and_others_the_rest() {
        let shares = Shares::new(5);
        let mut greedy: Vec<_> = (0..3).map(|_| of(&shares, "greedy")).collect();
        assert!(greedy.iter().all(Option::is_some));
        assert!(of(&shares, "greedy").is_none());
        let modest = [of(&shares, "modest"), of(&shares, "modest")];
        assert!(modest.iter().all(Option::is_some));
        assert!(shares.take().is_none(), "all are taken");
        greedy.pop();
        assert!(of(&shares, "greedy").is_some());
        drop((greedy, modest));
        assert!(shares.tokens.lock().is_empty(), "nobody is remembered");
    }

    #[test]
    fn a_share_that_goes_to_another_token_is_the_first_ones_no_more() {
        let shares = Shares::new(4).with_most_of_one(1);
        let mut share = of(&shares, "a").expect("room");
        assert!(of(&shares, "a").is_none());
        assert!(share.belong_to(Some("a")), "it is its own already");
        assert!(share.belong_to(Some("b")));
        let again = of(&shares, "a").expect("room");
        assert!(!share.belong_to(Some("a")), "another has it");
        drop(again);
        assert!(share.belong_to(Some("a")));
        assert!(share.belong_to(None));
        assert!(of(&shares, "a").is_some());
    }

    #[test]
    fn callers_without_a_token_have_all() {
        let shares = Shares::new(2);
        let mut both = [shares.take().expect("room"), shares.take().expect("room")];
        assert!(both.iter_mut().all(|share| share.belong_to(None)));
    }
}
