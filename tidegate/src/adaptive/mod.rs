//! A limit of what an upstream can serve at once, learnt from how its answers come.
//!
//! For upstreams that say nothing of their limits. Each piece of work that ends is a
//! [`Sample`]; an [`Estimator`] makes a limit of samples and grants nothing itself. An
//! [`AdaptiveLimit`] gives that to a concurrency limit of a set as its capacity, which
//! travels with each command, so that any store will do.
//!
//! ```
//! use tidegate::adaptive::{AdaptiveLimit, Estimator};
//! use tidegate::{Admission, Limit, LimitSet};
//!
//! let set = LimitSet::new([Limit::concurrency("upstream", 20).adaptive()])?;
//! let upstream = AdaptiveLimit::new(set, "upstream", Estimator::default())?;
//! match upstream.acquire("eu", ()).wait()? {
//!     // ... the call; `dropped` if it timed out or was refused with a 429 or a 503.
//!     Admission::Granted(permit) => permit.succeeded(),
//!     Admission::Refused(decision) => println!("{decision}"),
//! }
//! # Ok::<(), tidegate::Error>(())
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`Sample`] | what one piece of work said of the upstream |
//! | [`Estimator`] | samples in, a limit out; pure |
//! | `estimate` | the algorithms: AIMD, Vegas, Gradient2, guarded Vegas |
//! | `shared` | an estimator, and the set that its limit is given to |
//! | [`AdaptiveLimit`] | a limit of a set that goes by an estimator |
//! | [`AdaptivePermit`] | what is held, and how the work went |
//!
//! # Which signal
//!
//! A signal is a time that grows when the upstream has too much to do, and for no other
//! reason: the time until the first token or the first byte, the time for each token, or
//! the latency of calls that are all alike. The latency of a stream is none: it is
//! proportional to what was asked for.
//!
//! # Several processes
//!
//! Each process estimates from what it sees, and the capacity that it sends is the bound
//! for all that are in flight on the store, whoever took it. So what is held of a key never
//! exceeds the largest of the processes' limits, and not their sum. A sample has in flight what the
//! store had, so that the estimates of all processes are of the same thing.
//!
//! Deliberately absent: limits that a provider tells
//! ([`LimitSet::set_capacity`](crate::LimitSet::set_capacity) takes them), and a form over
//! [`Semaphore`](crate::Semaphore), whose permits cannot be made fewer: a set in memory is
//! the form for one process.

mod estimate;
mod estimator;
mod limit;
mod permit;
mod sample;
mod shared;

pub use estimator::Estimator;
pub use limit::AdaptiveLimit;
pub use permit::AdaptivePermit;
pub use sample::Sample;
