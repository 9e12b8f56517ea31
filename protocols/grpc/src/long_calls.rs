//! Calls that stay open: how many, in all and of one token.

use tidegate_protocol::{Permits, Share, Shares};
use tidegate_service::{Caller, ServiceError};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use crate::error::status;

/// One of these permits.
pub fn permit(permits: &Permits) -> Result<OwnedSemaphorePermit, Status> {
    let permit = permits.take();
    permit.ok_or_else(|| status(&ServiceError::Busy))
}

/// One of these permits for `caller`.
pub fn share(shares: &Shares, caller: &Caller) -> Result<Share, Status> {
    let share = shares.take();
    let share = share.and_then(|mut share| share.belong_to(caller.token()).then_some(share));
    share.ok_or_else(|| status(&ServiceError::Busy))
}

/// Permits for calls that stay open, of which one token has only some.
#[derive(Clone, Debug)]
pub struct LongCalls(Shares);

impl LongCalls {
    pub fn new(most: usize, most_of_one: usize) -> Self {
        Self(Shares::new(most).with_most_of_one(most_of_one))
    }

    /// A permit for `caller`. Callers without a token cannot be told apart.
    pub fn take(&self, caller: &Caller) -> Result<Share, Status> {
        share(&self.0, caller)
    }
}
