//! Calls that stay open: how many, in all and of one token.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_protocol::Permits;
use tidegate_service::{Caller, ServiceError};
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use crate::error::status;

/// One of these permits.
pub fn permit(permits: &Permits) -> Result<OwnedSemaphorePermit, Status> {
    let permit = permits.take();
    permit.ok_or_else(|| status(&ServiceError::Busy))
}

/// Permits for calls that stay open, of which one token has only some.
#[derive(Clone, Debug)]
pub struct LongCalls {
    all: Permits,
    most_of_one: usize,
    of_tokens: Arc<OfTokens>,
}

/// How many calls each token has open; nothing of those that have none.
#[derive(Debug, Default)]
struct OfTokens(Mutex<HashMap<String, usize>>);

/// A permit, given back when this is dropped.
#[derive(Debug)]
pub struct LongCall {
    of_token: Option<(String, Arc<OfTokens>)>,
    _permit: OwnedSemaphorePermit,
}

impl LongCalls {
    pub fn new(most: usize, most_of_one: usize) -> Self {
        Self {
            all: Permits::new(most),
            most_of_one,
            of_tokens: Arc::default(),
        }
    }

    /// A permit for `caller`. Callers without a token cannot be told apart.
    pub fn take(&self, caller: &Caller) -> Result<LongCall, Status> {
        let mut call = LongCall {
            _permit: permit(&self.all)?,
            of_token: None,
        };
        if let Some(token) = caller.token() {
            let mut of_tokens = self.of_tokens.lock();
            let open = of_tokens.entry(token.to_owned()).or_default();
            if *open >= self.most_of_one {
                return Err(status(&ServiceError::Busy));
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
