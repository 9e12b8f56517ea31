//! A body, within its bounds, as a request.

use std::error::Error;

use axum::body::{self, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tidegate_protocol::{Late, TimedBody};

use crate::app::App;
use crate::error::Problem;
use crate::parse::object::Object;

/// The longest file of policies, in bytes.
const MAX_DOCUMENT: usize = 1 << 20;

/// Why a body did not come to its end.
type Broken = Box<dyn Error + Send + Sync>;

/// A request that was read from JSON.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        check_type(request.headers())?;
        let most = app.settings().max_body_bytes;
        parse(&read(request, app, most).await?).map(Self)
    }
}

/// A file of policies, in the language that its type names.
pub(crate) struct Document {
    /// What faults call it; tells the language.
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

impl FromRequest<App> for Document {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let essence = essence(request.headers()).to_ascii_lowercase();
        let name = match essence.as_str() {
            "application/toml" | "text/x-toml" => "policies.toml",
            "application/yaml" | "application/x-yaml" | "text/yaml" => "policies.yaml",
            "application/json" => "policies.json",
            _ => return Err(Problem::no_document()),
        };
        let bytes = read(request, app, MAX_DOCUMENT).await?;
        let text = String::from_utf8(bytes.into());
        let text = text.map_err(|_| Problem::invalid("the body is not UTF-8"))?;
        Ok(Self { name, text })
    }
}

/// The whole body. One that says it is too long is not begun; one that does
/// not say so is read as far as is allowed, for as long as is allowed.
async fn read(request: Request, app: &App, most: usize) -> Result<Bytes, Problem> {
    let settings = app.settings();
    if let Some(coding) = coding(request.headers()) {
        return Err(Problem::coded(&coding));
    }
    if said_length(request.headers()).is_some_and(|length| length > most as u64) {
        return Err(Problem::too_large(most));
    }
    let body = TimedBody::new(request.into_body(), "http", settings.body_timeout);
    let read = whole(body, most).await;
    read.map_err(|error| broken(&*error, most))
}

/// All of a body. Nearly every one comes in one piece, which is not copied.
async fn whole(body: TimedBody<body::Body>, most: usize) -> Result<Bytes, Broken> {
    let mut body = Limited::new(body, most);
    let Some(first) = body.frame().await.transpose()? else {
        return Ok(Bytes::new());
    };
    let first = first.into_data().unwrap_or_default();
    if body.is_end_stream() {
        return Ok(first);
    }
    let rest = body.collect().await?.to_bytes();
    Ok([first, rest].concat().into())
}

/// What the body is packed by.
fn coding(headers: &HeaderMap) -> Option<String> {
    let coding = headers.get(CONTENT_ENCODING)?;
    let coding = String::from_utf8_lossy(coding.as_bytes());
    (!coding.trim().eq_ignore_ascii_case("identity")).then(|| coding.into_owned())
}

fn said_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn broken(error: &(dyn Error + 'static), most: usize) -> Problem {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return Problem::too_large(most);
        }
        if error.is::<Late>() {
            return Problem::too_slow();
        }
        cause = error.source();
    }
    Problem::invalid("the body broke off")
}

/// `application/json`, or anything that is built on it; parameters are nobody's
/// business.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(CONTENT_TYPE);
    // Nearly everyone says just that.
    if said.is_some_and(|said| said == "application/json") || is_json(essence(headers)) {
        return Ok(());
    }
    Err(Problem::not_json())
}

fn is_json(essence: &str) -> bool {
    let essence = essence.to_ascii_lowercase();
    let built_on_it = essence.starts_with("application/") && essence.ends_with("+json");
    essence == "application/json" || built_on_it
}

/// The type of the body, without its parameters, as it was written.
fn essence(headers: &HeaderMap) -> &str {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.unwrap_or_default().trim()
}

/// The request, or what is wrong with it, and where.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    match serde_json::from_slice(body) {
        Ok(Object(value)) => Ok(value),
        Err(error) => Err(wrong::<T>(body, &error)),
    }
}

/// A body that is wrong is read once more, with an eye on where one is: that
/// costs as much as the reading itself, and nearly every body is right.
fn wrong<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Problem {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize::<_, Object<T>>(&mut json);
    let path = read.err().map(|error| error.path().to_string());
    let words = in_words(error);
    match path.as_deref() {
        // What is no JSON is none as a whole; what is not known ends before its name does.
        _ if error.is_syntax() => Problem::invalid(words),
        None | Some("." | "?") => Problem::invalid(words),
        Some(path) if path.ends_with("_ms") && !error.is_eof() => {
            let words = words.replace(WHOLE, MILLISECONDS);
            Problem::invalid(format!("`{path}`: {words}"))
        }
        Some(path) => Problem::invalid(format!("`{path}`: {words}")),
    }
}

/// What a number must be, and one of a time.
const WHOLE: &str = "expected a whole number";
const MILLISECONDS: &str = "expected a whole number of milliseconds, such as 2000";

/// What was found, and what was expected.
fn in_words(error: &serde_json::Error) -> String {
    if error.is_eof() {
        let (line, column) = (error.line(), error.column());
        return format!(
            "the body ends before its JSON object does (line {line}, column {column}); expected \
             an object such as {{\"policy\": \"chat\", \"key\": \"alice\"}}"
        );
    }
    let words = error.to_string();
    if error.is_syntax() {
        let words = words.replace("expected ident", "a word that JSON does not know");
        return format!("not JSON: {words}");
    }
    let found = ["invalid type: ", "invalid value: "];
    let found = found.iter().find_map(|sort| words.strip_prefix(sort));
    found.map_or(words.clone(), |found| {
        in_terms_of_json(&format!("found {found}"))
    })
}

/// What the reader calls by names of Rust, as JSON calls it.
fn in_terms_of_json(words: &str) -> String {
    let terms = [
        ("found sequence", "found an array"),
        ("found map", "found an object"),
        ("expected u64", WHOLE),
        ("expected u32", WHOLE),
        ("expected u8", WHOLE),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
    ];
    // What was sent may stand between; it is not touched.
    let (found, expected) = words.rsplit_once(", ").unwrap_or((words, ""));
    let named = |part: &str| {
        let known = terms.iter().find(|(rust, _)| part.starts_with(rust));
        known.map_or_else(
            || part.to_owned(),
            |(rust, json)| part.replacen(rust, json, 1),
        )
    };
    match expected.is_empty() {
        true => named(found),
        false => format!("{}, {}", named(found), named(expected)),
    }
}
