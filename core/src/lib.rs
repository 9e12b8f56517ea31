//! Decides. `(state, request, now) -> (new state, decision)`, and nothing else.
//!
//! | room | holds |
//! |---|---|
//! | [`time`] | the project's own instants and spans, in microseconds |
//! | [`amount`] | how much, in a limit's own units |
//! | `range` | what the numbers of a rule may be |
//! | [`charge`] | what every kernel is told with a charge, and what it answers |
//! | [`kernel`] | one file for each algorithm, all of one shape |
//! | [`rule`] | the dispatch over the kernels |
//! | [`compose`](mod@compose) | several limits as one all-or-nothing step |
//! | [`packed_bucket`] | a bucket's state in one 64-bit number, for compare-and-swap |
//! | [`codec`] | versioned bytes of a state |
//! | [`units`] | what a node was granted in advance, and may still spend |
//! | [`drift`] | how far two clocks may disagree about a length of time |
//!
//! Deliberately absent: clocks, keys, names, locks, I/O, floats, time zones.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

pub mod amount;
pub mod charge;
pub mod codec;
pub mod compose;
pub mod drift;
pub mod error;
pub mod kernel;
pub mod packed_bucket;
mod range;
pub mod rule;
pub mod time;
pub mod units;
pub mod verdict;

pub use amount::{Amount, MAX_AMOUNT};
pub use charge::{Bounds, ChargeReference, DecisionTime, LeaseTerm, Receipt};
pub use compose::{Composite, Part, Payment, commit, compose};
pub use drift::{DRIFT, sure_until};
pub use error::{DecodeError, RuleError};
pub use kernel::{Align, Bucket, BucketLevel, Log, Ring, Slots, Window};
pub use packed_bucket::PackedBucket;
pub use rule::{Rule, State};
pub use time::{Span, Timestamp};
pub use units::Units;
pub use verdict::{Forecast, Standing, Verdict};
