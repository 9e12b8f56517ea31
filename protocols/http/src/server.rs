//! Where each request goes.
//!
//! A router asks a table, copies the service that it finds and wraps what that
//! answers, for each request anew. One verb is asked a million times for every
//! request of the others: it is told by its path and called as it is.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::handler::Handler;
use axum::http::{Method, Request};
use axum::response::Response;
use tidegate_service::Service;
use tower_service::Service as TowerService;

use crate::app::App;
use crate::router::router;
use crate::settings::Settings;
use crate::verbs::decide;

/// Where a check is asked for: the router knows it, too.
const CHECK: &str = "/v1/check";

/// Tidegate over HTTP. Cloning shares it.
///
/// It is a `tower` service as well: what it answers can be had without a socket.
#[derive(Clone)]
pub struct Server {
    pub(crate) app: App,
    router: Router,
    /// Whether checks go past the router: not if something stands before it.
    is_bare: bool,
}

impl Server {
    /// A server of `service`.
    #[must_use]
    pub fn new(service: Service, settings: Settings) -> Self {
        let app = App::new(service, settings);
        Self {
            router: router(app.clone()),
            app,
            is_bare: true,
        }
    }

    /// With something before every verb: a layer, or more paths.
    #[must_use]
    pub fn behind(self, wrap: impl FnOnce(Router) -> Router) -> Self {
        Self {
            router: wrap(self.router),
            is_bare: false,
            ..self
        }
    }
}

type Answer = Result<Response, Infallible>;

impl<B> TowerService<Request<B>> for Server
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Answering {
        match self.is_bare && is_check(&request) {
            true => {
                let request = request.map(Body::new);
                Answering(Handler::call(decide::check, request, self.app.clone()))
            }
            false => {
                // The router's handlers have an app of their own, of no connection.
                if let Some(connection) = &self.app.connection {
                    request.extensions_mut().insert(Arc::clone(connection));
                }
                let answer = self.router.call(request);
                Answering(Box::pin(async move {
                    let Ok(response) = answer.await;
                    response
                }))
            }
        }
    }
}

fn is_check<B>(request: &Request<B>) -> bool {
    request.uri().path() == CHECK && request.method() == Method::POST
}

/// An answer on its way.
pub struct Answering(Pin<Box<dyn Future<Output = Response> + Send>>);

impl Future for Answering {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        self.0.as_mut().poll(context).map(Ok)
    }
}
