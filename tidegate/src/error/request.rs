//! A request that makes no sense.

use std::time::Duration;

use tidegate_store::KeyError;

use super::kind::ErrorKind;
use crate::key::MAX_IDEMPOTENCY_KEY;
use crate::limit::AmountError;

/// What is wrong with a request, its key or its amounts. Nothing was changed, and the same
/// request never makes sense.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A key that cannot be one.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A key of fewer or more levels than those of the set.
    #[error("the key has {levels} of {needed} levels: {}", how_to_mend(*.levels, *.needed))]
    KeyDepth {
        /// How many levels the key has.
        levels: usize,
        /// How many levels the set's keys have.
        needed: usize,
    },
    /// No limit at the levels that the key has.
    #[error(
        "the key has {depth} of {levels} levels, and none of them has a limit that was requested; send a key of every level, or name a limit of these levels"
    )]
    KeyTooShort {
        /// How many levels the key has.
        depth: usize,
        /// How many levels the set has.
        levels: usize,
    },
    /// It names a limit that the set does not have.
    #[error("there is no limit `{name}` here; there is {known}")]
    UnknownLimit {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A [limit](crate::LimitId) that another set has found.
    #[error("the request has a limit of another set; find it in this one, by its name")]
    OtherSet,
    /// A [limit](crate::LimitId) that was removed since it was found, or has another name.
    #[error(
        "the request has a limit that was removed or renamed since it was found; there is {known}"
    )]
    LimitRemoved {
        /// The names there are.
        known: String,
    },
    /// It names a limit twice.
    #[error("the request names limit `{0}` twice; add the amounts up")]
    NamedTwice(String),
    /// A rate without an amount.
    #[error("limit `{0}` needs an amount: name it with one (`{0}=N`), or give the request a cost")]
    NoAmount(String),
    /// Everything is excluded, or the cost is 0.
    #[error("the request takes nothing; ask for at least one unit of some limit")]
    NothingRequested,
    /// An amount that cannot be one.
    #[error("limit `{limit}`: {source}")]
    Amount {
        /// The limit's name.
        limit: String,
        /// What is wrong with the amount.
        source: AmountError,
    },
    /// An idempotency key that is empty or too long.
    #[error(
        "an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY} bytes, not {0}; {help}",
        help = other_key(*.0)
    )]
    IdempotencyKey(usize),
    /// A lease that would last too short or too long.
    #[error("a lease lasts from 1 ms to 400 days, not {0:?}")]
    LeaseLength(Duration),
    /// A limit of which no units are granted to be spent elsewhere.
    #[error(
        "no grant is made of `{limit}`, which {why}: use acquire, or put the limit into a policy of its own"
    )]
    CannotGrant {
        /// The limit's name.
        limit: String,
        /// What is in the way.
        why: &'static str,
    },
    /// A grant that would be held too short or too long.
    #[error("a grant is held from 10 ms to 60 s, not {0:?}")]
    Hold(Duration),
    /// A concurrency limit was asked without a lease to give it back by.
    #[error("limit `{0}` is held while in use: take it with acquire, or name it with 0 (`{0}=0`)")]
    NeedsLease(String),
}

impl RequestError {
    /// What it means for its caller: [`ErrorKind::Invalid`].
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// What to change about a key of other levels than the set's.
fn how_to_mend(levels: usize, needed: usize) -> String {
    if levels > needed {
        return "write a `/` within a level as %2F".to_owned();
    }
    let example: Vec<_> = ('a'..='z').take(needed).map(String::from).collect();
    format!(
        "write every level, as in `{}`; or allow shorter keys with `partial_keys = true` in the policy",
        example.join("/")
    )
}

/// What to send in place of an idempotency key of so many bytes.
const fn other_key(length: usize) -> &'static str {
    match length {
        0 => "send at least one, or no key at all",
        _ => "send a hash of it",
    }
}
