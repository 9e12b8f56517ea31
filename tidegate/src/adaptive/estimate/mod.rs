//! The algorithms: each has a state and goes on from one sample to the next.
//!
//! | room | holds |
//! |---|---|
//! | `bounds` | the least and the most of a limit, and the step of a logarithm |
//! | `average` | an average that forgets |
//! | `window` | samples gathered until they say something |
//! | `slope` | whether more in flight was more done |
//! | `aimd`, `vegas`, `gradient2`, `guarded_vegas` | one algorithm each |
//!
//! Each has `next(&mut self, limit, sample, bounds) -> limit`. All numbers are finite: signals and amounts
//! in flight come in bounded and above zero, and a limit is brought into its range after
//! each step.

mod aimd;
mod average;
mod bounds;
mod gradient2;
mod guarded_vegas;
mod slope;
mod vegas;
mod window;

pub(super) use aimd::Aimd;
pub(super) use bounds::Bounds;
pub(super) use gradient2::Gradient2;
pub(super) use guarded_vegas::GuardedVegas;
pub(super) use vegas::Vegas;
