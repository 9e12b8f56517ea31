//! For proxies that request before they pass a request on: nginx's `auth_request`,
//! Caddy's and Traefik's forward auth.
//!
//! What to ask stands in the query or in the headers `X-Tidegate-*`, and in one
//! of them alone: a proxy passes the client's own headers on, and a client must
//! not be able to complete, by a header, what the proxy has put into the query.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate::{Error, MAX_AMOUNT, RequestError};
use tidegate_service::{Answer, Call, Question, ServiceError};

use crate::app::App;
use crate::error::Problem;
use crate::openapi::schema::{Schemas, members};
use crate::openapi::takes::{Taken, Takes};
use crate::parse::amount;
use crate::parse::context::{self, Query, RequestContext};
use crate::parse::key::Text;
use crate::render::{answer, render};

const POLICY: &str = "X-Tidegate-Policy";
const KEY: &str = "X-Tidegate-Key";
const COST: &str = "X-Tidegate-Cost";
const TOKEN: &str = "X-Tidegate-Token";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuthQuery {
    /// The policy's name.
    #[schemars(example = &"chat")]
    policy: Option<String>,
    /// Who or what is limited.
    #[schemars(with = "Option<Text>")]
    key: Option<String>,
    /// Units of every rate.
    #[schemars(with = "Option<u64>", range(max = MAX_AMOUNT), example = 1)]
    cost: Option<String>,
    /// The status of a refusal; nginx understands 401 and 403 alone. Default: 429 (or 422).
    #[schemars(with = "Option<u16>", range(min = 400, max = 499), example = 403)]
    denied: Option<String>,
    /// Which rate-limit header fields to answer with: the IETF's, or `X-RateLimit-*` too.
    #[schemars(extend("enum" = ["standard", "legacy"]))]
    headers: Option<String>,
}

/// A request of a proxy, whose token may have a header to itself where `Authorization` is
/// the client's.
pub(crate) struct Proxied {
    context: RequestContext,
    headers: HeaderMap,
}

impl FromRequestParts<App> for Proxied {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Ok(Self {
            context: RequestContext::begin(app, token(&parts.headers), &parts.extensions)?,
            headers: parts.headers.clone(),
        })
    }
}

impl Takes for Proxied {
    fn takes(taken: &mut Taken, schemas: &mut Schemas) {
        RequestContext::takes(taken, schemas);
        // A proxy passes the headers of its clients on: they choose no namespace.
        taken.parameters.clear();
        let text = json!({"type": "string"});
        let amount = json!({"type": "integer", "minimum": 0, "maximum": MAX_AMOUNT});
        let fields = [
            (
                POLICY,
                "The policy's name, where the query says nothing.",
                &text,
            ),
            (
                KEY,
                "Who or what is limited, where the query says nothing.",
                &text,
            ),
            (
                COST,
                "Units of every rate, where the query says nothing.",
                &amount,
            ),
            (
                TOKEN,
                "The proxy's token, where `Authorization` is the client's own.",
                &text,
            ),
        ];
        for (name, description, schema) in fields {
            let mut schema = members(schema.clone());
            schema.insert("description".to_owned(), description.into());
            taken.parameter("header", name, schema, false);
        }
    }
}

pub(crate) async fn auth(
    Proxied {
        mut context,
        headers,
    }: Proxied,
    Query(query): Query<AuthQuery>,
) -> Result<Response, Problem> {
    let style = context::style(context.app(), query.headers.as_deref())?;
    let denied = denied(query.denied.as_deref())?;
    let question = question(&query, &headers)?;
    let response = match context.call(Call::Check(question)).await {
        Ok(Answer::Decided(decided)) => {
            let told = decided.told();
            let status = denied.unwrap_or(StatusCode::TOO_MANY_REQUESTS);
            match told.admitted() {
                true => without_body(answer::told(&told, style)),
                false => answer::refused_as(status, &told, style),
            }
        }
        Ok(answer) => render(answer, style),
        Err(error) => never(problem(error), denied).into_response(),
    };
    Ok(unstored(response))
}

/// A proxy gives nothing back: it is told what to name instead.
fn problem(error: ServiceError) -> Problem {
    match &error {
        ServiceError::Limits(Error::Request(RequestError::NeedsLease(limit))) => {
            Problem::invalid(format!(
                "limit `{limit}` is held while in use, and a proxy gives nothing back: name a policy without concurrency limits"
            ))
        }
        _ => error.into(),
    }
}

/// *Not ever* is no, too, to a proxy that knows one word for it.
fn never(problem: Problem, denied: Option<StatusCode>) -> Problem {
    match (problem.status(), denied) {
        (StatusCode::UNPROCESSABLE_ENTITY, Some(denied)) => problem.with_status(denied),
        _ => problem,
    }
}

/// To say yes, the headers are enough.
fn without_body(mut response: Response) -> Response {
    response.headers_mut().remove(CONTENT_TYPE);
    *response.body_mut() = Body::empty();
    response
}

/// An answer is good for one request.
fn unstored(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The proxy's own token. It has a header to itself where `Authorization` is
/// the client's.
fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let own = headers.get(TOKEN).map(HeaderValue::as_bytes);
    own.or_else(|| context::token(headers))
}

fn denied(requested: Option<&str>) -> Result<Option<StatusCode>, Problem> {
    let Some(requested) = requested else {
        return Ok(None);
    };
    let status = requested
        .parse()
        .ok()
        .and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.filter(StatusCode::is_client_error);
    let wrong = || {
        Problem::invalid(format!(
            "`denied={requested}` is not a status from 400 to 499"
        ))
    };
    status.map(Some).ok_or_else(wrong)
}

fn question<'q>(query: &'q AuthQuery, headers: &'q HeaderMap) -> Result<Question<'q>, Problem> {
    let (policy, key, cost) = (&query.policy, &query.key, &query.cost);
    let by_query = policy.is_some() || key.is_some() || cost.is_some();
    let (policy, key, cost) = match by_query {
        true => (policy.as_deref(), key.as_deref(), cost.as_deref()),
        false => (
            header(headers, POLICY)?,
            header(headers, KEY)?,
            header(headers, COST)?,
        ),
    };
    let missing = || {
        let detail = "give `policy` and `key`, both in the query, \
                      or both in the headers X-Tidegate-Policy and X-Tidegate-Key";
        Problem::invalid(detail)
    };
    let wrong = |wrong| Problem::invalid(format!("`cost`: {wrong}"));
    Ok(Question {
        policy: policy.ok_or_else(missing)?,
        whose: key.ok_or_else(missing)?.as_bytes().into(),
        cost: cost.map(amount::parse).transpose().map_err(wrong)?,
        ..Question::default()
    })
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Problem> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(value.as_bytes());
    text.map(Some)
        .map_err(|_| Problem::invalid(format!("the header `{name}` is not UTF-8")))
}
