//! A take with a lease that outlives its call, and how it waits.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::core::{Bounds, Span, Timestamp};
use tidegate_store::{
    Command, Ending, Hold, KeyCommand, Op, OwnedPath, OwnedVerb, Plan, Race, Reply, Verb,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A take with a lease that outlives its call, and how it waits.
#[derive(Debug)]
pub struct Waiting {
    plan: Arc<Plan>,
    key: OwnedPath,
    calendars: Box<[Option<Bounds>]>,
    take: OwnedVerb,
    lease: u128,
    ttl: Span,
    is_idempotent: bool,
    patience: Turn,
    /// When it came here, by the caller's clock and by this machine's.
    came: (Timestamp, Instant),
    /// Its caller gives its place up. Nothing comes if it asks again, or does not wait.
    left: Option<oneshot::Receiver<()>>,
}

/// How it waits. One that does not is given its answer, or the lease back, all the same.
#[derive(Debug)]
pub struct Turn {
    /// What its place is known by.
    pub turn: u128,
    /// How much earlier than it did it counts as having come.
    pub ahead: Span,
    /// How long it waits from when it came.
    pub longest: Option<Duration>,
    /// When it came, by its caller's clock.
    pub since: Timestamp,
    /// When its rates have to admit it, if it hopes for no refunds.
    pub deadline_of_rates: Option<Timestamp>,
    /// Which of several tables grants.
    pub race: Option<Arc<Race>>,
    /// What may hold it meanwhile.
    pub hold: Option<Arc<dyn Hold>>,
    /// What it was granted stays for a retry.
    pub retried: bool,
}

impl Turn {
    fn of(command: &Command<'_>, lease: u128) -> Self {
        let retried = command.is_retried();
        match command.patience {
            Some(patience) => Self {
                turn: patience.turn,
                ahead: patience.ahead,
                longest: patience.longest,
                since: patience.since,
                deadline_of_rates: patience.deadline_of_rates(),
                race: patience.race.clone(),
                hold: patience.hold.clone(),
                retried,
            },
            None => Self {
                turn: lease,
                ahead: Span::ZERO,
                longest: Some(Duration::ZERO),
                since: command.now,
                deadline_of_rates: None,
                race: None,
                hold: None,
                retried,
            },
        }
    }
}

impl Waiting {
    /// `None` for a command that is no take with a lease.
    #[must_use]
    pub fn of(command: &Command<'_>) -> Option<Self> {
        let Op::One(key, verb) = command.op else {
            return None;
        };
        let terms = verb.terms()?;
        let left = command.patience.map(|patience| {
            let (leave, left) = oneshot::channel();
            patience.seat.keep(move || {
                // Nobody listens any more once it was answered.
                let _ = leave.send(());
            });
            left
        });
        Some(Self {
            left,
            plan: Arc::clone(command.plan),
            key: OwnedPath::of(&key),
            calendars: command.calendars.into(),
            take: OwnedVerb::of(verb),
            lease: terms.id,
            ttl: terms.expires_at.since(command.now),
            is_idempotent: terms.idempotency.is_some(),
            patience: Turn::of(command, terms.id),
            came: (command.now, Instant::now()),
        })
    }

    /// The take, as of now: its lease lasts from when it is granted.
    #[must_use]
    pub fn take(&self) -> KeyCommand<'_> {
        let now = self.now();
        let take = self.take.lend().translated(|_| now + self.ttl);
        KeyCommand {
            plan: &self.plan,
            key: self.key.lend(),
            now,
            calendars: &self.calendars,
            verb: take,
        }
    }

    /// What gives back a lease that nobody is there to be told of, by the limits of now.
    #[must_use]
    pub fn cancel<'c>(&'c self, plan: &'c Arc<Plan>) -> KeyCommand<'c> {
        KeyCommand {
            plan,
            key: self.key.lend(),
            now: self.now(),
            // They stand in the order of the take's limits. What is given back needs
            // none: it goes where it was charged.
            calendars: &[],
            verb: Verb::End {
                id: self.lease,
                ending: Ending::Cancel,
                remember: false,
            },
        }
    }

    /// The limits that it asks by.
    #[must_use]
    pub const fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Whether what it says of its calendars is over: a window of today is in none.
    pub(super) fn is_outdated(&self) -> bool {
        let now = self.now();
        let mut windows = self.calendars.iter().flatten();
        windows.any(|bounds| bounds.next_end <= now)
    }

    /// Whether what it was told, by its caller's clock, leaves nothing to wait for.
    pub(super) fn is_too_late(&self, reply: &Reply) -> bool {
        match (reply, self.patience.deadline_of_rates) {
            (Reply::Decision(decision), Some(deadline)) => {
                decision.is_too_late_for(&self.plan, deadline)
            }
            _ => false,
        }
    }

    /// Ends when its caller gives its place up; `false` if it asks again.
    pub(super) async fn is_left(&mut self) -> bool {
        match &mut self.left {
            Some(left) => left.await.is_ok(),
            None => false,
        }
    }

    /// What its place is known by, and how much earlier it counts as having come.
    #[must_use]
    pub const fn patience(&self) -> &Turn {
        &self.patience
    }

    /// Whether who asks again by the same key finds what this one was granted.
    #[must_use]
    pub const fn is_idempotent(&self) -> bool {
        self.is_idempotent
    }

    /// The caller's clock, as far as it can be told here: one that does not wait is asked
    /// as of when it came.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self.patience.longest {
            Some(Duration::ZERO) => self.came.0,
            _ => self.came.0 + Span::from(self.came.1.elapsed()),
        }
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
