//! Requests that are refused together are told to come back apart.
//!
//! Each is told the exact instant, and how long to wait until then. Clients that all wait
//! exactly so long come back at once, and all but a few are refused again. So a policy may
//! have each of them wait up to so much longer, drawn anew for each answer: nobody is told
//! to come earlier than that instant.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::quality::RandomState;
use tidegate::Span;

/// How much longer each waits.
#[derive(Debug)]
pub(super) struct Jitter {
    most: Span,
    seed: RandomState,
    drawn: AtomicU64,
}

impl Jitter {
    /// From nothing up to `most`.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most: most.into(),
            seed: RandomState::default(),
            drawn: AtomicU64::new(0),
        }
    }

    /// The next one, of whole microseconds, each as likely as another.
    pub(super) fn draw(&self) -> Span {
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        of(self.most, self.seed.hash_one(drawn))
    }
}

/// The share of `most`, itself included, that `bits` are of all that there are.
fn of(most: Span, bits: u64) -> Span {
    let kinds = u128::from(most.as_micros()) + 1;
    let drawn = (u128::from(bits) * kinds) >> u64::BITS;
    Span::from_micros(drawn as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_anything_from_nothing_to_the_most() {
        let most = Span::from_micros(3);
        let drawn = [0, u64::MAX / 4 + 1, u64::MAX / 2 + 1, u64::MAX].map(|bits| of(most, bits));
        assert_eq!(drawn, [0, 1, 2, 3].map(Span::from_micros));
        let jitter = Jitter::new(Duration::from_millis(500));
        let drawn: Vec<_> = (0..64).map(|_| jitter.draw()).collect();
        assert!(drawn.iter().all(|one| *one <= Span::from_millis(500)));
        assert!(drawn.iter().any(|one| *one != drawn[0]));
    }
}
