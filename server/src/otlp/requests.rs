//! The span of a request, and whose child it is.

use axum::extract::{MatchedPath, Request};
use axum::http::{self, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use opentelemetry::Context;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TraceContextExt;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tidegate_service::RequestSpan;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The calls that are traced: health and reflection are not.
const SERVICE: &str = "/tidegate.v1.Tidegate/";

/// The paths that are traced: health, metrics and the document are not.
const VERBS: &str = "/v1/";

/// A request over HTTP, answered within its span.
pub async fn over_http(request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let verb = path
        .as_ref()
        .and_then(|path| path.as_str().strip_prefix(VERBS));
    let Some(verb) = verb else {
        return next.run(request).await;
    };
    let span = open("http", verb, request.headers());
    let response = next.run(request).instrument(span.clone()).await;
    let status = i64::from(response.status().as_u16());
    span.set_attribute("http.response.status_code", status);
    response
}

/// The span of a call over gRPC.
pub fn over_grpc(request: &http::Request<()>) -> Span {
    match request.uri().path().strip_prefix(SERVICE) {
        Some(verb) => open("grpc", verb, request.headers()),
        None => Span::none(),
    }
}

/// A span below the one that the caller's `traceparent` names, if it does.
fn open(protocol: &'static str, verb: &str, headers: &HeaderMap) -> Span {
    let span = RequestSpan::open(protocol, verb).into_inner();
    let propagator = TraceContextPropagator::new();
    let caller = propagator.extract_with_context(&Context::new(), &HeaderExtractor(headers));
    if caller.span().span_context().is_valid() {
        // It fails where nobody listens; then it is nobody's child.
        let _ = span.set_parent(caller);
    }
    span
}
