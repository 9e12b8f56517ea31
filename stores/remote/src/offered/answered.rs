//! A response, and what is given back if nobody takes it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// A response on its way to who asked.
#[derive(Debug)]
pub struct Answered {
    /// The response.
    pub body: Vec<u8>,
    /// What it grants, if that is given back where nobody takes it.
    pub undelivered: Option<Undelivered>,
}

impl From<Vec<u8>> for Answered {
    fn from(body: Vec<u8>) -> Self {
        Self {
            body,
            undelivered: None,
        }
    }
}

/// Leases that a response tells of. Dropped before they were
/// [delivered](Self::deliver), they are cancelled.
pub struct Undelivered {
    delivered: AtomicBool,
    give_back: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Undelivered {
    pub(super) fn new(give_back: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self {
            delivered: AtomicBool::new(false),
            give_back: Some(Box::new(give_back)),
        }
    }

    /// The response was taken to be written.
    pub fn deliver(&self) {
        self.delivered.store(true, Ordering::Relaxed);
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if !*self.delivered.get_mut()
            && let Some(give_back) = self.give_back.take()
        {
            give_back();
        }
    }
}

impl fmt::Debug for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undelivered")
            .field("delivered", &self.delivered)
            .finish_non_exhaustive()
    }
}
