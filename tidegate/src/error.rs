//! What can go wrong, apart from a refusal, which is an answer.

use tidegate_core::Amount;
use tidegate_store::{KeyError, StoreError};

use crate::key::MAX_IDEMPOTENCY_KEY;
use crate::limit::{AmountError, LimitError, Unit};

/// *Cannot tell*, or a request that makes no sense. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A limit that makes no sense.
    #[error("limit `{limit}`: {source}")]
    Limit {
        /// Its name.
        limit: String,
        /// What is wrong with it.
        source: LimitError,
    },
    /// Two limits of one set have the same name.
    #[error("limit `{0}` is defined twice; names are unique in a set")]
    DuplicateLimit(String),
    /// A set or pool without anything in it.
    #[error("it is empty; add at least one {0}")]
    Nothing(&'static str),
    /// Two members of one pool have the same name.
    #[error("member `{0}` is added twice; names are unique in a pool")]
    DuplicateMember(String),
    /// A member that would never be chosen.
    #[error("member `{0}` has weight 0; leave it out, or give it at least 1")]
    ZeroWeight(String),
    /// The pool has no member of that name.
    #[error("there is no member `{name}` here; there is {known}")]
    UnknownMember {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A pool was told what was used, and not where.
    #[error("say which member is meant: there is {0}")]
    MemberNeeded(String),
    /// A member was named where there is no pool.
    #[error("this policy is no pool: it has no members to name or to cool down")]
    NoPool,
    /// More levels than a key may have.
    #[error("{0} levels are too many; at most 8 are possible")]
    TooManyLevels(usize),
    /// A key that cannot be one.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The request names a limit that the set does not have.
    #[error("there is no limit `{name}` here; there is {known}")]
    UnknownLimit {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The request names a limit twice.
    #[error("the request names limit `{0}` twice; add the amounts up")]
    NamedTwice(String),
    /// A rate without an amount.
    #[error("limit `{0}` needs an amount: name it in the request, or give the request a cost")]
    NoAmount(String),
    /// Everything is excluded, or the cost is 0.
    #[error("the request takes nothing; ask for at least one unit of some limit")]
    NothingAsked,
    /// An amount that cannot be one.
    #[error("limit `{limit}`: {source}")]
    Amount {
        /// The limit's name.
        limit: String,
        /// What is wrong with the amount.
        source: AmountError,
    },
    /// More slots of a leased lock than it has. (A set or pool answers a request for more
    /// than it ever grants by a [decision](crate::Decision::is_never).)
    #[error(
        "limit `{limit}` never grants {} at once; at most {}",
        unit.show(*asked),
        unit.show(*capacity)
    )]
    NeverFits {
        /// The limit's name.
        limit: String,
        /// What was asked of it.
        asked: Amount,
        /// The most it grants.
        capacity: Amount,
        /// What both count.
        unit: Unit,
    },
    /// A cost for rates that count different units.
    #[error(
        "limits `{one}` and `{other}` have different units, so that one cost cannot be of both; name their amounts instead"
    )]
    CostOfUnits {
        /// A rate that the cost would be of.
        one: String,
        /// Another one, whose unit is another.
        other: String,
    },
    /// An idempotency key that is empty or too long.
    #[error(
        "an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY} bytes, not {0}; {help}",
        help = other_key(*.0)
    )]
    IdempotencyKey(usize),
    /// A lease that would last too short or too long.
    #[error("a lease lasts from 1 ms to 400 days, not {0:?}")]
    LeaseLength(std::time::Duration),
    /// An override for a key of another level than the limit is about.
    #[error(
        "limit `{limit}` is about level {about} of a key (counted from 0), and this key has level {level}; set the override for a key of that level"
    )]
    OtherLevel {
        /// The limit's name.
        limit: String,
        /// The level that it is about, the outermost 0.
        about: usize,
        /// The key's level.
        level: usize,
    },
    /// Overrides are bounded.
    #[error("{0} overrides are set already; remove some, or give those keys a policy of their own")]
    TooManyOverrides(usize),
    /// The overrides of a policy's set are set at its service.
    #[error("the overrides of this set are its service's; set them there")]
    Governed,
    /// A key of fewer or more levels than those of the set.
    #[error("the key has {levels} of {needed} levels{}", how_to_mend(*.levels < *.needed))]
    KeyDepth {
        /// How many levels the key has.
        levels: usize,
        /// How many levels the set's keys have.
        needed: usize,
    },
    /// No limit at the levels that the key has.
    #[error(
        "the key has {depth} of {levels} levels, and none of them has a limit that was requested"
    )]
    KeyTooShort {
        /// How many levels the key has.
        depth: usize,
        /// How many levels the set has.
        levels: usize,
    },
    /// A concurrency limit was asked without a lease to give it back by.
    #[error("limit `{0}` is held while in use: take it with acquire, or leave it out with `{0}=0`")]
    NeedsLease(String),
    /// A capacity was set for a limit whose capacity is its own.
    #[error(
        "limit `{0}` is not adaptive: declare it with `.adaptive()`, or replace it with put_limit"
    )]
    NotAdaptive(String),
    /// The queue of those who wait is full.
    #[error("{0} requests wait already; raise max_waiting or shed load")]
    QueueFull(usize),
    /// No slot of a leased lock was free in the time that it was waited for.
    #[error(
        "no slot was free within {0:?}; wait longer with acquire_within (of a mutex, lock_within), or add slots"
    )]
    WaitedTooLong(std::time::Duration),
    /// *Cannot tell*: the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The worker pool has stopped.
    #[error(
        "the server is closing (or the runtime that the workers need has ended); request again elsewhere, or later"
    )]
    Stopped,
    /// No worker could be started at all.
    #[error("no worker could be started: {0}")]
    NoWorker(String),
}

/// What an [`Error`] means for its caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request, the limit or the set makes no sense: change it.
    Invalid,
    /// There is no such lease (any more).
    NotFound,
    /// The lease has ended, or has expired.
    Ended,
    /// More slots of a leased lock than it has.
    Never,
    /// Too many requests wait, or it was waited for too long: try again.
    Busy,
    /// The set, or the root of the key, holds as many keys or leases as it may.
    Full,
    /// *Cannot tell*: the store failed or is busy, or everything is being closed.
    Unavailable,
}

impl Error {
    /// What it means for its caller.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NeverFits { .. } => ErrorKind::Never,
            Self::QueueFull(_) | Self::WaitedTooLong(_) => ErrorKind::Busy,
            Self::Stopped | Self::NoWorker(_) => ErrorKind::Unavailable,
            Self::Store(error) => of_store(error),
            _ => ErrorKind::Invalid,
        }
    }
}

const fn of_store(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::UnknownLease => ErrorKind::NotFound,
        StoreError::LeaseEnded(_) => ErrorKind::Ended,
        StoreError::KeysFull { .. }
        | StoreError::RootKeysFull { .. }
        | StoreError::LeasesFull { .. }
        | StoreError::RootLeasesFull { .. } => ErrorKind::Full,
        StoreError::UnknownPage | StoreError::CannotList => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    }
}

/// What to change about a key of other levels than the set's.
const fn how_to_mend(is_short: bool) -> &'static str {
    match is_short {
        true => {
            ": write every level, as in `acme/alice`; or allow shorter keys with `partial_keys = true` in the policy (in Rust `.partial_keys()`)"
        }
        false => ": write a `/` within a level as %2F",
    }
}

/// What to send in place of an idempotency key of so many bytes.
const fn other_key(length: usize) -> &'static str {
    match length {
        0 => "send at least one, or no key at all",
        _ => "send a hash of it",
    }
}
