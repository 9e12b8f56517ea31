//! How many requests are read and answered at once.
//!
//! A place is taken when the head of a request has come, before its message is
//! read, and goes with the request: whoever drops that gives it back. Nobody
//! queues for one: who is told at once can go elsewhere.

use std::sync::Arc;

use tidegate::gate::GateError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::codegen::http::Extensions;

use crate::words;

/// The places of one door.
#[derive(Clone, Debug)]
pub struct Places(Arc<Semaphore>);

impl Places {
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Semaphore::new(most)))
    }

    /// Gives the request that these belong to a place, for as long as they are
    /// kept.
    pub fn take(&self, request: &mut Extensions) -> Result<(), Status> {
        let place = Arc::new(self.place()?);
        request.insert(place);
        Ok(())
    }

    /// A place by itself.
    pub fn place(&self) -> Result<OwnedSemaphorePermit, Status> {
        let place = Arc::clone(&self.0).try_acquire_owned();
        place.map_err(|_| words::status(&GateError::Busy))
    }
}
