//! Whose turn it is at limits that callers share, where they queue fairly.
//!
//! A queue is that of a policy and of a key's first level: what all of its callers share. It is
//! there while one of their calls is.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Poll;
use std::time::Duration;

use metrics::{Gauge, describe_gauge, gauge};
use tidegate::fair::{Dispatch, FairCharge, FairError, FairQueue, FairRequest};
use tidegate::internal::LimitInternals;
use tidegate::{Limit, Request};
use tidegate_policy::Policy;
use tidegate_service::{ActivePolicy, Amounts, Kind, Number};
use tidegate_store::KeyPath;

use crate::refuse::{Refusal, Unadmitted};
use crate::settings::Settings;

const WAITING: &str = "tidegate_gateway_waiting";

/// The queue of a policy and a key's first level.
type Of = (String, Vec<u8>);

/// The queues that calls stand in, or have come through.
#[derive(Default)]
pub struct Queues {
    queues: Mutex<HashMap<Of, Weak<FairQueue>>>,
    /// The gateway closes: nobody has a turn any more.
    is_closed: AtomicBool,
}

/// A call that is to have its turn.
pub struct Entering<'a, 'c> {
    pub active: &'a ActivePolicy,
    pub key: &'a [u8],
    /// Who calls, where the key names nobody below what is shared.
    pub credential: &'c [u8],
    /// What it takes of the limits that want an amount.
    pub amounts: Vec<(&'a str, u64)>,
    /// What it is thought to use.
    pub tokens: u64,
    pub wait: Duration,
}

/// The turn of a call at its limits.
pub struct Turn<'a> {
    turn: Dispatch,
    queue: Arc<FairQueue>,
    own: Own<'a>,
}

/// What a call takes of limits that its caller does not share.
struct Own<'a> {
    active: &'a ActivePolicy,
    key: &'a [u8],
    /// Nothing, where all are shared. Of shared ones it is 0.
    amounts: Option<Vec<(&'a str, u64)>>,
}

/// What a caller was charged for a call. Dropped, that is what was thought.
pub struct Charged {
    served: FairCharge,
    /// It is remembered until then.
    _queue: Arc<FairQueue>,
}

impl Turn<'_> {
    /// How long the call may wait yet.
    pub fn left(&self) -> Duration {
        self.turn.left()
    }

    /// Waits for what the limits answer; others go on as soon as it waits for its own alone.
    pub async fn wait_for<T>(&mut self, answer: impl Future<Output = T>) -> T {
        match &self.own.amounts {
            None => answer.await,
            Some(_) => self.turn.wait_for(answer, || self.own.refuse()).await,
        }
    }

    /// The limits have admitted it.
    pub fn started(self) -> Charged {
        Charged {
            served: self.turn.started(),
            _queue: self.queue,
        }
    }
}

impl Charged {
    /// It has used so many tokens; 0 if it was not answered.
    pub fn settle(self, tokens: u64) {
        self.served.settle(tokens);
    }
}

impl Queues {
    pub fn new() -> Self {
        describe_gauge!(WAITING, "Calls that wait for their turn among callers");
        Self::default()
    }

    /// Waits for the turn of a call. One that the limits never admit waits for none.
    ///
    /// # Errors
    /// [`Unadmitted`]: it is never admitted, its turn did not come, or too many wait.
    pub async fn turn<'a>(
        &self,
        settings: &Settings,
        call: Entering<'a, '_>,
    ) -> Result<Turn<'a>, Unadmitted> {
        let policy = call.active.policy();
        let (shared, flow) = split(policy, call.key, call.credential);
        let queue = self.queue(&policy.name, shared);
        let entry = FairRequest::of(flow)
            .cost(call.tokens.clamp(1, tidegate::MAX_AMOUNT))
            .weight(settings.weight_of(flow))
            .within(call.wait);
        let mut turn = pin!(queue.dispatch(entry));
        let begun = poll_fn(|context| Poll::Ready(turn.as_mut().poll(context))).await;
        let turn = match begun {
            Poll::Ready(turn) => turn,
            Poll::Pending => {
                let request = Request::named(&call.amounts);
                let peeked = call.active.peek(call.key, request).await;
                // A store that cannot tell is the acquire's affair, which has a failure mode.
                if let Err(error) = peeked
                    && error.kind() != Kind::Unavailable
                {
                    return Err(error.into());
                }
                let _waiting = Waiting::of(&policy.name);
                turn.await
            }
        };
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(refused(&policy.name, &FairError::Stopped).into());
        }
        let mut turn = turn.map_err(|error| refused(&policy.name, &error))?;
        let own = Own::of(&call);
        if own.refuse().await {
            turn.step_aside();
        }
        Ok(Turn { turn, queue, own })
    }

    fn queue(&self, policy: &str, shared: &[u8]) -> Arc<FairQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let of = (policy.to_owned(), shared.to_vec());
        if let Some(queue) = queues.get(&of).and_then(Weak::upgrade) {
            return queue;
        }
        // No more are kept than twice as many as there are.
        if queues.len() == queues.capacity() {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::new(FairQueue::new());
        queues.insert(of, Arc::downgrade(&queue));
        queue
    }

    /// Everyone who waits for a turn, or comes, is told that the gateway closes.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let open: Vec<_> = queues.values().filter_map(Weak::upgrade).collect();
        drop(queues);
        open.iter().for_each(|queue| queue.stop_waiting());
    }
}

/// Counts a call that waits.
struct Waiting(Gauge);

impl Waiting {
    fn of(policy: &str) -> Self {
        let waiting = gauge!(WAITING, "policy" => policy.to_owned());
        waiting.increment(1);
        Self(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.decrement(1);
    }
}

/// What is shared, and who shares it: a key's first level and the rest of it. A key of one level
/// is shared by all who call with it, each by its credential.
fn split<'a>(policy: &Policy, key: &'a [u8], credential: &'a [u8]) -> (&'a [u8], &'a [u8]) {
    let Ok(path) = KeyPath::new(key, policy.levels.len().max(1)) else {
        return (key, credential);
    };
    match path.segments().nth(1) {
        Some(below) => (path.root(), &key[below.start..]),
        None => (path.root(), credential),
    }
}

/// The amounts of a call.
pub fn units<'a>(amounts: &Amounts<'a>) -> Vec<(&'a str, u64)> {
    let units = amounts.iter().map(|(limit, number)| match number {
        Number::Units(units) => (*limit, *units),
        _ => unreachable!("amounts of a gateway are in units"),
    });
    units.collect()
}

/// Whether a limit is that of a key's first level.
pub fn is_shared(policy: &Policy, limit: &Limit) -> bool {
    limit.level_in(&policy.levels).is_ok_and(|level| level == 0)
}

impl<'a> Own<'a> {
    fn of(call: &Entering<'a, '_>) -> Self {
        let policy = call.active.policy();
        let limits = || policy.limit_lists().flatten();
        let is_own = |limit: &&Limit| !is_shared(policy, limit);
        let has_own = limits().any(|limit| is_own(&limit));
        let amounts = has_own.then(|| {
            let mut own = call.amounts.clone();
            own.retain(|(name, _)| limits().filter(is_own).any(|limit| limit.name() == *name));
            for limit in limits().filter(|limit| is_shared(policy, limit)) {
                if own.iter().all(|(name, _)| *name != limit.name()) {
                    own.push((limit.name(), 0));
                }
            }
            own
        });
        Self {
            active: call.active,
            key: call.key,
            amounts,
        }
    }

    /// Whether they refuse it now: nobody else is to wait for those. What cannot be told here the
    /// limits tell.
    async fn refuse(&self) -> bool {
        let Some(amounts) = &self.amounts else {
            return false;
        };
        let peeked = self.active.peek(self.key, Request::named(amounts)).await;
        peeked.is_ok_and(|decision| !decision.admitted())
    }
}

fn refused(policy: &str, error: &FairError) -> Refusal {
    match error {
        FairError::Stopped => Refusal::closing(&error.to_string()),
        error => Refusal::turn(policy, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(key: &str) -> Policy {
        let text = format!("[policy.llm]\n{key}\nlimits.calls = {{ calls = 5, per = '1s' }}");
        let read = tidegate_policy::parse("p.toml", &text).expect("a policy");
        read.policies.into_iter().next().expect("one")
    }

    #[test]
    fn callers_share_the_first_level_of_their_keys_or_the_key() {
        let levels = policy("key = 'account/caller'");
        let flat = policy("");
        let split = |policy, key: &'static str| split(policy, key.as_bytes(), b"credential");
        assert_eq!(split(&levels, "acme/alice"), (&b"acme"[..], &b"alice"[..]));
        assert_eq!(split(&levels, "acme"), (&b"acme"[..], &b"credential"[..]));
        assert_eq!(split(&levels, "/acme/alice"), split(&levels, "acme/alice"));
        assert_eq!(
            split(&flat, "acme/alice"),
            (&b"acme/alice"[..], &b"credential"[..])
        );
    }

    #[test]
    fn a_queue_is_there_while_somebody_uses_it() {
        let queues = Queues::new();
        let first = queues.queue("llm", b"a");
        assert!(Arc::ptr_eq(&first, &queues.queue("llm", b"a")));
        assert!(!Arc::ptr_eq(&first, &queues.queue("llm", b"b")));
        for number in 0..1_000_u32 {
            queues.queue("llm", &number.to_be_bytes());
        }
        assert!(Arc::ptr_eq(&first, &queues.queue("llm", b"a")));
        assert!(queues.queues.lock().unwrap().len() < 100);
    }
}
