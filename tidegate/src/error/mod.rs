//! What can go wrong, apart from a refusal, which is an answer.
//!
//! | room | holds |
//! |---|---|
//! | [`BuildError`] | limits, a set or a pool that cannot be made or changed so |
//! | [`RequestError`] | a request that makes no sense |
//! | [`DecisionError`] | why there is no decision: the request, the queue, the store |
//! | [`LeaseError`] | why nothing was done to a lease: the request, the lease, the store |
//! | [`LeaseEnd`] | how a lease ended, as far as is known |
//! | [`LockError`] | why there is no permit of a leased lock |
//! | [`FairError`] | why a request has no turn in a fair queue |
//! | [`UnknownMember`] | a name that no member of a pool has |
//! | [`Error`] | all of these in one |
//! | [`ErrorKind`] | what any of them means for its caller |

mod build;
mod decision;
mod fair;
mod kind;
mod lease;
mod lock;
mod member;
mod one;
mod request;

pub use build::BuildError;
pub use decision::DecisionError;
pub use fair::FairError;
pub use kind::ErrorKind;
pub use lease::{LeaseEnd, LeaseError};
pub use lock::LockError;
pub use member::UnknownMember;
pub use one::Error;
pub use request::RequestError;
