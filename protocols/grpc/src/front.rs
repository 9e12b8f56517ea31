//! Where each call goes.
//!
//! A router asks a table, copies the service that it finds and wraps what that
//! answers, for each call anew. There is one service that is called a million
//! times for every call of the others: it is told by its name and called as it is.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower::Service as Serves;

use crate::handover::with_its_lease;
use crate::hurry::Unary;
use crate::methods::Methods;
use crate::places::Places;
use crate::proto::tidegate_server::TidegateServer;
use crate::unasked::Unasked;

/// The call whose answer has a lease.
const ACQUIRE: &str = "/Acquire";

type Answer = Result<Response<Body>, Infallible>;

/// All services of the door. It is copied for each call.
#[derive(Clone)]
pub struct Front {
    tidegate: TidegateServer<Methods>,
    about: Arc<About>,
}

/// What is the same for all calls.
pub struct About {
    /// How many calls of our own service may be inside.
    pub places: Places,
    /// How long a message may take to arrive.
    pub unary: Unary,
    /// Health and reflection.
    pub unasked: Unasked,
}

impl Front {
    pub fn new(tidegate: TidegateServer<Methods>, about: About) -> Self {
        let about = Arc::new(about);
        Self { tidegate, about }
    }
}

impl Serves<Request<Body>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut request = self.about.unary.hurry(request);
        if !is_for::<TidegateServer<Methods>>(request.uri().path()) {
            let about = Arc::clone(&self.about);
            return Box::pin(async move { about.unasked.call(request).await });
        }
        match self.about.places.take(request.extensions_mut()) {
            Ok(()) if request.uri().path().ends_with(ACQUIRE) => {
                let answer = self.tidegate.call(request);
                Box::pin(async move { answer.await.map(with_its_lease) })
            }
            Ok(()) => self.tidegate.call(request),
            Err(status) => Box::pin(ready(Ok(status.into_http()))),
        }
    }
}

/// Whether a path, `/package.Service/Method`, is one of this service.
fn is_for<S: NamedService>(path: &str) -> bool {
    let named = path.strip_prefix('/').and_then(|p| p.strip_prefix(S::NAME));
    named.is_some_and(|method| method.starts_with('/'))
}
