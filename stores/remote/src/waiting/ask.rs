//! A take with a lease that outlives its call, and how it waits.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::core::{Amount, Bounds, Span, Timestamp};
use tidegate_contract::{
    Command, Detail, Ending, KeyPath, OwnedKey, Patience, Plan, StoreError, Terms, Verb,
};
use tokio::time::Instant;

/// A take with a lease that outlives its call, and how it waits.
#[derive(Debug)]
pub struct Waiting {
    plan: Arc<Plan>,
    key: OwnedKey,
    calendars: Box<[Option<Bounds>]>,
    amounts: Box<[Amount]>,
    detail: Detail,
    lease: u128,
    ttl: Span,
    idempotency: Option<Box<[u8]>>,
    patience: Patience,
    /// When it came here, by the caller's clock and by this machine's.
    came: (Timestamp, Instant),
}

impl Waiting {
    /// `None` for a command that is no take with a lease.
    #[must_use]
    pub fn of(command: &Command<'_>, patience: &Patience) -> Option<Self> {
        let Verb::Take {
            amounts,
            lease: Some(terms),
            detail,
        } = command.verb
        else {
            return None;
        };
        Some(Self {
            plan: Arc::clone(command.plan),
            key: OwnedKey::new(command.key.bytes()),
            calendars: command.calendars.into(),
            amounts: amounts.into(),
            detail,
            lease: terms.id,
            ttl: terms.expires_at.since(command.now),
            idempotency: terms.idempotency.map(Into::into),
            patience: *patience,
            came: (command.now, Instant::now()),
        })
    }

    /// The take, as of now: its lease lasts from when it is granted.
    ///
    /// # Errors
    /// The key is none under the plan's levels.
    pub fn take(&self) -> Result<Command<'_>, StoreError> {
        let now = self.now();
        let terms = Terms {
            id: self.lease,
            expires_at: now + self.ttl,
            idempotency: self.idempotency.as_deref(),
        };
        self.command(Verb::Take {
            amounts: &self.amounts,
            lease: Some(terms),
            detail: self.detail,
        })
    }

    /// What gives back a lease that nobody is there to be told of.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn cancel(&self) -> Result<Command<'_>, StoreError> {
        self.command(Verb::End {
            id: self.lease,
            ending: Ending::Cancel,
            remember: false,
        })
    }

    fn command<'c>(&'c self, verb: Verb<'c>) -> Result<Command<'c>, StoreError> {
        let key = KeyPath::new(self.key.bytes(), self.plan.levels());
        Ok(Command {
            plan: &self.plan,
            key: key.map_err(|error| StoreError::Unavailable(error.to_string()))?,
            now: self.now(),
            calendars: &self.calendars,
            verb,
        })
    }

    /// What its place is known by, and how much earlier it counts as having come.
    #[must_use]
    pub const fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Whether who asks again by the same key finds what this one was granted.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.idempotency.is_some()
    }

    /// The caller's clock, as far as it can be told here.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.came.0 + Span::from(self.came.1.elapsed())
    }

    /// Whoever asked has an answer within this time: its patience, and the `deadline` of
    /// one command.
    #[must_use]
    pub fn budget(&self, deadline: Duration) -> Duration {
        match self.patience.longest {
            None => Duration::MAX,
            Some(longest) => {
                let until = self.patience.since + Span::from(longest) + Span::from(deadline);
                until.since(self.now()).as_duration()
            }
        }
    }

    /// How long it still waits.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.budget(Duration::ZERO)
    }
}
