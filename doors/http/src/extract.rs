//! A body, within its bounds, as a request.

use std::error::Error;

use axum::body::{self, Bytes};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;

use crate::door::Door;
use crate::object::Object;
use crate::problem::Problem;

/// The longest file of policies, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// A request that was read from JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Door> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, door: &Door) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let most = door.settings().max_body_bytes;
        parse(&read(request, door, most).await?).map(Self)
    }
}

/// A file of policies, in the language that its type names.
pub(crate) struct Document {
    /// What faults call it; tells the language.
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

impl FromRequest<Door> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, door: &Door) -> Result<Self, Problem> {
        let name = match essence(request.headers()).as_str() {
            "application/toml" | "text/x-toml" => "policies.toml",
            "application/yaml" | "application/x-yaml" | "text/yaml" => "policies.yaml",
            "application/json" => "policies.json",
            _ => return Err(Problem::no_document()),
        };
        let bytes = read(request, door, MAX_DOCUMENT).await?;
        let text = String::from_utf8(bytes.into());
        let text = text.map_err(|_| Problem::invalid("the body is not UTF-8"))?;
        Ok(Self { name, text })
    }
}

/// The whole body. One that says it is too long is not begun; one that does
/// not say so is read as far as is allowed, for as long as is allowed.
async fn read(request: Request, door: &Door, most: usize) -> Result<Bytes, Problem> {
    let settings = door.settings();
    if said_length(request.headers()).is_some_and(|length| length > most as u64) {
        return Err(Problem::too_large(most));
    }
    let reading = body::to_bytes(request.into_body(), most);
    match tokio::time::timeout(settings.body_timeout, reading).await {
        Ok(read) => read.map_err(|error| broken(&error, most)),
        Err(_) => Err(Problem::too_slow()),
    }
}

fn said_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn broken(error: &axum::Error, most: usize) -> Problem {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Problem::too_large(most);
        }
        cause = error.source();
    }
    Problem::invalid("the body broke off")
}

/// `application/json`, or anything that is built on it; parameters are nobody's
/// business.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let essence = essence(headers);
    let built_on_json = essence.starts_with("application/") && essence.ends_with("+json");
    if essence == "application/json" || built_on_json {
        return Ok(());
    }
    Err(Problem::not_json())
}

/// The type of the body, without its parameters.
fn essence(headers: &HeaderMap) -> String {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.unwrap_or_default().trim().to_ascii_lowercase()
}

/// The request, or what is wrong with it, and where.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." => Problem::invalid(error.inner().to_string()),
            path => Problem::invalid(format!("`{path}`: {}", error.inner())),
        }
    })?;
    json.end()
        .map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(value)
}
