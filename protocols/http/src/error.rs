//! What is said instead of an answer: RFC 9457, with a `code` for programs
//! that never changes.

use axum::http::header::{CONNECTION, CONTENT_TYPE, ETAG, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_policy::PolicyErrors;
use tidegate_protocol::Late;
use tidegate_service::{Crowded, EntityError, Field, Kind, ServiceError};

use crate::render::tag::tag;

/// The registered types of the IETF's RateLimit fields.
pub(crate) const QUOTA_EXCEEDED: &str =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
/// The longest detail about a request that cannot be read, in bytes.
const LONGEST_DETAIL: usize = 1_024;
const METHOD_NOT_ALLOWED: &str = "method_not_allowed";
const UNSUPPORTED_MEDIA_TYPE: &str = "unsupported_media_type";
const TOO_LARGE: &str = "too_large";
const TIMEOUT: &str = "timeout";
const NOT_READY: &str = "not_ready";
/// Nothing more than its status says.
const PLAIN: &str = "about:blank";

pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why there is no answer (RFC 9457).
#[derive(Clone, Serialize, JsonSchema, Debug)]
#[schemars(example = Self::invalid(
    "`amounts.tpm`: -1 is negative: an amount is a whole number from 0 to 9007199254740991 \
     at line 1 column 40"
))]
pub(crate) struct Problem {
    /// What kind of problem it is; `about:blank` says no more than the status.
    #[serde(rename = "type")]
    #[schemars(extend("format" = "uri-reference"))]
    kind: &'static str,
    /// The kind in words.
    title: &'static str,
    /// The status of the response.
    #[serde(serialize_with = "number")]
    #[schemars(with = "u16", range(min = 400, max = 599))]
    status: StatusCode,
    /// What is wrong, for people.
    detail: String,
    /// What is wrong, for programs: these words never change.
    #[schemars(extend("enum" = codes()))]
    code: &'static str,
    /// What is wrong with a file of policies, place by place, or with the limits of an override,
    /// one by one. Missing elsewhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<Fault>,
    /// The version that is there, where another was expected (412); its `ETag` is this in quotes.
    /// Missing if nothing is there, and elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    version: Option<u64>,
}

/// One thing that is wrong with a file, or with a limit that was given.
#[derive(Clone, Serialize, JsonSchema, Debug)]
#[schemars(inline)]
struct Fault {
    /// The line.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    line: Option<usize>,
    /// The column, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    column: Option<usize>,
    /// The limit, where an override was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// What is wrong.
    message: String,
    /// What to write instead.
    help: String,
}

/// Every code of a problem: the service's, and those of HTTP alone.
fn codes() -> Vec<&'static str> {
    let own = [
        METHOD_NOT_ALLOWED,
        UNSUPPORTED_MEDIA_TYPE,
        TOO_LARGE,
        TIMEOUT,
        NOT_READY,
    ];
    Kind::ALL.map(Kind::code).into_iter().chain(own).collect()
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let unavailable = status == StatusCode::SERVICE_UNAVAILABLE;
        Self {
            kind: if unavailable { REDUCED_CAPACITY } else { PLAIN },
            title: status.canonical_reason().unwrap_or("Error"),
            status,
            detail: detail.into(),
            code,
            faults: Vec::new(),
            version: None,
        }
    }

    /// A file of policies that has faults: all of them.
    pub(crate) fn faulty(errors: &PolicyErrors) -> Self {
        let detail = match errors.faults().len() {
            1 => "the policies have a fault, and nothing was changed".to_owned(),
            count => format!("the policies have {count} faults, and nothing was changed"),
        };
        let faults = errors.faults().iter().map(|fault| Fault {
            line: Some(fault.line),
            column: Some(fault.column),
            limit: None,
            message: fault.message.clone(),
            help: fault.help.clone(),
        });
        Self {
            faults: faults.collect(),
            ..Self::invalid(detail)
        }
    }

    /// The body is not said to be a file of policies.
    pub(crate) fn no_document() -> Self {
        Self {
            detail: "send the policies as application/toml, application/yaml or application/json"
                .to_owned(),
            ..Self::not_json()
        }
    }

    /// The server could not do it, and changed nothing.
    pub(crate) fn unable(detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, Kind::Unavailable.code(), detail)
    }

    /// The answer is that to a call that no path makes.
    pub(crate) fn other() -> Self {
        Self::unable("internal error: an answer to another verb came; please report it")
    }

    /// The request makes no sense. What it repeats of a long request is cut.
    pub(crate) fn invalid(detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > LONGEST_DETAIL {
            detail.truncate(detail.floor_char_boundary(LONGEST_DETAIL));
            detail.push_str("...");
        }
        Self::new(StatusCode::BAD_REQUEST, Kind::Invalid.code(), detail)
    }

    /// There is no such path.
    pub(crate) fn no_such_path() -> Self {
        let detail = "there is nothing here; GET /openapi.json says what there is";
        Self::not_found(detail)
    }

    /// There is no such thing.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, Kind::NotFound.code(), detail)
    }

    /// The path knows other methods, which its `Allow` names.
    pub(crate) fn no_such_method(method: &Method) -> Self {
        let detail = format!(
            "this path does not take {method}; the header `Allow` of this answer names what it takes"
        );
        Self::new(StatusCode::METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED, detail)
    }

    /// The body is not said to be JSON.
    pub(crate) fn not_json() -> Self {
        let detail = "send the body as `Content-Type: application/json`";
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            UNSUPPORTED_MEDIA_TYPE,
            detail,
        )
    }

    /// The body is packed.
    pub(crate) fn coded(coding: &str) -> Self {
        Self {
            detail: format!("found `Content-Encoding: {coding}`; send the body as it is"),
            ..Self::not_json()
        }
    }

    /// The body is longer than `most` bytes.
    pub(crate) fn too_large(most: usize) -> Self {
        let detail = format!("the body has more than {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE, detail)
    }

    /// The body does not come.
    pub(crate) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, TIMEOUT, Late.to_string())
    }

    /// Too much at once.
    pub(crate) fn busy(crowded: Crowded) -> Self {
        Self::from(ServiceError::Busy(crowded))
    }

    /// Not to be sent requests now.
    pub(crate) fn not_ready() -> Self {
        let detail = "the server is starting or stopping";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, NOT_READY, detail)
    }

    /// Its status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The same, about a part of the request.
    pub(crate) fn at(mut self, place: &str) -> Self {
        self.detail = format!("`{place}`: {}", self.detail);
        self
    }

    /// The same, under another status.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// As it is sent to a connection that is closed after it.
    pub(crate) fn as_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut bytes = format!("HTTP/1.1 {}\r\n", self.status).into_bytes();
        for (name, value) in &self.headers() {
            bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
        }
        let end = format!(
            "connection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        bytes.extend(end.into_bytes());
        bytes.extend(body);
        bytes
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, PROBLEM_JSON);
        match self.status {
            _ if self.version.is_some() => {
                headers.extend(self.version.map(|version| (ETAG, tag(version))));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        headers
    }
}

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let kind = error.kind();
        let detail = match &error {
            ServiceError::Bound {
                field: Field::Checks,
                least,
                most,
                ..
            } => format!("`checks` holds from {least} to {most} checks"),
            ServiceError::Unauthenticated => {
                "a valid token is needed: send `Authorization: Bearer TOKEN`".to_owned()
            }
            error => error.to_string(),
        };
        let version = match &error {
            ServiceError::Conflict { version, .. } => *version,
            ServiceError::Entity(EntityError::Exists { version, .. }) => Some(*version),
            _ => None,
        };
        Self {
            faults: faults_of(&error),
            version,
            ..Self::new(status(kind), kind.code(), detail)
        }
    }
}

/// What is wrong with limits, one by one.
fn faults_of(error: &ServiceError) -> Vec<Fault> {
    let ServiceError::FaultyOverride(faults) = error else {
        return Vec::new();
    };
    let faults = faults.iter().map(|fault| Fault {
        line: None,
        column: None,
        limit: Some(fault.limit.clone()).filter(|limit| !limit.is_empty()),
        message: fault.message.clone(),
        help: fault.help.clone(),
    });
    faults.collect()
}

const fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::Never => StatusCode::UNPROCESSABLE_ENTITY,
        Kind::Ended | Kind::InUse => StatusCode::CONFLICT,
        Kind::Deleted => StatusCode::GONE,
        Kind::Conflict => StatusCode::PRECONDITION_FAILED,
        Kind::Busy | Kind::Full | Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut headers = self.headers();
        let unread = [StatusCode::PAYLOAD_TOO_LARGE, StatusCode::REQUEST_TIMEOUT];
        if unread.contains(&self.status) {
            // The rest of the body is not read: nothing can come behind it.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        (self.status, headers, body).into_response()
    }
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
