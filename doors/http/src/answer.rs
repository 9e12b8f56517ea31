//! What is said back.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use tidegate::gate::{Answer as Answered, Served, Ticket};
use tidegate::{Decision, Standing, Timestamp, Verdict};

use crate::headers::{self, Style};
use crate::instant::{Instant, millis, seconds};
use crate::problem::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The answer to an ask: may it start, and where does everything stand?
#[derive(Serialize)]
pub(crate) struct Answer<'a> {
    admitted: bool,
    binding: Option<&'a str>,
    not_until: Option<Instant>,
    retry_after_ms: Option<u64>,
    limits: Limits<'a>,
    degraded: bool,
    shadowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Lease>,
}

/// A lease, for its holder alone.
#[derive(Serialize)]
struct Lease {
    id: String,
    fence: u64,
    expires_at: Instant,
    repeated: bool,
}

/// A refusal: a problem that carries the answer.
#[derive(Serialize)]
struct Refusal<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    code: &'static str,
    #[serde(rename = "violated-policies")]
    violated: Vec<&'a str>,
    #[serde(flatten)]
    answer: Answer<'a>,
}

/// The standings of a decision, by name.
pub(crate) struct Limits<'a>(pub(crate) Option<&'a Decision>);

/// Where one limit stands.
#[derive(Serialize)]
pub(crate) struct Stand {
    limit: u64,
    remaining: u64,
    debt: u64,
    replenish_at: Option<Instant>,
    full_at: Option<Instant>,
}

impl From<Standing> for Stand {
    fn from(standing: Standing) -> Self {
        Self {
            limit: standing.limit,
            remaining: standing.remaining,
            debt: standing.debt,
            replenish_at: standing.replenish_at.map(Instant),
            full_at: standing.full_at.map(Instant),
        }
    }
}

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let standings = self.0.into_iter().flat_map(Decision::standings);
        serializer.collect_map(standings.map(|(name, standing)| (name, Stand::from(standing))))
    }
}

impl<'a> Answer<'a> {
    /// What was decided, as of `now`.
    pub(crate) fn decided(decision: &'a Decision, now: Timestamp) -> Self {
        let not_until = decision.not_until();
        Self {
            admitted: decision.admitted(),
            binding: decision.binding(),
            not_until: not_until.map(Instant),
            // Whoever was refused is not to come back in no time at all.
            retry_after_ms: not_until.map(|at| millis(now, at).max(1)),
            limits: Limits(Some(decision)),
            degraded: false,
            shadowed: decision.shadowed(),
            lease: None,
        }
    }

    /// Admitted although the store could not tell.
    pub(crate) const fn degraded() -> Self {
        Self {
            admitted: true,
            binding: None,
            not_until: None,
            retry_after_ms: None,
            limits: Limits(None),
            degraded: true,
            shadowed: false,
            lease: None,
        }
    }

    /// What the gate answered, as of `now`.
    pub(crate) fn of(answered: &'a Answered, now: Timestamp) -> Self {
        match answered {
            Answered::Decided(decision) => Self::decided(decision, now),
            Answered::Degraded(_) => Self::degraded(),
        }
    }

    /// A lease was granted; `standing` is what the limits say since then.
    pub(crate) fn granted(ticket: &Ticket, standing: Option<&'a Decision>) -> Self {
        Self {
            degraded: false,
            limits: Limits(standing),
            lease: Some(Lease {
                id: ticket.id.to_string(),
                fence: ticket.fence,
                expires_at: Instant(ticket.expires_at),
                repeated: ticket.repeated,
            }),
            ..Self::degraded()
        }
    }
}

/// Any value, as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).unwrap_or_default();
    (status, [(CONTENT_TYPE, JSON)], body).into_response()
}

/// What the gate answered to whoever wants to begin: a refusal is a problem.
pub(crate) fn decided(served: &Served, answered: &Answered, style: Style) -> Response {
    match answered {
        Answered::Decided(decision) if !decision.admitted() => refused(served, decision, style),
        answered => told(served, answered, style),
    }
}

/// What the gate answered to whoever wants to know: always an answer.
pub(crate) fn told(served: &Served, answered: &Answered, style: Style) -> Response {
    let now = served.now();
    let mut response = json(StatusCode::OK, &Answer::of(answered, now));
    if let Answered::Decided(decision) = answered {
        headers::put(response.headers_mut(), decision, now, style);
    }
    response
}

/// A refusal: when to come back, and why.
pub(crate) fn refused(served: &Served, decision: &Decision, style: Style) -> Response {
    refused_as(StatusCode::TOO_MANY_REQUESTS, served, decision, style)
}

/// The same, under another status.
pub(crate) fn refused_as(
    status: StatusCode,
    served: &Served,
    decision: &Decision,
    style: Style,
) -> Response {
    let Verdict::NotUntil(at) = decision.verdict() else {
        return Problem::never(decision.binding()).into_response();
    };
    let now = served.now();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, PROBLEM_JSON);
    headers.insert(RETRY_AFTER, HeaderValue::from(seconds(now, at).max(1)));
    headers::put(&mut headers, decision, now, style);
    let refusal = Refusal {
        status: status.as_u16(),
        ..refusal(decision, at, now)
    };
    let body = serde_json::to_vec(&refusal).unwrap_or_default();
    (status, headers, body).into_response()
}

fn refusal(decision: &Decision, at: Timestamp, now: Timestamp) -> Refusal<'_> {
    let binding = decision.binding();
    let detail = match binding {
        Some(limit) => format!("limit `{limit}` is used up until {}", Instant(at)),
        None => format!("not before {}", Instant(at)),
    };
    Refusal {
        kind: QUOTA_EXCEEDED,
        title: "Quota exceeded",
        status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
        detail,
        code: "refused",
        violated: binding.into_iter().collect(),
        answer: Answer::decided(decision, now),
    }
}
