//! May this work start now, and how much may it use?
//!
//! Limits for everything that runs out (calls, tokens, money, connections,
//! slots), taken together, all or nothing, from threads and from tasks.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{Admission, Limit, LimitSet};
//!
//! let minute = Duration::from_secs(60);
//! let set = LimitSet::new([
//!     Limit::calls("rpm", 300, minute),
//!     Limit::rate("tpm", 600_000, minute).burst(900_000),
//!     Limit::concurrency("running", 24),
//! ])?;
//! match set.try_acquire("acme/alice", &[("tpm", 4_000)]).wait()? {
//!     Admission::Granted(mut lease) => {
//!         // ... do the work, then report what it really used:
//!         lease.settle(&[("tpm", 3_120)]).wait()?;
//!     }
//!     Admission::Refused(decision) => println!("not until {:?}", decision.not_until()),
//! }
//! # Ok::<(), tidegate::Error>(())
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`Limit`], [`Period`], [`Unit`] | one constraint with a name |
//! | [`LimitId`] | a limit of a set, found by its name once |
//! | [`LimitSet`], [`Handle`] | limits taken together; one key without look-up |
//! | [`Pending`] | a verb: awaited, or waited for on a thread |
//! | [`Request`], [`Decision`], [`Admission`], [`Lease`], [`Loss`] | request, answer, what is held, why it is lost |
//! | [`LimitPool`], [`Balance`] | several sets that can serve the same work |
//! | [`Tier`] | counts near the caller: units taken from the store in advance |
//! | [`fair`] | a queue before limits, fair between tenants by what they use |
//! | [`workers`] | threads and tasks that do jobs within limits |
//! | [`Semaphore`], [`Mutex`] | slots of this process, fair, for threads and tasks |
//! | [`lock`] | semaphores and mutexes at any store: renewed, fenced, lost in time |
//! | [`adaptive`] | a limit learnt from how an upstream answers |
//! | [`Clock`], [`ManualClock`] | the time, and time for tests |
//! | `tower` | a layer that lets requests through within limits (feature `tower`) |
//!
//! Deliberately absent: policy files (the crate `tidegate-policy`), protocols, and stores other than the embedded
//! one, which is named in one file, `embedded.rs`.
#![forbid(unsafe_code)]

pub mod adaptive;
mod admission;
mod clock;
mod decision;
#[cfg(feature = "memory")]
mod embedded;
mod error;
pub mod fair;
#[doc(hidden)]
pub mod internal;
mod keep_alive;
mod key;
mod lease;
mod lease_id;
mod limit;
pub mod lock;
mod outcome;
mod pending;
mod permit;
mod pool;
mod random;
mod request;
mod set;
mod statistics;
#[cfg(feature = "tower")]
pub mod tower;
pub mod workers;

pub use admission::Admission;
pub use clock::{Clock, ManualClock, TimeSource};
pub use decision::Decision;
pub use error::UnknownMember;
pub use error::{BuildError, DecisionError, Error, ErrorKind, LeaseEnd, LeaseError, RequestError};
pub use keep_alive::Loss;
pub use key::{Key, MAX_IDEMPOTENCY_KEY};
pub use lease::{Lease, Settlement, Usage};
pub use lease_id::{LeaseId, NoLeaseId};
pub use limit::{Algorithm, AmountError, Limit, LimitError, LimitId, LimitName};
pub use limit::{OnFailure, Period, Unit};
pub use outcome::Outcome;
pub use pending::Pending;
pub use permit::{AcquireError, Mutex, MutexGuard, Permit, Semaphore};
pub use pool::{Balance, Balancer, LimitPool, LimitPoolBuilder, Member};
pub use request::{DEFAULT_WAIT, Request};
pub use set::SHORTEST_USAGE;
pub use set::{Grant, Handle, LimitSet, LimitSetBuilder, Metadata, Override};
pub use set::{LONGEST_PAGE, LONGEST_USAGE, ListedKey, ListedLease, ListedUsage, PageOf};
pub use statistics::Statistics;
pub use tidegate_core::{Amount, Forecast, MAX_AMOUNT, Span, Standing, Timestamp, Verdict};
pub use tidegate_store::{Count, KeyError, Page, Select, Store, StoreError};
pub use tidegate_tier::{Tier, TierError, TierStatistics};

/// The pages that show the library are compiled.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/start/rust.md")]
    struct Start;
    #[doc = include_str!("../../docs/library.md")]
    struct Library;
    #[doc = include_str!("../../docs/library/adaptive-concurrency.md")]
    struct AdaptiveConcurrency;
    #[doc = include_str!("../../docs/library/fair-queue.md")]
    struct FairQueue;
    #[doc = include_str!("../../docs/reference/locks.md")]
    struct Locks;
}
