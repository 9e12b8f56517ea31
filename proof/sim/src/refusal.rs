//! Refusals and failures: status, headers and body, in each dialect.

use serde_json::{Value, json};
use tidegate_llm::Provider;

use crate::account::Bound;
use crate::call::Shape;
use crate::headers::{self, Header};
use crate::limit::{Full, Unit};

/// Why a call is not answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// A limit has no room.
    Limit(Bound),
    /// The money is spent: no time brings it back.
    Spent,
    /// The provider fails, with this status.
    Failed(u16),
    /// The provider has no room for anybody.
    Overloaded,
    /// The call makes no sense: a status, and what is wrong.
    Bad(u16, String),
}

/// A refusal, as it is written.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal {
    /// The status.
    pub status: u16,
    /// When to come again, and how limits stand.
    pub headers: Vec<Header>,
    /// What is wrong, in the words of the call's dialect.
    pub body: Value,
}

impl Refusal {
    /// A refusal of a call of that shape, by a provider of that dialect; without a time to come
    /// again unless that is told.
    #[must_use]
    pub fn new(dialect: Provider, shape: Shape, why: &Why, told: bool) -> Self {
        let status = match why {
            Why::Limit(_) | Why::Spent => 429,
            Why::Overloaded if dialect == Provider::Anthropic => 529,
            Why::Overloaded => 503,
            Why::Failed(status) | Why::Bad(status, _) => *status,
        };
        let headers = match why {
            Why::Limit(bound) if told => headers::retry_after(dialect, bound.full),
            _ => Vec::new(),
        };
        let body = match shape {
            Shape::Messages => anthropic(status, why),
            Shape::Gemini => gemini(status, why, told),
            Shape::Chat | Shape::Responses | Shape::Embeddings => openai(status, why),
        };
        Self {
            status,
            headers,
            body,
        }
    }
}

/// What is wrong, in a sentence.
fn message(why: &Why) -> String {
    match why {
        Why::Limit(Bound {
            standing,
            needs,
            full,
        }) => {
            let limit = standing.limit;
            let (name, used) = (
                limit.unit.name(),
                limit.capacity.saturating_sub(standing.remaining),
            );
            match full {
                Full::For(wait) => format!(
                    "Rate limit reached on {name}: Limit {}, Used {used}, Requested {needs}. Please try again in {}.",
                    limit.capacity,
                    headers::go(*wait)
                ),
                Full::Ever => format!(
                    "Request too large on {name}: Limit {}, Requested {needs}.",
                    limit.capacity
                ),
            }
        }
        Why::Spent => {
            "You exceeded your current quota, please check your plan and billing details."
                .to_owned()
        }
        Why::Failed(status) => format!("The server had an error ({status})."),
        Why::Overloaded => "Overloaded".to_owned(),
        Why::Bad(_, message) => message.clone(),
    }
}

fn openai(status: u16, why: &Why) -> Value {
    let (kind, code) = match why {
        Why::Limit(bound) if bound.standing.limit.unit == Unit::Requests => {
            ("requests", "rate_limit_exceeded")
        }
        Why::Limit(_) => ("tokens", "rate_limit_exceeded"),
        Why::Spent => ("insufficient_quota", "insufficient_quota"),
        Why::Failed(429) => ("requests", "rate_limit_exceeded"),
        Why::Failed(_) | Why::Overloaded => ("server_error", "server_error"),
        Why::Bad(_, _) if status == 401 => ("invalid_request_error", "invalid_api_key"),
        Why::Bad(..) => ("invalid_request_error", "invalid_request"),
    };
    json!({ "error": { "message": message(why), "type": kind, "param": null, "code": code } })
}

fn anthropic(status: u16, why: &Why) -> Value {
    let kind = match status {
        429 => "rate_limit_error",
        401 => "authentication_error",
        404 => "not_found_error",
        529 | 503 => "overloaded_error",
        400..500 => "invalid_request_error",
        _ => "api_error",
    };
    let mut error = json!({ "type": kind, "message": message(why) });
    if *why == Why::Spent {
        error["details"] = json!({ "error_code": "enforced_spend_limit_reached" });
    }
    json!({ "type": "error", "error": error })
}

fn gemini(code: u16, why: &Why, told: bool) -> Value {
    let status = match code {
        429 => "RESOURCE_EXHAUSTED",
        401 => "UNAUTHENTICATED",
        404 => "NOT_FOUND",
        503 | 529 => "UNAVAILABLE",
        400..500 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    };
    let mut message = message(why);
    let mut details = Vec::new();
    if let Why::Limit(bound) = why {
        let limit = bound.standing.limit;
        let per = if limit.is_daily() {
            "PerDay"
        } else {
            "PerMinute"
        };
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{
                "quotaMetric": format!("generativelanguage.googleapis.com/{}", limit.unit.name()),
                "quotaId": format!("Generate{per}PerProjectPerModel"),
                "quotaValue": limit.capacity.to_string(),
            }],
        }));
        if let (true, Full::For(wait)) = (told, bound.full) {
            let seconds = wait.as_duration().as_secs_f64();
            message = format!("You exceeded your current quota. Please retry in {seconds}s.");
            details.push(json!({
                "@type": "type.googleapis.com/google.rpc.RetryInfo",
                "retryDelay": format!("{}s", wait.as_duration().as_secs()),
            }));
        }
    }
    json!({ "error": { "code": code, "message": message, "status": status, "details": details } })
}
