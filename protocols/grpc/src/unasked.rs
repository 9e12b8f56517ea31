//! Streams that nobody needs a token for: the health service's `Watch`, and reflection.
//!
//! Nothing that anybody says ends one, so they are bounded: for each connection, in
//! all, and in how long one may be silent. `Check`, which has one answer, takes none of
//! their permits: whoever holds all of them keeps nobody from asking how the server is.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Frame, SizeHint};
use tidegate_protocol::Permits;
use tidegate_service::Crowded;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::service::Routes;
use tower::Service as _;

use crate::long_calls::permit;
use crate::settings::Settings;

/// The call with one answer.
const CHECK: &str = "/grpc.health.v1.Health/Check";

type Answer = Result<Response<Body>, Infallible>;

/// Health and reflection, and how many of their calls there may be.
pub struct Unasked {
    services: Routes,
    checks: Permits,
    streams: Permits,
    idle: Duration,
}

/// What the requests of one connection carry.
#[derive(Clone, Debug)]
pub struct OfConnection {
    /// How many streams that need no token it may have.
    pub streams: Permits,
    /// Who is at its other end.
    pub peer: Option<SocketAddr>,
}

impl Unasked {
    pub fn new(services: Routes, settings: &Settings) -> Self {
        Self {
            services: services.prepare(),
            checks: Permits::new(settings.max_in_flight),
            streams: Permits::new(settings.max_open_streams),
            idle: settings.stream_idle,
        }
    }

    pub async fn call(&self, request: Request<Body>) -> Answer {
        if request.uri().path() == CHECK {
            return match permit(&self.checks, Crowded::Requests) {
                Ok(_permit) => self.services.clone().call(request).await,
                Err(status) => Ok(status.into_http()),
            };
        }
        let permits = match self.permits(&request) {
            Ok(permits) => permits,
            Err(status) => return Ok(status.into_http()),
        };
        let answer = self.services.clone().call(request).await?;
        Ok(answer.map(|body| Body::new(Held::new(body, permits, self.idle))))
    }

    /// A permit of all streams, and of those of the connection.
    fn permits(&self, request: &Request<Body>) -> Result<Vec<OwnedSemaphorePermit>, Status> {
        let ours = request.extensions().get::<OfConnection>();
        let of_connection = ours.map(|ours| &ours.streams);
        let taken = of_connection.into_iter().chain([&self.streams]);
        taken
            .map(|permits| permit(permits, Crowded::Streams))
            .collect()
    }
}

/// An answer that holds permits until it ends, at the latest when it was silent for too
/// long.
struct Held {
    /// Nothing once it was ended here.
    body: Option<(Body, Vec<OwnedSemaphorePermit>)>,
    silence: Pin<Box<Sleep>>,
    idle: Duration,
}

impl Held {
    fn new(body: Body, permits: Vec<OwnedSemaphorePermit>, idle: Duration) -> Self {
        Self {
            body: Some((body, permits)),
            silence: Box::pin(sleep(idle)),
            idle,
        }
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some((body, _)) = &mut self.body else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            let idle = self.idle;
            self.silence.as_mut().reset(Instant::now() + idle);
            return Poll::Ready(frame);
        }
        ready!(self.silence.as_mut().poll(context));
        self.body = None;
        let words = format!("no request came for {:?}; open the stream again", self.idle);
        let mut trailers = HeaderMap::new();
        let written = Status::unavailable(words).add_header(&mut trailers);
        Poll::Ready(Some(written.map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body
            .as_ref()
            .is_none_or(|(body, _)| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or_else(SizeHint::default, |(body, _)| body.size_hint())
    }
}
