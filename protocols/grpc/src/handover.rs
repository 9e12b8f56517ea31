//! A lease goes along with the body that tells of it, until the server has taken that
//! to be written.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Frame, SizeHint};
use tidegate_service::Undelivered;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::Response;

/// A body with a lease in it.
struct Handover {
    body: Body,
    lease: Arc<Undelivered>,
}

/// Puts the lease that goes along with a response into its body.
pub fn with_its_lease(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<Arc<Undelivered>>() {
        Some(lease) => response.map(|body| Body::new(Handover { body, lease })),
        None => response,
    }
}

impl http_body::Body for Handover {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(Some(Ok(_)))) {
            self.lease.deliver();
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

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use tidegate::{Ask, Key};
    use tidegate_service::{Entry, Scope, Served, Service};

    use super::*;

    const POLICY: &str = "[policy.p.limits]\nslot = { concurrency = 1, ttl = '1h' }";

    /// A response that tells of the only lease there is.
    async fn response(served: &Arc<Served>) -> Option<Response<Body>> {
        let key = Key::from("k");
        let entry = served.acquire(key, Ask::default()).await.unwrap();
        let Entry::Granted(ticket) = entry else {
            return None;
        };
        let mut response = Response::new(Body::new("lease".to_owned()));
        let lease = Undelivered::new(served, key, &ticket);
        response.extensions_mut().insert(Arc::new(lease));
        Some(with_its_lease(response))
    }

    #[tokio::test]
    async fn a_lease_whose_answer_is_dropped_is_given_back_and_one_that_was_read_is_not() {
        let file = tidegate_policy::parse("p.toml", POLICY).unwrap();
        let service = Service::builder().build(&file).unwrap();
        let everyone = service.enter(None).unwrap();
        let served = service.policy(&everyone, Scope::Decide, "p").unwrap();
        drop(response(&served).await.expect("it is free"));
        let told = response(&served).await.expect("it was given back");
        let mut body = told.into_body();
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        assert!(frame.await.is_some());
        drop(body);
        assert!(response(&served).await.is_none(), "it is held");
    }
}
