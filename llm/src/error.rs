//! Errors, as each dialect writes them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::dialect::Dialect;

impl Dialect {
    /// The body of an error with that status, which may pass after that time.
    #[must_use]
    pub fn error(self, status: u16, message: &str, retry_after: Option<Duration>) -> Value {
        match self {
            Self::OpenAi => openai(status, message),
            Self::Anthropic => anthropic(status, message),
            Self::Gemini => gemini(status, message, retry_after),
        }
    }
}

fn openai(status: u16, message: &str) -> Value {
    let (kind, code) = match status {
        429 => ("rate_limit_error", "rate_limit_exceeded"),
        401 => ("invalid_request_error", "invalid_api_key"),
        403 => ("invalid_request_error", "permission_denied"),
        400..500 => ("invalid_request_error", "invalid_request"),
        _ => ("server_error", "gateway_error"),
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": code } })
}

fn anthropic(status: u16, message: &str) -> Value {
    let kind = match status {
        429 => "rate_limit_error",
        401 => "authentication_error",
        403 => "permission_error",
        413 => "request_too_large",
        400..500 => "invalid_request_error",
        503 => "overloaded_error",
        _ => "api_error",
    };
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}

fn gemini(status: u16, message: &str, retry_after: Option<Duration>) -> Value {
    let word = match status {
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
    let details = retry_after.map_or_else(|| json!([]), delay);
    json!({ "error": { "code": status, "message": message, "status": word, "details": details } })
}
