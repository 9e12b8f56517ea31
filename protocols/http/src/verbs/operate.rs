//! For those who run it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tidegate_service::Scope;

use crate::app::App;
use crate::error::Problem;
use crate::parse::context::RequestContext;
use crate::render::answer;

/// As Prometheus calls its text format.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How the server is.
#[derive(Serialize, JsonSchema)]
#[schemars(example = json!({"status": "ok"}))]
pub(crate) struct Status {
    /// One word.
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
    context.caller().check_server()?;
    context.caller().check(Scope::Observe, None)?;
    let app = context.app();
    let render = app.settings().metrics.as_ref();
    let render = render.ok_or_else(|| Problem::not_found("this server keeps no metrics"))?;
    app.service().observe();
    Ok(([(CONTENT_TYPE, EXPOSITION)], render()).into_response())
}
