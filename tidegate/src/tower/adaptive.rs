//! A service within a limit that is learnt from its answers.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::admitted::{self, Answering};
use super::error::LayerError;
use super::share::Share;
use crate::adaptive::{AdaptiveLimit, AdaptivePermit};
use crate::outcome::Outcome;

/// Lets requests through within an [`AdaptiveLimit`]. `share` says of each whose it is and
/// how much it takes, `judge` of its answer how it went: [`Outcome::Dropped`] for a time-out,
/// a 429 or a 503, [`Outcome::Ignored`] for what says nothing of the service.
///
/// The signal is the time until the answer, that is until a response's body begins, unless
/// `judge` tells the permit that [another was measured](AdaptivePermit::measured).
///
/// ```
/// use tidegate::adaptive::{AdaptiveLimit, AdaptivePermit, Estimator};
/// use tidegate::tower::{AdaptiveLayer, Share};
/// use tidegate::{Limit, LimitSet, Outcome};
/// use tower::{ServiceBuilder, ServiceExt, service_fn};
///
/// # async fn call() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// let set = LimitSet::new([Limit::concurrency("upstream", 20).adaptive()])?;
/// let limit = AdaptiveLimit::new(set, "upstream", Estimator::default())?;
/// let judge = |_: &mut AdaptivePermit, answer: &Result<u16, std::io::Error>| match answer {
///     Ok(429 | 503) | Err(_) => Outcome::Dropped,
///     Ok(400..) => Outcome::Ignored,
///     Ok(_) => Outcome::Succeeded,
/// };
/// let service = ServiceBuilder::new()
///     .layer(AdaptiveLayer::new(limit, |_: &&str| Share::of("all"), judge))
///     .service(service_fn(|_: &str| async { Ok::<_, std::io::Error>(200) }));
/// assert_eq!(service.oneshot("/v1/items").await?, 200);
/// # Ok(())
/// # }
/// # let mut run = std::pin::pin!(call());
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert!(matches!(run.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(()))));
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveLayer<F, J> {
    limit: AdaptiveLimit,
    share: F,
    judge: J,
}

impl<F, J> AdaptiveLayer<F, J> {
    /// A layer over `limit`. Layers over clones of it share what is learnt.
    pub const fn new(limit: AdaptiveLimit, share: F, judge: J) -> Self {
        Self {
            limit,
            share,
            judge,
        }
    }
}

impl<S, F: Clone, J: Clone> Layer<S> for AdaptiveLayer<F, J> {
    type Service = AdaptiveService<S, F, J>;

    fn layer(&self, service: S) -> Self::Service {
        AdaptiveService {
            service,
            layer: self.clone(),
        }
    }
}

/// A service within a limit that is learnt: what [`AdaptiveLayer`] makes.
///
/// A permit is held from when a request is admitted until the service has answered. An
/// error of the service is work that failed for its limits, as
/// [`Lease::fail`](crate::Lease::fail) says, whatever `judge` makes of it. A request that
/// is dropped before its answer says nothing of the service.
#[derive(Clone, Debug)]
pub struct AdaptiveService<S, F, J> {
    service: S,
    layer: AdaptiveLayer<F, J>,
}

impl<S, F, J, R> Service<R> for AdaptiveService<S, F, J>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fn(&R) -> Share,
    J: Fn(&mut AdaptivePermit, &Result<S::Response, S::Error>) -> Outcome + Clone + Send + 'static,
    R: Send + 'static,
{
    type Response = S::Response;
    type Error = LayerError<S::Error>;
    type Future = Answering<S, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        admitted::poll_ready(&mut self.service, context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let (limit, judge) = (self.layer.limit.clone(), self.layer.judge.clone());
        let share = (self.layer.share)(&request);
        let admission = async move { limit.acquire(&share.key[..], share.request()).await };
        let end = move |mut permit: AdaptivePermit, answer: &Result<_, _>| {
            if answer.is_err() {
                permit.lease_mut().fail();
            }
            let outcome = judge(&mut permit, answer);
            permit.ended(outcome);
        };
        admitted::call(&mut self.service, request, admission, end)
    }
}
