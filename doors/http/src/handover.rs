//! A lease that nobody received is given back.
//!
//! Between the grant and the client lies a response that may never be sent: the
//! connection may be gone by then. So the lease travels with the body, and is
//! cancelled when the body is dropped before the server has taken it to be
//! written. What happens to the bytes from there on, nobody can know: such a
//! lease comes back at its expiry.
//!
//! An ask with an idempotency key is left alone: whoever sends one means to ask
//! again, and is to find the lease then, not the end of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tidegate::gate::{Served, Ticket};
use tidegate::{Key, LeaseId};

/// Cancels a lease when it is dropped, unless it was delivered.
pub(crate) struct Undelivered {
    served: Arc<Served>,
    key: Vec<u8>,
    id: LeaseId,
    delivered: bool,
}

impl Undelivered {
    /// Watches over `ticket`.
    pub(crate) fn new(served: &Arc<Served>, key: Key<'_>, ticket: &Ticket) -> Self {
        Self {
            served: Arc::clone(served),
            key: key.bytes().to_vec(),
            id: ticket.id,
            delivered: false,
        }
    }

    /// `body`, with the lease in it.
    pub(crate) fn with(self, body: Body) -> Handover {
        Handover { body, lease: self }
    }
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        if !self.delivered {
            // An error here has no one to go to: the store gives back at expiry.
            let _ = self.served.cancel(Key::from(&self.key), self.id);
        }
    }
}

/// A body with a lease in it.
pub(crate) struct Handover {
    body: Body,
    lease: Undelivered,
}

impl http_body::Body for Handover {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        self.lease.delivered |= matches!(frame, Poll::Ready(Some(Ok(_))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
