//! Refusals, in the words of each dialect.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use tidegate_llm::request::NotJson;
use tidegate_policy::Policy;
use tidegate_service::{Kind, ServiceError, Told};

use crate::dialect::Dialect;

/// Why a call was not forwarded, or not answered.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    message: String,
    retry_after: Option<Duration>,
}

/// Why a call was not admitted.
pub enum Unadmitted {
    /// It wants more than a limit grants at all, as that stands.
    Never(ServiceError),
    /// Anything else.
    Refused(Refusal),
}

/// When to come again for a slot.
const SOON: Duration = Duration::from_secs(1);

/// Longer waits are not worth a caller's while: it is told so.
const LONGEST: Duration = Duration::from_secs(400 * 86_400);

impl Refusal {
    fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    /// A limit has no room. When a slot comes back its holder alone knows: a caller is told to come
    /// again soon, and not when the lease expires.
    pub fn limit(policy: &Policy, told: &Told<'_>) -> Self {
        let limit = told.binding().unwrap_or("a limit");
        let mut limits = policy.limit_lists().flatten();
        let is_slot = limits.any(|known| known.name() == limit && known.is_concurrency());
        let policy = &policy.name;
        let told = told.retry_after().filter(|_| !is_slot);
        let after = told.map(|after| after.as_duration().min(LONGEST));
        let until = match after {
            Some(after) => format!("try again in {:.3} s", after.as_secs_f64()),
            None => "try again when a call has ended".to_owned(),
        };
        Self {
            retry_after: Some(after.unwrap_or(SOON)),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                format!("limit `{limit}` of policy `{policy}` is reached; {until}"),
            )
        }
    }

    /// A call that wants more than what is tried of a limit that nobody says.
    pub fn untried(policy: &str, limit: &str, after: Duration) -> Self {
        let message = format!(
            "limit `{limit}` of policy `{policy}` has not been tried with as much; try again in {:.3} s",
            after.as_secs_f64()
        );
        Self {
            retry_after: Some(after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// A call that a limit has room for which has fallen, and its provider not yet.
    pub fn fallen(policy: &str, limit: &str, after: Duration) -> Self {
        let message = format!(
            "limit `{limit}` of policy `{policy}` has fallen, and the provider still counts what was used before; try again in {:.3} s",
            after.as_secs_f64()
        );
        Self {
            retry_after: Some(after.min(LONGEST)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// A call whose turn among those of a policy has not come.
    pub fn turn(policy: &str, why: &str) -> Self {
        let message = format!("callers of policy `{policy}` wait for their turns: {why}");
        Self {
            retry_after: Some(SOON),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// A call that waited while the gateway closed.
    pub fn closing(why: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
    }

    /// A body that is no call.
    pub fn body(error: &NotJson) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }

    /// A path of which nobody can tell what it asks for.
    pub fn path() -> Self {
        let message = "a path has no `.` and `..`, and `%xx` stands for UTF-8";
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A method that is not forwarded.
    pub fn method() -> Self {
        let message = "CONNECT and TRACE are not forwarded";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message)
    }

    /// A path whose tokens nobody counts, where only counted calls pass.
    pub fn uncounted(path: &str) -> Self {
        let path: String = path.chars().take(128).collect();
        let message = format!(
            "what `{path}` uses is not counted here, and only calls that are counted pass \
             (--only-counted)"
        );
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// A body that is too large.
    pub fn too_large(most: usize) -> Self {
        let message = format!("a body has at most {most} bytes here");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// No room for another body.
    pub fn busy() -> Self {
        let message = "too many calls are held; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// A body that did not arrive.
    pub fn late(why: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, why)
    }

    /// A model whose money cannot be counted.
    pub fn no_price(model: &str) -> Self {
        let model: String = model.chars().take(128).collect();
        let message = format!(
            "model `{model}` has no price here, and the policy counts money; give it one in `[price]` of the file, or with --price"
        );
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A pool's member without an upstream.
    pub fn nowhere(member: &str) -> Self {
        let message = format!("no upstream is called `{member}`");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }

    /// The provider cannot be reached.
    pub fn unreachable(upstream: &str, why: &str) -> Self {
        let message = format!("upstream `{upstream}` cannot be reached: {why}");
        Self::new(StatusCode::BAD_GATEWAY, message)
    }

    /// The provider does not answer.
    pub fn silent(upstream: &str, within: Duration) -> Self {
        let message = format!("upstream `{upstream}` did not answer within {within:?}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, message)
    }

    /// The same in the words of a dialect.
    pub fn render(&self, dialect: Dialect) -> Response<Bytes> {
        let body = match dialect {
            Dialect::OpenAi => self.openai(),
            Dialect::Anthropic => self.anthropic(),
            Dialect::Gemini => self.gemini(),
        };
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        if let Some(after) = self.retry_after {
            let millis = u64::try_from(after.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from(millis.div_ceil(1_000)),
            );
            headers.insert("retry-after-ms", HeaderValue::from(millis));
        }
        response
    }

    fn openai(&self) -> Value {
        let (kind, code) = match self.status.as_u16() {
            429 => ("rate_limit_error", "rate_limit_exceeded"),
            401 => ("invalid_request_error", "invalid_api_key"),
            403 => ("invalid_request_error", "permission_denied"),
            400..500 => ("invalid_request_error", "invalid_request"),
            _ => ("server_error", "gateway_error"),
        };
        let message = &self.message;
        json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
    }

    fn anthropic(&self) -> Value {
        let kind = match self.status.as_u16() {
            429 => "rate_limit_error",
            401 => "authentication_error",
            403 => "permission_error",
            413 => "request_too_large",
            400..500 => "invalid_request_error",
            503 => "overloaded_error",
            _ => "api_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": self.message } })
    }

    fn gemini(&self) -> Value {
        let status = match self.status.as_u16() {
            429 => "RESOURCE_EXHAUSTED",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            504 => "DEADLINE_EXCEEDED",
            400..500 => "INVALID_ARGUMENT",
            _ => "UNAVAILABLE",
        };
        let delay = |after: Duration| {
            json!([{
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{:.3}s", after.as_secs_f64()),
            }])
        };
        let details = self.retry_after.map_or_else(|| json!([]), delay);
        let (code, message) = (self.status.as_u16(), &self.message);
        json!({ "error": { "code": code, "message": message, "status": status, "details": details } })
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        let status = match error.kind() {
            Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Invalid | Kind::Never => StatusCode::BAD_REQUEST,
            Kind::Ended => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<ServiceError> for Unadmitted {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Never { .. } => Self::Never(error),
            error => Self::Refused(error.into()),
        }
    }
}

impl From<Refusal> for Unadmitted {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
