//! For those who run it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate_service::Scope;

use crate::app::App;
use crate::error::Problem;
use crate::parse::context::RequestContext;
use crate::render::answer;

/// The document, kept by hand; the tests hold it against the router.
const OPENAPI: &str = include_str!("../../openapi.json");

/// As Prometheus calls its text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

/// Whether it runs at all: also while it is full, and for everyone.
pub(crate) async fn health() -> Response {
    answer::json(StatusCode::OK, &Status { status: "ok" })
}

pub(crate) async fn ready(State(app): State<App>) -> Result<Response, Problem> {
    match app.settings().ready.get() {
        true => Ok(answer::json(StatusCode::OK, &Status { status: "ready" })),
        false => Err(Problem::not_ready()),
    }
}

pub(crate) async fn metrics(context: RequestContext) -> Result<Response, Problem> {
    context.caller().check(Scope::Observe, None)?;
    let app = context.app();
    let render = app.settings().metrics.as_ref();
    let render = render.ok_or_else(|| Problem::not_found("this server keeps no metrics"))?;
    app.service().observe();
    Ok(([(CONTENT_TYPE, EXPOSITION)], render()).into_response())
}

pub(crate) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}
