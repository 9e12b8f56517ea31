//! Where each request goes.
//!
//! A router asks a table, copies the service that it finds and wraps what that
//! answers, for each request anew. One verb is asked a million times for every
//! request of the others: it is told by its path and called as it is.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::handler::Handler;
use axum::http::{Method, Request};
use axum::response::Response;
use tidegate_service::Service;
use tower_service::Service as TowerService;

use crate::door::Door;
use crate::router::router_of;
use crate::settings::Settings;
use crate::verbs::decide;

/// Where a check is asked for: the router knows it, too.
const CHECK: &str = "/v1/check";

/// What [`serve`](crate::serve()) serves: all that the door answers.
///
/// It is made by [`front`], or of any router.
#[derive(Clone)]
pub struct Front {
    /// Whose check goes past the router; nobody's if something stands before it.
    check: Option<Door>,
    router: Router,
}

/// As [`router`](crate::router()), and quicker to find what is asked most.
pub fn front(service: Service, settings: Settings) -> Front {
    let door = Door::new(service, settings);
    Front {
        router: router_of(door.clone()),
        check: Some(door),
    }
}

impl Front {
    /// With something before every verb: a layer, or more paths.
    #[must_use]
    pub fn behind(self, wrap: impl FnOnce(Router) -> Router) -> Self {
        wrap(self.router).into()
    }
}

impl From<Router> for Front {
    fn from(router: Router) -> Self {
        Self {
            check: None,
            router,
        }
    }
}

type Answer = Result<Response, Infallible>;

impl<B> TowerService<Request<B>> for Front
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

    fn call(&mut self, request: Request<B>) -> Answering {
        match &self.check {
            Some(door) if is_check(&request) => {
                let request = request.map(Body::new);
                Answering(Handler::call(decide::check, request, door.clone()))
            }
            _ => {
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
