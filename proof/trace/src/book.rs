//! What the provider has decided, and what it has told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_sim::call::Call;
use tidegate_sim::sim::{Reply, Sim};

use crate::course::{BEGIN, Course};

/// A call that the provider has decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decided {
    /// When.
    pub at: Duration,
    /// What it was to be charged.
    pub tokens: u64,
    /// Whether it was let in.
    pub admitted: bool,
    /// When its caller has the answer.
    pub answered: Duration,
}

/// All of them, in order of time.
#[derive(Clone, Default, Debug)]
pub struct Book(Arc<Mutex<Vec<Decided>>>);

impl Book {
    /// The provider of a course, whose decisions are written down here.
    #[must_use]
    pub fn provider(&self, course: &Course, seed: u64) -> Sim {
        let book = self.clone();
        let sim = Sim::new(course.provider(), seed, BEGIN);
        sim.seen_by(move |now, call, reply| book.write(now, call, reply))
    }

    fn decided(&self) -> MutexGuard<'_, Vec<Decided>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, now: Timestamp, call: &Call, reply: &Reply) {
        let at = now.since(BEGIN).as_duration();
        let (admitted, takes) = match reply {
            Reply::Answer(answer, _) => (true, answer.pace.whole(answer.tokens).as_duration()),
            Reply::Refusal(_) => (false, Duration::ZERO),
        };
        self.decided().push(Decided {
            at,
            tokens: call.prompt + call.bound.unwrap_or(0),
            admitted,
            answered: at + takes,
        });
    }

    /// When the next answer after `at` is due.
    #[must_use]
    pub fn next_answer(&self, at: Duration) -> Option<Duration> {
        let decided = self.decided();
        // No answer takes longer than a minute: those before need not be looked at.
        let recent = decided
            .iter()
            .rev()
            .take_while(|one| one.at + Duration::from_secs(60) > at);
        recent
            .map(|one| one.answered)
            .filter(|answered| *answered > at)
            .min()
    }

    /// How many decisions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.decided().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decided().is_empty()
    }

    /// All decisions.
    #[must_use]
    pub fn take(&self) -> Vec<Decided> {
        std::mem::take(&mut self.decided())
    }
}
