//! How many requests are read and answered at once.
//!
//! A place is taken when the head of a request has come, before its message is
//! read, and goes with the request: whoever drops that gives it back. Nobody
//! queues for one: who is told at once can go elsewhere.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_service::{Caller, ServiceError};
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
        place.map_err(|_| words::status(&ServiceError::Busy))
    }
}

/// The places of calls that stay open, of which one token has only some.
#[derive(Clone, Debug)]
pub struct LongCalls {
    all: Places,
    most_of_one: usize,
    of_tokens: Arc<OfTokens>,
}

/// How many calls each token has open; nothing of those that have none.
#[derive(Debug, Default)]
struct OfTokens(Mutex<HashMap<String, usize>>);

/// A place, given back when this is dropped.
#[derive(Debug)]
pub struct LongCall {
    of_token: Option<(String, Arc<OfTokens>)>,
    _place: OwnedSemaphorePermit,
}

impl LongCalls {
    pub fn new(most: usize, most_of_one: usize) -> Self {
        Self {
            all: Places::new(most),
            most_of_one,
            of_tokens: Arc::default(),
        }
    }

    /// A place for `caller`. Callers without a token cannot be told apart.
    pub fn place(&self, caller: &Caller) -> Result<LongCall, Status> {
        let mut call = LongCall {
            _place: self.all.place()?,
            of_token: None,
        };
        if let Some(token) = caller.token() {
            let mut of_tokens = self.of_tokens.lock();
            let open = of_tokens.entry(token.to_owned()).or_default();
            if *open >= self.most_of_one {
                return Err(words::status(&ServiceError::Busy));
            }
            *open += 1;
            call.of_token = Some((token.to_owned(), Arc::clone(&self.of_tokens)));
        }
        Ok(call)
    }
}

impl OfTokens {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LongCall {
    fn drop(&mut self) {
        let Some((token, of_tokens)) = self.of_token.take() else {
            return;
        };
        if let Entry::Occupied(mut open) = of_tokens.lock().entry(token) {
            *open.get_mut() -= 1;
            if *open.get() == 0 {
                open.remove();
            }
        }
    }
}
