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

use tidegate_protocol::Delivery;
use tidegate_remote::proto::store_server::StoreServer;
use tidegate_service::Undelivered;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower::Service as Serves;

use crate::app::App;
use crate::entry::Entry;
use crate::error;
use crate::offered::{OfferedApp, with_its_leases};
use crate::proto::tidegate_server::TidegateServer;
use crate::unary::Unary;
use crate::unasked::Unasked;

/// The methods whose answers tell of a lease.
const GRANTING: [&str; 2] = ["/Acquire", "/Grant"];

type Answer = Result<Response<Body>, Infallible>;

/// All services of the server. It is copied for each call.
#[derive(Clone)]
pub struct Routes {
    tidegate: TidegateServer<App>,
    /// If the server's store is offered to others.
    offered: Option<StoreServer<OfferedApp>>,
    about: Arc<About>,
}

/// What is the same for all calls.
pub struct About {
    /// Who may make a call of our own service, and how many may be inside.
    pub entry: Entry,
    /// How long a message may take to arrive.
    pub unary: Unary,
    /// Health and reflection.
    pub unasked: Unasked,
}

impl Routes {
    pub fn new(
        (tidegate, offered): (TidegateServer<App>, Option<StoreServer<OfferedApp>>),
        about: About,
    ) -> Self {
        Self {
            tidegate,
            offered,
            about: Arc::new(about),
        }
    }
}

impl Serves<Request<Body>> for Routes {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut request = self.about.unary.time(request);
        let path = request.uri().path();
        let offered = self.offered.as_mut();
        let offered = offered.filter(|_| is_for::<StoreServer<OfferedApp>>(path));
        if offered.is_none() && !is_for::<TidegateServer<App>>(path) {
            let about = Arc::clone(&self.about);
            return Box::pin(async move { about.unasked.call(request).await });
        }
        // Its permit is taken before the message is read.
        if let Err(wrong) = self.about.entry.let_in(&mut request) {
            return Box::pin(ready(Ok(error::status(&wrong).into_http())));
        }
        if let Some(offered) = offered {
            let answer = offered.call(request);
            return Box::pin(async move { answer.await.map(with_its_leases) });
        }
        let path = request.uri().path();
        let tells_of_lease = GRANTING.iter().any(|method| path.ends_with(method));
        let answer = self.tidegate.call(request);
        match tells_of_lease {
            true => Box::pin(async move { answer.await.map(with_its_lease) }),
            false => answer,
        }
    }
}

/// Puts the lease that goes along with a response into its body.
pub fn with_its_lease(mut response: Response<Body>) -> Response<Body> {
    match response.extensions_mut().remove::<Arc<Undelivered>>() {
        Some(lease) => response.map(|body| Body::new(Delivery::new(body, lease))),
        None => response,
    }
}

/// Whether a path, `/package.Service/Method`, is one of this service.
fn is_for<S: NamedService>(path: &str) -> bool {
    let named = path.strip_prefix('/').and_then(|p| p.strip_prefix(S::NAME));
    named.is_some_and(|method| method.starts_with('/'))
}
