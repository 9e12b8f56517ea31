//! A call of a service once its request is admitted.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tower_service::Service;

use super::error::LayerError;
use crate::admission::Admission;
use crate::error::DecisionError;

/// A service's answer, or why there is none.
pub(super) type Answer<S, R> =
    Result<<S as Service<R>>::Response, LayerError<<S as Service<R>>::Error>>;

pub(super) type Answering<S, R> = Pin<Box<dyn Future<Output = Answer<S, R>> + Send>>;

/// Whether `service` takes a request: the limits are asked when there is one.
pub(super) fn poll_ready<S: Service<R>, R>(
    service: &mut S,
    context: &mut Context<'_>,
) -> Poll<Result<(), LayerError<S::Error>>> {
    service.poll_ready(context).map_err(LayerError::Service)
}

/// Calls `service` once `admission` grants a hold; `end` is given that and how the service
/// answered.
pub(super) fn call<S, R, H>(
    service: &mut S,
    request: R,
    admission: impl Future<Output = Result<Admission<H>, DecisionError>> + Send + 'static,
    end: impl FnOnce(H, &Result<S::Response, S::Error>) + Send + 'static,
) -> Answering<S, R>
where
    S: Service<R> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    R: Send + 'static,
    H: Send,
{
    // The one that was polled ready is called; its clone takes its place.
    let clone = service.clone();
    let mut service = std::mem::replace(service, clone);
    Box::pin(async move {
        let hold = match admission.await.map_err(LayerError::Limits)? {
            Admission::Granted(hold) => hold,
            Admission::Refused(decision) => return Err(LayerError::refused(decision)),
        };
        let answer = service.call(request).await;
        end(hold, &answer);
        answer.map_err(LayerError::Service)
    })
}
