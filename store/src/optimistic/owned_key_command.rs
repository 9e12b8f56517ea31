//! A command that outlives its call: it owns everything it names.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::{Bounds, Timestamp};

use super::clock::Clock;
use crate::command::{Detail, KeyCommand, Verb};
use crate::error::StoreError;
use crate::key::{KeyError, KeyPath};
use crate::owned_command::OwnedVerb;
use crate::plan::Plan;

/// A command that outlives its call: it owns everything it names.
#[derive(Clone, Debug)]
pub struct OwnedKeyCommand {
    /// The plan it is decided by.
    pub plan: Arc<Plan>,
    /// The caller's clock.
    pub now: Timestamp,
    /// The boundaries of the plan's calendars.
    pub calendars: Box<[Option<Bounds>]>,
    pub(crate) key: Box<[u8]>,
    verb: OwnedVerb,
}

impl OwnedKeyCommand {
    /// All of `command`.
    #[must_use]
    pub fn of(command: &KeyCommand<'_>) -> Self {
        Self {
            plan: Arc::clone(command.plan),
            now: command.now,
            calendars: command.calendars.into(),
            key: command.key.bytes().into(),
            verb: OwnedVerb::of(command.verb),
        }
    }

    /// The root that everything it needs hangs on.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn root(&self) -> Result<&[u8], StoreError> {
        Ok(self.path()?.root())
    }

    /// The key's path.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn path(&self) -> Result<KeyPath<'_>, StoreError> {
        let path = KeyPath::stored(&self.key, self.plan.levels());
        path.map_err(|error: KeyError| StoreError::Unavailable(error.to_string()))
    }

    /// The command as of `now`. What it says of later instants is by its caller's
    /// clock, as its own `now` is: it is translated.
    pub(crate) fn command(&self, now: Timestamp) -> Result<KeyCommand<'_>, StoreError> {
        Ok(KeyCommand {
            plan: &self.plan,
            key: self.path()?,
            now,
            calendars: &self.calendars,
            verb: self.verb.lend().translated(|at| moved(at, self.now, now)),
        })
    }

    /// The lease that is ended or renewed, or would be made.
    pub(crate) fn lease(&self) -> Option<u128> {
        self.verb.lend().lease()
    }

    /// The idempotency key of the lease that would be made.
    pub(crate) fn idempotency(&self) -> Option<&[u8]> {
        self.verb.lend().terms()?.idempotency
    }

    /// Whether it takes, as a lease or not.
    #[must_use]
    pub fn is_take(&self) -> bool {
        matches!(self.verb.lend(), Verb::Take { .. })
    }

    /// A look at what a take would come to; `None` for any other command. What it
    /// asks for beside the verdict comes with it, where it is refused.
    #[must_use]
    pub fn peek(&self) -> Option<(Self, Detail)> {
        let verb = self.verb.lend();
        let (amounts, Verb::Take { detail, .. }) = (verb.must_fit()?, verb) else {
            return None;
        };
        let peek = Self {
            verb: OwnedVerb::of(Verb::Peek { amounts: &amounts }),
            ..self.clone()
        };
        Some((peek, detail))
    }

    /// The row of the key's path at `level`, the outermost first, if it reaches there.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn row_at(&self, level: usize) -> Result<Option<Cow<'_, [u8]>>, StoreError> {
        let path = self.path()?;
        Ok((level < path.depth()).then(|| path.row(level)))
    }

    /// Whether both may be decided by one plan, in one step, where that clock decides.
    #[must_use]
    pub fn fits(&self, other: &Self, clock: Clock) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && (clock == Clock::Server || self.now == other.now)
    }

    /// Whether a lease is made, moved or ended by it, or left out of what it does.
    #[must_use]
    pub fn is_about_leases(&self) -> bool {
        let verb = self.verb.lend();
        verb.lease().is_some() || verb.gives_back()
    }

    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.verb.lend(), Verb::Reset)
    }
}

/// An instant by the clock that stood at `from`, by that which stands at `to`.
/// "Never" stays.
#[must_use]
pub fn moved(at: Timestamp, from: Timestamp, to: Timestamp) -> Timestamp {
    match at {
        Timestamp::MAX | Timestamp::MIN => at,
        at if to >= from => at + to.since(from),
        at => at - from.since(to),
    }
}
