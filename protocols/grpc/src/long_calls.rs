//! Calls that stay open: how many, in all and of one token.

use tidegate_protocol::{Permits, Share, Shares};
use tidegate_service::{Caller, Crowded, ServiceError};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use crate::error::status;

/// One of these permits, which bound what `crowded` says.
pub fn permit(permits: &Permits, crowded: Crowded) -> Result<OwnedSemaphorePermit, Status> {
    let permit = permits.take();
    permit.ok_or_else(|| status(&ServiceError::Busy(crowded)))
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
        let busy = |crowded| status(&ServiceError::Busy(crowded));
        let mut share = self.0.take().ok_or_else(|| busy(Crowded::Streams))?;
        let may = share.belong_to(caller.token());
        may.then_some(share).ok_or_else(|| busy(Crowded::OfToken))
    }
}
