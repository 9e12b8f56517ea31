//! A request for a permit, from its first word to the permit.
//!
//! At a store beyond a network an answer may be lost. There the request carries a word of
//! its own, so that asking again finds what the lost answer granted, and an old
//! request that arrives late takes nothing more. What is found so is given up,
//! and asked for anew under another word: the store may have been told to take
//! it back already. At a store that loses none it carries no word: the store need not
//! remember any, and takes its shortest way.

use std::future::Future;
use std::time::Duration;

use rand::RngExt;
use tidegate_core::{Span, Timestamp};
use tidegate_store::StoreError;

use super::permit::LeasedPermit;
use super::semaphore::{LeasedSemaphore, Shared};
use crate::admission::Admission;
use crate::clock::Sleep;
use crate::decision::Decision;
use crate::error::{DecisionError, LeaseError, LockError};
use crate::lease::Lease;
use crate::limit::Limit;
use crate::pending::Pending;
use crate::request::{DEFAULT_WAIT, Request};

/// The pause after the first answer that did not come, and the longest.
const PAUSES: (Span, Span) = (Span::from_millis(50), Span::from_secs(1));

/// One ask.
struct Attempt<'s> {
    of: &'s LeasedSemaphore,
    until: Option<Timestamp>,
    /// `None`: no answer can be lost.
    word: Option<[u8; 16]>,
    /// When the request under way was made.
    came: Timestamp,
    /// Since when nobody answers, and the next pause.
    silence: Option<(Timestamp, Span)>,
}

enum Answer {
    Told(Option<LeasedPermit>),
    /// It is to be asked anew.
    Again,
}

impl LeasedSemaphore {
    /// A permit, if it need not be waited for. `None`: not now.
    ///
    /// # Errors
    /// [`LockError::NeverFits`]: more slots than there are. *Cannot tell*: if the
    /// store granted it all the same, the slot is back within its ttl.
    pub fn try_acquire(
        &self,
    ) -> Pending<impl Future<Output = Result<Option<LeasedPermit>, LockError>> + Send> {
        self.acquire_within(Duration::ZERO)
    }

    /// A permit, waited for at most [30 seconds](DEFAULT_WAIT); for longer, see
    /// [`acquire_within`](Self::acquire_within). Given up before its end, it gives back
    /// its place and what it was given.
    ///
    /// A store that does not answer is asked again for as long as one ttl, in such
    /// a way that a lost answer never takes a second slot.
    ///
    /// # Errors
    /// [`LockError::WaitedTooLong`]. [`LockError::NeverFits`]: more slots than there are.
    /// [`LockError::QueueFull`]. *Cannot tell*: if the store granted it all the same, the slot
    /// is back within its ttl.
    pub fn acquire(&self) -> Pending<impl Future<Output = Result<LeasedPermit, LockError>> + Send> {
        Pending::new(async move {
            let permit = acquire(self, DEFAULT_WAIT).await?;
            permit.ok_or(LockError::WaitedTooLong(DEFAULT_WAIT))
        })
    }

    /// A permit, if it need not be waited for longer than this; [`Duration::MAX`] waits for
    /// ever. `None`: not in that time.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but that it was not in time.
    pub fn acquire_within(
        &self,
        longest_wait: Duration,
    ) -> Pending<impl Future<Output = Result<Option<LeasedPermit>, LockError>> + Send> {
        Pending::new(acquire(self, longest_wait))
    }
}

/// Takes a permit. `None`: not in that time.
async fn acquire(
    semaphore: &LeasedSemaphore,
    longest_wait: Duration,
) -> Result<Option<LeasedPermit>, LockError> {
    let now = semaphore.shared.clock.now();
    let mut attempt = Attempt {
        of: semaphore,
        until: (longest_wait < Duration::MAX).then(|| now + Span::from(longest_wait)),
        // A try is not repeated: what it takes and nobody is told of is given back.
        word: match longest_wait.is_zero() {
            true => None,
            false => word(semaphore),
        },
        came: now,
        silence: None,
    };
    loop {
        match attempt.ask().await {
            Ok(Answer::Told(permit)) => return Ok(permit),
            Ok(Answer::Again) => attempt.silence = None,
            Err(error) => attempt.pause_after(error).await?,
        }
    }
}

/// The shortest wait.
const LEAST: Duration = Duration::from_micros(1);

/// Another word each time, if the store can lose an answer.
fn word(semaphore: &LeasedSemaphore) -> Option<[u8; 16]> {
    let loses_answers = semaphore.shared.set.inner().loses_answers;
    loses_answers.then(|| rand::rng().random())
}

impl Attempt<'_> {
    async fn ask(&mut self) -> Result<Answer, LockError> {
        let shared = &self.of.shared;
        let came = shared.clock.now();
        self.came = came;
        match self.admission(came).await? {
            Admission::Refused(decision) if decision.is_never() => Err(self.too_many(&decision)),
            Admission::Refused(_) => Ok(Answer::Told(None)),
            Admission::Granted(lease) if lease.is_repeated() => {
                self.give_up(lease).await?;
                Ok(Answer::Again)
            }
            Admission::Granted(mut lease) => {
                told(shared, &mut lease).await?;
                let permit = LeasedPermit::begin(shared, lease)?;
                Ok(Answer::Told(Some(permit)))
            }
        }
    }

    async fn admission(&self, now: Timestamp) -> Result<Admission, DecisionError> {
        let LeasedSemaphore {
            shared,
            key,
            slots,
            priority,
        } = self.of;
        let wanted = [(shared.limit.as_str(), *slots)];
        let request = Request::named(&wanted).ttl(shared.ttl).priority(*priority);
        let left = self.until.map(|until| until.since(now).as_duration());
        let left = left.unwrap_or(Duration::MAX);
        let request = match &self.word {
            // Also the last try stands in line: what it takes and nobody is told of is given back.
            Some(word) => request.own_word(word).within(left.max(LEAST)),
            None => request.within(left),
        };
        shared.set.acquire(&**key, request).await
    }

    /// There are fewer slots than are requested.
    fn too_many(&self, decision: &Decision) -> LockError {
        let limit = &self.of.shared.limit;
        LockError::NeverFits {
            limit: limit.clone(),
            requested: self.of.slots,
            capacity: decision.most_at_once().unwrap_or(0),
            unit: decision
                .limit(limit)
                .map(Limit::amounts)
                .unwrap_or_default(),
        }
    }

    /// What an earlier request was granted, and nobody was told.
    async fn give_up(&mut self, lease: Lease) -> Result<(), LeaseError> {
        let id = lease.detach();
        let set = &self.of.shared.set;
        match set.cancel(&*self.of.key, id).await {
            Ok(_) | Err(LeaseError::Ended(_) | LeaseError::Unknown) => {
                self.word = word(self.of);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Waits until it is asked again.
    ///
    /// # Errors
    /// `error`, if it is not about an answer that did not come, or if there is no
    /// time left.
    async fn pause_after(&mut self, error: LockError) -> Result<(), LockError> {
        let may_pass =
            |store: &StoreError| store.outage().is_some() || matches!(store, StoreError::Busy(_));
        if !matches!(&error, LockError::Store(store) if may_pass(store)) {
            return Err(error);
        }
        let clock = &self.of.shared.clock;
        let now = clock.now();
        let ttl = Span::from(self.of.shared.ttl);
        // A request that lasted so long stood in line: it was heard of meanwhile.
        let silence = self.silence.filter(|_| now.since(self.came) < ttl);
        let (since, pause) = silence.unwrap_or((now, PAUSES.0));
        let last = since + ttl;
        let last = self.until.map_or(last, |until| until.min(last));
        if now >= last {
            return Err(error);
        }
        let longer = Span::from_micros(pause.as_micros() * 2).min(PAUSES.1);
        self.silence = Some((since, longer));
        // Not all at once, when the store is back.
        let pause = rand::rng().random_range(pause.as_micros() / 2..=pause.as_micros());
        let again = (now + Span::from_micros(pause)).min(last);
        Sleep::until(clock.clone(), again).await;
        Ok(())
    }
}

/// Makes sure of a lease that was just granted. One of which little is left (it was long
/// under way, or its holder was busy when its turn came) is renewed first.
async fn told(shared: &Shared, lease: &mut Lease) -> Result<(), LockError> {
    let left = lease.sure_until().since(shared.clock.now());
    if left.as_duration() >= shared.ttl / 2 {
        return Ok(());
    }
    match lease.renew(shared.ttl).await {
        Err(LeaseError::Ended(_) | LeaseError::Unknown) => return Err(too_slow()),
        renewed => renewed?,
    };
    match lease.is_held() {
        true => Ok(()),
        false => Err(too_slow()),
    }
}

fn too_slow() -> LockError {
    let why = "the answer came when the permit had expired; give it a longer ttl";
    StoreError::Unavailable(why.to_owned()).into()
}
