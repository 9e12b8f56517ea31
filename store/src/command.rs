//! What can be asked of a store, as data: it can cross a process or a network.

use std::borrow::Cow;
use std::fmt;
use std::iter;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Amount, Bounds, Span, Timestamp};

use crate::key::KeyPath;
use crate::listing::Listing;
use crate::plan::Plan;
use crate::race::Race;
use crate::sync::Mutex;
use crate::timer::{Timer, TimerHandler};
use crate::usage::Hours;

/// One command. It borrows everything and is `Copy`: a table that answers at once copies
/// nothing, one that answers later makes it an [`OwnedCommand`](crate::OwnedCommand).
#[derive(Clone, Copy, Debug)]
pub struct Command<'c> {
    /// The rules it is decided by.
    pub plan: &'c Arc<Plan>,
    /// The caller's clock, one instant for all of a batch; a store with a clock of its
    /// own ignores it.
    pub now: Timestamp,
    /// For each of the plan's limits that follows a calendar, its boundaries.
    /// Empty if none does.
    pub calendars: &'c [Option<Bounds>],
    /// What it is about.
    pub op: Op<'c>,
    /// How a take with a lease waits for its turn; `None`: a refusal is the answer.
    pub patience: Option<&'c Patience>,
}

/// What a command is about.
#[derive(Clone, Copy, Debug)]
pub enum Op<'c> {
    /// One key and its ancestors, as one step. Answered as the [`Verb`] says.
    One(KeyPath<'c>, Verb<'c>),
    /// Each by itself; those of one root in this order and at one instant, and of all where the
    /// caller's clock decides. Answered by
    /// [`Reply::Batch`](crate::Reply::Batch). Its takes do not wait.
    Batch(&'c [Item<'c>]),
    /// The limits are the command's plan from now on: nothing is decided by an older
    /// one any more, and what drained until now has drained at the older one's rate.
    /// Answered by [`Reply::Done`](crate::Reply::Done).
    Adopt,
    /// A page of the keys (and ancestors) whose state matters. Answered by
    /// [`Reply::Keys`](crate::Reply::Keys).
    ListKeys(Listing<'c>),
    /// A page of the leases that are held. Answered by
    /// [`Reply::Leases`](crate::Reply::Leases).
    ListLeases(Listing<'c>),
    /// A page of what was used in some hours, by rows of these keys: what is kept of it as
    /// of now. Leases of the keys on it that have expired are ended first, so that what they give back
    /// is not on it ([`RootsOnPage`](crate::RootsOnPage)). Answered by
    /// [`Reply::Usage`](crate::Reply::Usage).
    ListUsage(Listing<'c>, Hours),
    /// How many keys the table holds. Answered by
    /// [`Reply::Count`](crate::Reply::Count).
    Count,
}

/// One of a batch.
pub type Item<'c> = (KeyPath<'c>, Verb<'c>);

/// One verb on one key and its ancestors, executed as one step.
#[derive(Clone, Copy, Debug)]
pub struct KeyCommand<'c> {
    /// The rules it is decided by.
    pub plan: &'c Arc<Plan>,
    /// Who or what is limited.
    pub key: KeyPath<'c>,
    /// The caller's clock; a store with a clock of its own ignores it.
    pub now: Timestamp,
    /// For each of the plan's limits that follows a calendar, its boundaries.
    /// Empty if none does.
    pub calendars: &'c [Option<Bounds>],
    /// What to do.
    pub verb: Verb<'c>,
}

impl<'c> Command<'c> {
    /// This command's verb on `key` alone.
    #[must_use]
    pub const fn one(&self, key: KeyPath<'c>, verb: Verb<'c>) -> KeyCommand<'c> {
        KeyCommand {
            plan: self.plan,
            key,
            now: self.now,
            calendars: self.calendars,
            verb,
        }
    }

    /// Whether a lease that it is granted stays for a retry, if nobody takes the answer.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        match (self.patience, self.op) {
            (Some(patience), _) => patience.retried,
            (None, Op::One(_, verb)) => verb.terms().is_some_and(|t| t.idempotency.is_some()),
            (None, _) => false,
        }
    }

    /// The same command, about something else, without patience.
    #[must_use]
    pub const fn about(&self, op: Op<'c>) -> Self {
        Self {
            plan: self.plan,
            now: self.now,
            calendars: self.calendars,
            op,
            patience: None,
        }
    }
}

impl<'c> From<KeyCommand<'c>> for Command<'c> {
    fn from(one: KeyCommand<'c>) -> Self {
        Self {
            plan: one.plan,
            now: one.now,
            calendars: one.calendars,
            op: Op::One(one.key, one.verb),
            patience: None,
        }
    }
}

/// How a request waits in its root's queue.
#[derive(Clone, Debug)]
pub struct Patience {
    /// What its place is known by: random, and no other request's. After
    /// [`StoreError::StalePlan`](crate::StoreError::StalePlan) the place is kept for a
    /// command with the same turn by the newer plan, until the [`Seat`] is dropped (a
    /// store beyond a network keeps it for a moment).
    pub turn: u128,
    /// How much earlier than it did it counts as having come.
    pub ahead: Span,
    /// How long it waits from when it came; `None`: without end.
    pub longest: Option<Duration>,
    /// When it came, by its caller's clock.
    pub since: Timestamp,
    /// It hopes for refunds: it waits also where its rates cannot admit it in time
    /// unless something comes back to them. Any other is refused there at once.
    pub for_refunds: bool,
    /// If it waits in other tables' queues, too: which of them grants.
    pub race: Option<Arc<Race>>,
    /// While this holds it, it is passed over, and keeps its place.
    pub hold: Option<Arc<dyn Hold>>,
    /// Its caller may go away and ask again by the same idempotency key: then what it
    /// was granted stays for the retry, until it expires.
    pub retried: bool,
    /// Its caller's clock, for a queue in the caller's process.
    pub timer: Arc<dyn Timer>,
    /// Keeps its place while it asks again.
    pub seat: Seat,
}

impl Patience {
    /// The instant after which its rates need not admit it; `None` if it waits for
    /// whatever may come.
    #[must_use]
    pub fn deadline_of_rates(&self) -> Option<Timestamp> {
        let longest = self.longest.filter(|_| !self.for_refunds)?;
        Some(self.since + Span::from(longest))
    }
}

/// What may hold a request that waits: it is passed over meanwhile.
pub trait Hold: Send + Sync + fmt::Debug {
    /// Until when, if it does at `now`. What `again` answers is fired when that changes
    /// before, once for each `caller`, if it is there still.
    fn until(
        &self,
        now: Timestamp,
        caller: u64,
        again: &dyn Fn() -> Weak<dyn TimerHandler>,
    ) -> Option<Timestamp>;
}

/// A place in a queue, which is given back when this is dropped. A clone keeps none.
#[derive(Default)]
pub struct Seat(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Seat {
    /// `leave` gives the place back, if it is there still; it must not block. It takes
    /// the place of an earlier one.
    pub fn keep(&self, leave: impl FnOnce() + Send + 'static) {
        *self.0.lock() = Some(Box::new(leave));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let leave = self.0.lock().take();
        if let Some(leave) = leave {
            leave();
        }
    }
}

impl Clone for Seat {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seat")
    }
}

/// What to do. Amounts stand in the order of the plan's limits; 0 leaves a
/// limit out, and so does a level that the key does not reach.
// Told apart by a byte of its own, and not by a spare value in 128 bits of a lease's.
#[repr(u8)]
#[derive(Clone, Copy, Debug)]
pub enum Verb<'a> {
    /// Take the amounts if all fit; with terms, as a lease.
    Take {
        /// How much of each limit.
        amounts: &'a [Amount],
        /// The lease to make; none for a charge that is never settled.
        lease: Option<Terms<'a>>,
        /// When to add the standings.
        detail: Detail,
    },
    /// Charge the amounts whether they fit or not.
    Debit {
        /// How much of each limit.
        amounts: &'a [Amount],
    },
    /// Answer what a take would, and where everything stands; change nothing.
    Peek {
        /// How much of each limit.
        amounts: &'a [Amount],
    },
    /// End a lease.
    End {
        /// Which.
        id: u128,
        /// How.
        ending: Ending<'a>,
        /// Remember the answer for a retry (by the plan's `keep`).
        remember: bool,
    },
    /// Move a lease's expiry.
    Renew {
        /// Which.
        id: u128,
        /// To when.
        until: Timestamp,
    },
    /// Change how much a lease has taken, all or nothing. More is charged now; less is
    /// given back where it was charged, the latest first. A shadow of which it never
    /// took anything stays so. Answered as a take is.
    Adjust {
        /// Which.
        id: u128,
        /// How much it is to have taken of each limit from now on, in all; `None`: as it
        /// has. So to say it twice changes nothing the second time.
        to: &'a [Option<Amount>],
        /// Whether more is charged even if it does not fit. Slots must fit in any case.
        overdraw: bool,
        /// When to add the standings.
        detail: Detail,
    },
    /// Forget the key (not its ancestors), as if never seen. Leases stay.
    Reset,
}

/// The lease that a take makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms<'a> {
    /// Its id: 128 random bits.
    pub id: u128,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// The same bytes on the same key again give the same lease.
    pub idempotency: Option<&'a [u8]>,
    /// It may be *partial*: it takes of each limit as much of what it asks for as is there,
    /// and this much of each at least, in the plan's order; else nothing, and the refusal is
    /// that of the least. Of a shadow it asks for all. Answered by
    /// [`Reply::Partial`](crate::Reply::Partial) when it is granted. It neither waits nor
    /// has an idempotency key: whoever lost its answer cancels it by its id.
    pub least: Option<&'a [Amount]>,
}

/// How a lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending<'a> {
    /// This much was used of each of the plan's limits; `None`: as taken.
    Settle(&'a [Option<Amount>]),
    /// All that was taken was used; what is held comes back.
    Release,
    /// The work failed: for each of the plan's limits, whether its amount is
    /// given back.
    Fail(&'a [bool]),
    /// Nothing was used: everything comes back.
    Cancel,
}

impl<'v> Verb<'v> {
    /// The same, with every instant in it by another clock.
    #[must_use]
    pub fn translated(self, translate: impl Fn(Timestamp) -> Timestamp) -> Self {
        match self {
            Self::Take {
                amounts,
                lease,
                detail,
            } => Self::Take {
                amounts,
                lease: lease.map(|terms| Terms {
                    expires_at: translate(terms.expires_at),
                    ..terms
                }),
                detail,
            },
            Self::Renew { id, until } => Self::Renew {
                id,
                until: translate(until),
            },
            verb => verb,
        }
    }

    /// Whether it may give something back, so that a request that waits has its turn. A renewal
    /// moves the instant at which a lease's slots come back.
    #[must_use]
    pub const fn gives_back(&self) -> bool {
        match self {
            Self::End { .. } | Self::Renew { .. } | Self::Adjust { .. } | Self::Reset => true,
            Self::Take { .. } | Self::Debit { .. } | Self::Peek { .. } => false,
        }
    }

    /// The lease that it is about, or would make.
    #[must_use]
    pub const fn lease(&self) -> Option<u128> {
        match self {
            Self::Take {
                lease: Some(terms), ..
            } => Some(terms.id),
            Self::End { id, .. } | Self::Renew { id, .. } | Self::Adjust { id, .. } => Some(*id),
            Self::Take { lease: None, .. }
            | Self::Debit { .. }
            | Self::Peek { .. }
            | Self::Reset => None,
        }
    }

    /// What must fit so that a take is admitted: what it asks for, or of one that may be partial
    /// the [least](Terms::least), but no more than that. `None` for any other verb.
    #[must_use]
    pub fn must_fit(&self) -> Option<Cow<'v, [Amount]>> {
        let Self::Take { amounts, lease, .. } = *self else {
            return None;
        };
        let Some(least) = lease.and_then(|terms| terms.least) else {
            return Some(Cow::Borrowed(amounts));
        };
        let least = least.iter().copied().chain(iter::repeat(0));
        let bounded = amounts.iter().zip(least);
        Some(bounded.map(|(amount, least)| least.min(*amount)).collect())
    }

    /// The terms of the lease that a take would make.
    #[must_use]
    pub const fn terms(&self) -> Option<Terms<'v>> {
        match self {
            Self::Take { lease, .. } => *lease,
            _ => None,
        }
    }
}

/// When an answer carries standings (which cost divisions).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Detail {
    /// Never: the verdict alone.
    Verdict,
    /// When refused.
    #[default]
    OnRefusal,
    /// Always.
    Always,
}
