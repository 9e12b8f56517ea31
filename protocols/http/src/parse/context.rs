//! What a request brings beside its body: its caller, a permit, the style of its answer.

use axum::extract::{self, FromRequestParts};
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::sync::Arc;
use tidegate_protocol::{Share, bearer, named_namespace};
use tidegate_service::{Answer, Call, Caller, Crowded, Origin, ServiceError};

use crate::app::App;
use crate::connection::Connection;
use crate::error::Problem;
use crate::render::headers::Style;

/// The header that names a namespace. (For proxies it is not read: those who are limited could
/// send it.)
pub(crate) const NAMESPACE: &str = "tidegate-namespace";

/// A request that was let in. Its permit is held until this is dropped.
pub(crate) struct RequestContext {
    app: App,
    caller: Caller,
    permit: Option<Share>,
}

impl RequestContext {
    /// Lets in a request with this token, if there is a permit, and the token has not its share
    /// of them or of the connections already.
    pub(crate) fn begin(
        app: &App,
        token: Option<&[u8]>,
        extensions: &Extensions,
    ) -> Result<Self, Problem> {
        let mut permit = app.enter()?;
        let caller = app.service().enter_by(token)?;
        let connection = app.connection.as_ref().or_else(|| extensions.get());
        let connection: Option<&Arc<Connection>> = connection;
        let may = |connection: &Arc<Connection>| connection.belong_to(caller.token());
        if !permit.belong_to(caller.token()) || !connection.is_none_or(may) {
            return Err(Problem::busy(Crowded::OfToken));
        }
        let peer = connection.and_then(|connection| connection.peer);
        let protocol = "http";
        Ok(Self {
            caller: caller.coming_from(Origin { protocol, peer }),
            app: app.clone(),
            permit: Some(permit),
        })
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What the service answers. A request that waits gives its permit back, and does not
    /// keep others from being served.
    // No `async fn`: that moves what it is given once more.
    pub(crate) fn call(
        &mut self,
        call: Call<'_>,
    ) -> impl Future<Output = Result<Answer, ServiceError>> + Send {
        if matches!(&call, Call::Acquire(_, terms) if terms.wait_ms > 0) {
            self.permit = None;
        }
        self.app.service().call(&self.caller, call)
    }
}

impl FromRequestParts<App> for RequestContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let namespace = namespace(&parts.headers)?;
        let context = Self::begin(app, token(&parts.headers), &parts.extensions)?;
        Ok(Self {
            caller: context.caller.at(namespace)?,
            ..context
        })
    }
}

/// In which namespace a request is to be answered, if it says so.
fn namespace(headers: &HeaderMap) -> Result<Option<&str>, ServiceError> {
    named_namespace(headers.get_all(NAMESPACE).iter().map(HeaderValue::as_bytes))
}

/// The token of `Authorization: Bearer TOKEN`.
pub(crate) fn token(headers: &HeaderMap) -> Option<&[u8]> {
    bearer(headers.get(AUTHORIZATION)?.as_bytes())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StyleQuery {
    headers: Option<String>,
}

impl FromRequestParts<App> for Style {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        if parts.uri.query().is_none() {
            return style(app, None);
        }
        let StyleQuery { headers } = query(&parts.uri)?;
        style(app, headers.as_deref())
    }
}

/// The style that is asked for, or else the server's own.
pub(crate) fn style(app: &App, requested: Option<&str>) -> Result<Style, Problem> {
    match requested {
        None if app.settings().legacy_headers => Ok(Style::Legacy),
        None | Some("standard") => Ok(Style::Standard),
        Some("legacy") => Ok(Style::Legacy),
        Some(other) => Err(Problem::invalid(format!(
            "`headers={other}` is neither `standard` nor `legacy`"
        ))),
    }
}

/// What a query says, each member once.
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        query(&parts.uri).map(Self)
    }
}

fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, Problem> {
    // What is not text would be read as another text, which may be another key's.
    let raw = uri.query().unwrap_or_default();
    if percent_decode_str(raw).decode_utf8().is_err() {
        return Err(Problem::invalid(
            "the query is not UTF-8; a key that is not text goes into `key_base64`",
        ));
    }
    let query = extract::Query::try_from_uri(uri);
    let extract::Query(value) = query.map_err(|rejection| {
        let why = rejection.source().map(ToString::to_string);
        let why = why.unwrap_or_else(|| rejection.body_text());
        // As the standard library has it, of what is no number.
        let why = why.replace("invalid digit found in string", "write a whole number");
        Problem::invalid(format!("the query cannot be read: {why}"))
    })?;
    Ok(value)
}
