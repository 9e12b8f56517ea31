//! A queue before limits, fair between tenants by what they use.
//!
//! | room | holds |
//! |---|---|
//! | [`FairRequest`] | a request as the queue sees it: flow, cost, weight, priority, wait |
//! | [`Bounds`], [`MAX_WEIGHT`], [`PRIORITIES`] | how many flows and requests there may be, and more |
//! | [`Priorities`] | how priorities share |
//! | `account` | virtual time, and its correction by the true cost |
//! | `flows` | the flows of one priority |
//! | [`Schedule`], [`WaiterId`], [`Head`], [`Started`], [`Popped`] | who is next: pure |
//! | [`FairQueue`], [`FairQueueBuilder`], [`Dispatch`], [`FairCharge`] | who waits: a turn, and what was charged for it |
//! | [`Limits`] | what it stands before: sets and pools |
//! | [`FairError`] | why there is no turn |

mod account;
mod bounds;
mod flows;
mod limits;
mod priorities;
mod queue;
mod request;
mod schedule;

pub use crate::error::FairError;
pub use bounds::{Bounds, MAX_WEIGHT, PRIORITIES};
pub use limits::Limits;
pub use priorities::Priorities;
pub use queue::{Dispatch, FairCharge, FairQueue, FairQueueBuilder};
pub use request::FairRequest;
pub use schedule::{Head, Popped, Schedule, Started, WaiterId};
