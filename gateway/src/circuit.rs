//! Upstreams that no connection can be made to: a circuit breaker for each.
//!
//! A pool passes over such a member for a while: it cools down. When that is over one call tries it,
//! and all others pass over it until that call has a connection.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Member, Timestamp};

use crate::settings::Upstream;

/// Each upstream's circuit.
pub struct Circuits(Vec<(String, Circuit)>);

#[derive(Default)]
struct Circuit(Mutex<State>);

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum State {
    /// Any call goes there.
    #[default]
    Closed,
    /// No connection could be made; the next call tries it.
    Open,
    /// A call tries it.
    Tried,
}

/// A call on its way to an upstream, which has no connection yet.
pub struct Attempt<'c> {
    circuit: &'c Circuit,
    /// It is the one call that tries it.
    is_trial: bool,
    /// The member that is passed over meanwhile, and until when.
    passed_over: Option<(Member, Timestamp)>,
}

impl Circuits {
    pub fn new(upstreams: &[Upstream]) -> Self {
        let one = |upstream: &Upstream| (upstream.name.clone(), Circuit::default());
        Self(upstreams.iter().map(one).collect())
    }

    /// A call goes to that member of a pool, and has a connection `within` that time or none.
    ///
    /// # Errors
    /// [`Taken`].
    pub fn enter(&self, member: &Member, within: Duration) -> Result<Option<Attempt<'_>>, Taken> {
        let mut circuits = self.0.iter();
        let circuit = circuits.find(|(name, _)| name == member.name());
        let Some((_, circuit)) = circuit else {
            return Ok(None);
        };
        let mut attempt = Attempt {
            circuit,
            is_trial: circuit.begins_trial()?,
            passed_over: None,
        };
        if attempt.is_trial {
            // One that cools down for another reason goes on with that.
            let is_ready = member.cooling().is_none();
            let until = member.cool_down(within);
            attempt.passed_over = is_ready.then(|| (member.clone(), until));
        }
        Ok(Some(attempt))
    }
}

/// Another call tries it just now.
#[derive(Debug)]
pub struct Taken;

impl Circuit {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the call that comes now is the one that tries it.
    fn begins_trial(&self) -> Result<bool, Taken> {
        let mut state = self.state();
        match *state {
            State::Closed => Ok(false),
            State::Open => {
                *state = State::Tried;
                Ok(true)
            }
            State::Tried => Err(Taken),
        }
    }
}

impl Attempt<'_> {
    /// It has a connection: nobody passes over the member any more.
    pub fn connected(mut self) {
        *self.circuit.state() = State::Closed;
        if let Some((member, until)) = self.passed_over.take()
            && member.cooling() == Some(until)
        {
            member.end_cool_down();
        }
    }

    /// No connection could be made.
    pub fn failed(self) {
        let mut state = self.circuit.state();
        if *state == State::Closed {
            *state = State::Open;
        }
    }
}

/// A trial that has found nothing out leaves it to the next call.
impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.circuit.state();
        if self.is_trial && *state == State::Tried {
            *state = State::Open;
        }
    }
}
