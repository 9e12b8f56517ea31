//! A service within the limits of a set.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::admitted::{self, Answering};
use super::error::LayerError;
use super::share::Share;
use crate::lease::Lease;
use crate::set::LimitSet;

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
    type Future = Answering<S, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        admitted::poll_ready(&mut self.service, context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (set, share) = (self.layer.set.clone(), (self.layer.share)(&request));
        let admission = async move { set.acquire(&share.key[..], share.request()).await };
        // Dropped, it is given back; nobody waits for that.
        let end = |mut lease: Lease, answer: &Result<_, _>| {
            if answer.is_err() {
                lease.fail();
            }
        };
        admitted::call(&mut self.service, request, admission, end)
    }
}
