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
use axum::http::{Method, Request, Version};
use axum::response::Response;
use tidegate_service::Service;
use tower_service::Service as TowerService;

use crate::app::App;
use crate::presence::{Busy, UnderWay};
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
    /// What tells that a request of the connection that it serves is under way.
    pub(crate) busy: Option<Busy>,
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
            busy: None,
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
        // HTTP/2 answers many at a time, and looks for the end by itself.
        let watched = request.version() < Version::HTTP_2;
        let busy = self.busy.as_ref().filter(|_| watched);
        let under_way = busy.map(Busy::begin);
        let answer = match self.is_bare && is_check(&request) {
            true => {
                let request = request.map(Body::new);
                Handler::call(decide::check, request, self.app.clone())
            }
            false => {
                // The router's handlers have an app of their own, of no connection.
                if let Some(connection) = &self.app.connection {
                    request.extensions_mut().insert(Arc::clone(connection));
                }
                let answer = self.router.call(request);
                Box::pin(async move {
                    let Ok(response) = answer.await;
                    response
                })
            }
        };
        Answering {
            answer,
            _under_way: under_way,
        }
    }
}

fn is_check<B>(request: &Request<B>) -> bool {
    request.uri().path() == CHECK && request.method() == Method::POST
}

/// An answer on its way.
pub struct Answering {
    answer: Pin<Box<dyn Future<Output = Response> + Send>>,
    _under_way: Option<UnderWay>,
}

impl Future for Answering {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        self.answer.as_mut().poll(context).map(Ok)
    }
}
