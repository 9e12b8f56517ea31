//! A lease goes along with the body that tells of it, until the server has taken that
//! to be written.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tidegate_service::Undelivered;

/// A body that tells of a lease. Dropped before it was read, it gives the lease back.
#[derive(Debug)]
pub struct Delivery<B> {
    body: B,
    lease: Arc<Undelivered>,
}

impl<B> Delivery<B> {
    /// `body`, which tells of `lease`.
    pub const fn new(body: B, lease: Arc<Undelivered>) -> Self {
        Self { body, lease }
    }
}

impl<B: Body + Unpin> Body for Delivery<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
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
    use tidegate::{Key, Request};
    use tidegate_service::{Acquired, ActivePolicy, Scope, Service};

    use super::*;

    const POLICY: &str = "[policy.p.limits]\nslot = { concurrency = 1, ttl = '1h' }";

    /// A body that tells of the only lease there is.
    async fn body(active: &Arc<ActivePolicy>) -> Option<Delivery<String>> {
        let key = Key::from("k");
        let Acquired::Granted(granted) = active.acquire(key, Request::default()).await.unwrap()
        else {
            return None;
        };
        let lease = Undelivered::new(active, key, &granted);
        Some(Delivery::new("lease".to_owned(), Arc::new(lease)))
    }

    #[tokio::test]
    async fn a_lease_whose_answer_is_dropped_is_given_back_and_one_that_was_read_is_not() {
        let file = tidegate_policy::parse("p.toml", POLICY).unwrap();
        let service = Service::builder().build(&file).unwrap();
        let everyone = service.enter(None).unwrap();
        let active = service.policy(&everyone, Scope::Decide, "p").unwrap();
        drop(body(&active).await.expect("it is free"));
        let mut told = body(&active).await.expect("it was given back");
        let frame = std::future::poll_fn(|context| Pin::new(&mut told).poll_frame(context));
        assert!(frame.await.is_some());
        drop(told);
        assert!(body(&active).await.is_none(), "it is held");
    }
}
