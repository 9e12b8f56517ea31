//! A lease on its way to who asked: given back if its response is not taken to be written.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tidegate_remote::offered::Undelivered;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::Response;

/// Puts the leases that go along with a response into its body.
pub fn with_its_leases(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<Arc<Undelivered>>() {
        Some(leases) => response.map(|body| Body::new(Delivery { body, leases })),
        None => response,
    }
}

/// A body that tells of leases. Dropped before it was read, it gives them back.
struct Delivery {
    body: Body,
    leases: Arc<Undelivered>,
}

impl http_body::Body for Delivery {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(Some(Ok(_)))) {
            self.leases.deliver();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
