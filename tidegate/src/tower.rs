//! A [`tower::Layer`](tower_layer::Layer) that lets requests through within a set's limits.
//!
//! Each request is one of a key, and takes as much as it says; while the service works on
//! it, what it has taken is held by a lease. So one layer does for rates, for concurrency,
//! and for both at once. Work may take longer than a lease lasts (of a concurrency limit 2
//! minutes, if neither the limit nor [`Share::ttl`] says more): then its slot is free again.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::tower::{LimitLayer, Share};
//! use tidegate::{Limit, LimitSet};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # async fn serve() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let set = LimitSet::new([
//!     Limit::calls("rps", 100, Duration::from_secs(1)),
//!     Limit::concurrency("running", 24),
//! ])?;
//! let service = ServiceBuilder::new()
//!     .layer(LimitLayer::new(set, |tenant: &String| Share::of(tenant.as_bytes())))
//!     .service(service_fn(|tenant: String| async move { Ok::<_, std::io::Error>(tenant) }));
//! assert_eq!(service.oneshot("acme".to_owned()).await?, "acme");
//! # Ok(())
//! # }
//! # let mut run = std::pin::pin!(serve());
//! # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! # assert!(matches!(run.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(()))));
//! ```
//!
//! With axum, put `HandleErrorLayer` before it: it turns [`LayerError::Refused`] into a
//! `429` with `Retry-After`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::Amount;
use tower_layer::Layer;
use tower_service::Service;

use crate::admission::Admission;
use crate::decision::Decision;
use crate::error::DecisionError;
use crate::request::Request;
use crate::set::LimitSet;

/// Whose a request is, and how much it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    key: Vec<u8>,
    cost: Amount,
    wait: Duration,
    ttl: Option<Duration>,
}

impl Share {
    /// A request of `key`: one of each limit of calls and concurrency, and a cost of 1 of
    /// each rate and budget. It does not wait.
    #[must_use]
    pub fn of(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            cost: 1,
            wait: Duration::ZERO,
            ttl: None,
        }
    }

    /// How much it takes of each rate and budget.
    #[must_use]
    pub fn cost(mut self, cost: Amount) -> Self {
        self.cost = cost;
        self
    }

    /// How long it may wait for its turn.
    #[must_use]
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = longest;
        self
    }

    /// How long the service may work on it at most (1 ms to 400 days; what the limits say
    /// if not said): after that its slot is another's, though it goes on.
    #[must_use]
    pub fn ttl(mut self, longest_work: Duration) -> Self {
        self.ttl = Some(longest_work);
        self
    }
}

/// Why a request was not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError<E> {
    /// The limits have refused it.
    #[error("{decision}")]
    Refused {
        /// Which limit, and until when.
        decision: Decision,
        /// How long to wait before it is worth while to ask again; `None`: the limits
        /// never admit as much, or only a release tells.
        retry_after: Option<Duration>,
    },
    /// What was asked makes no sense, or the store cannot tell.
    #[error(transparent)]
    Limits(DecisionError),
    /// The service's own.
    #[error(transparent)]
    Service(E),
}

/// Lets requests through within the limits of a set; `share` says of each whose it is and
/// how much it takes.
#[derive(Clone, Debug)]
pub struct LimitLayer<F> {
    set: LimitSet,
    share: F,
}

impl<F> LimitLayer<F> {
    /// A layer over `set`. Layers over clones of it share the limits.
    pub const fn new(set: LimitSet, share: F) -> Self {
        Self { set, share }
    }
}

impl<S, F: Clone> Layer<S> for LimitLayer<F> {
    type Service = LimitService<S, F>;

    fn layer(&self, service: S) -> Self::Service {
        LimitService {
            service,
            layer: self.clone(),
        }
    }
}

/// A service within limits: what [`LimitLayer`] makes.
///
/// What a request has taken is held from when it is admitted until the service has
/// answered (with a response whose body follows: until that begins), at most for as long
/// as its lease lasts. An error of the
/// service is work that failed, as [`Lease::fail`](crate::Lease::fail) says. A request that
/// is dropped while it waits takes nothing.
#[derive(Clone, Debug)]
pub struct LimitService<S, F> {
    service: S,
    layer: LimitLayer<F>,
}

impl<S, F, R> Service<R> for LimitService<S, F>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fn(&R) -> Share,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = LayerError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.service
            .poll_ready(context)
            .map_err(LayerError::Service)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (set, share) = (self.layer.set.clone(), (self.layer.share)(&request));
        // The one that was polled ready is called; its clone takes its place.
        let clone = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, clone);
        Box::pin(async move {
            let asked = Request::from(share.cost)
                .within(share.wait)
                .ttl_or(share.ttl);
            let admission = set.acquire(&share.key[..], asked).await;
            let mut lease = match admission.map_err(LayerError::Limits)? {
                Admission::Granted(lease) => lease,
                Admission::Refused(decision) => {
                    let retry_after = decision.retry_after();
                    return Err(LayerError::Refused {
                        decision,
                        retry_after,
                    });
                }
            };
            let answer = service.call(request).await.map_err(LayerError::Service);
            if answer.is_err() {
                lease.fail();
            }
            // Dropped, it is given back; nobody waits for that.
            drop(lease);
            answer
        })
    }
}
