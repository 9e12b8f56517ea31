//! The connection that a request came by.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tidegate_protocol::Share;
use tokio::sync::Notify;

/// Who is at the other end, and whose share of the connections it is.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: Option<SocketAddr>,
    share: Mutex<Share>,
    /// It is to be closed, since its token has too many.
    over: Notify,
}

impl Connection {
    pub(crate) fn new(peer: Option<SocketAddr>, share: Share) -> Self {
        Self {
            peer,
            share: Mutex::new(share),
            over: Notify::new(),
        }
    }

    /// Counts among this token's connections; whether it may. One too many is closed once
    /// this is answered.
    pub(crate) fn belong_to(&self, token: Option<&str>) -> bool {
        let mut share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        let may = share.belong_to(token);
        if !may {
            self.over.notify_one();
        }
        may
    }

    /// Ends when it is one too many.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }
}
