//! What is said back.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use tidegate::{Decision, Limit, Metadata, Span, Standing, Timestamp, Unit, Verdict};
use tidegate_service::{Answer as Answered, Level, Served, Ticket};

use crate::amount::InUnit;
use crate::headers::{self, Style};
use crate::instant::Instant;
use crate::problem::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED};

/// As much as an answer usually comes to, in bytes.
const USUAL: usize = 512;

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
    /// The name of the binding limit's level, where keys have levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'a str>,
    /// The member of a pool whose answer it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Lease<'a>>,
    /// The limits whose numbers are an override's.
    #[serde(skip_serializing_if = "Option::is_none")]
    overrides: Option<Overrides<'a>>,
}

/// Limits, and at which level their overrides are set.
struct Overrides<'a>(&'a [(String, Level)]);

impl Serialize for Overrides<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = self.0.iter();
        serializer.collect_map(limits.map(|(name, level)| (name, level.name())))
    }
}

/// A lease, for its holder alone.
#[derive(Serialize)]
struct Lease<'a> {
    id: String,
    fence: u64,
    granted_at: Instant,
    expires_at: Instant,
    repeated: bool,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: &'a Metadata,
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
    limit: InUnit,
    remaining: InUnit,
    debt: InUnit,
    replenish_at: Option<Instant>,
    full_at: Option<Instant>,
}

impl Stand {
    /// With amounts of this unit.
    pub(crate) fn of(unit: Unit, standing: Standing) -> Self {
        Self {
            limit: InUnit(unit, standing.limit),
            remaining: InUnit(unit, standing.remaining),
            debt: InUnit(unit, standing.debt),
            replenish_at: standing.replenish_at.map(Instant),
            full_at: standing.full_at.map(Instant),
        }
    }
}

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let stands = self.0.into_iter().flat_map(|decision| {
            let unit = |name| decision.limit(name).map_or(Unit::ONE, Limit::amounts);
            let standings = decision.standings();
            standings.map(move |(name, standing)| (name, Stand::of(unit(name), standing)))
        });
        serializer.collect_map(stands)
    }
}

impl<'a> Answer<'a> {
    /// What was decided, as of `now`.
    pub(crate) fn decided(served: &'a Served, decision: &'a Decision, now: Timestamp) -> Self {
        let not_until = decision.not_until();
        Self {
            admitted: decision.admitted(),
            binding: decision.binding(),
            not_until: not_until.map(Instant),
            retry_after_ms: decision.retry_after(now).map(Span::millis_up),
            limits: Limits(Some(decision)),
            degraded: decision.degraded(),
            shadowed: decision.shadowed(),
            level: served.level(decision),
            member: decision.member(),
            lease: None,
            overrides: None,
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
            level: None,
            member: None,
            lease: None,
            overrides: None,
        }
    }

    /// What the service answered, as of `now`.
    pub(crate) fn of(served: &'a Served, answered: &'a Answered, now: Timestamp) -> Self {
        match answered {
            Answered::Decided(decision) => Self::decided(served, decision, now),
            Answered::Degraded(_) => Self::degraded(),
        }
    }

    /// A lease was granted.
    pub(crate) fn granted(ticket: &'a Ticket) -> Self {
        Self {
            degraded: ticket.degraded,
            shadowed: ticket.shadowed,
            member: ticket.member(),
            limits: Limits(ticket.decision()),
            lease: Some(Lease {
                id: ticket.id.to_string(),
                fence: ticket.fence,
                granted_at: Instant(ticket.granted_at),
                expires_at: Instant(ticket.expires_at),
                repeated: ticket.repeated,
                metadata: ticket.metadata(),
            }),
            ..Self::degraded()
        }
    }
}

/// Any value, as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    written(status, JSON, value)
}

/// Any value, as a kind of JSON.
fn written(status: StatusCode, kind: HeaderValue, value: &impl Serialize) -> Response {
    let mut body = Vec::with_capacity(USUAL);
    // Writing to memory fails for no value of ours.
    if serde_json::to_writer(&mut body, value).is_err() {
        body.clear();
    }
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// What the service answered to whoever wants to begin: a refusal is a problem.
pub(crate) fn decided(served: &Served, answered: &Answered, style: Style) -> Response {
    match answered {
        Answered::Decided(decision) if !decision.admitted() => refused(served, decision, style),
        answered => told(served, answered, style),
    }
}

/// What the service answered to whoever wants to know: always an answer.
pub(crate) fn told(served: &Served, answered: &Answered, style: Style) -> Response {
    let now = served.now();
    let mut response = json(StatusCode::OK, &Answer::of(served, answered, now));
    if let Answered::Decided(decision) = answered {
        headers::put(response.headers_mut(), decision, now, style);
    }
    response
}

/// What would be decided, with the limits whose numbers are an override's.
pub(crate) fn foretold(
    served: &Served,
    decision: &Decision,
    overridden: &[(String, Level)],
    style: Style,
) -> Response {
    let now = served.now();
    let answer = Answer {
        overrides: (!overridden.is_empty()).then_some(Overrides(overridden)),
        ..Answer::decided(served, decision, now)
    };
    let mut response = json(StatusCode::OK, &answer);
    headers::put(response.headers_mut(), decision, now, style);
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
    let refusal = Refusal {
        status: status.as_u16(),
        ..refusal(served, decision, at, now)
    };
    let mut response = written(status, PROBLEM_JSON, &refusal);
    let headers = response.headers_mut();
    let secs = decision.retry_after(now).map_or(1, Span::secs_up);
    headers.insert(RETRY_AFTER, HeaderValue::from(secs));
    headers::put(headers, decision, now, style);
    response
}

fn refusal<'a>(
    served: &'a Served,
    decision: &'a Decision,
    at: Timestamp,
    now: Timestamp,
) -> Refusal<'a> {
    let binding = decision.binding();
    let detail = match (binding, served.level(decision)) {
        (Some(limit), Some(level)) => {
            format!(
                "limit `{limit}` of the {level} is used up until {}",
                Instant(at)
            )
        }
        (Some(limit), None) => format!("limit `{limit}` is used up until {}", Instant(at)),
        (None, _) => format!("not before {}", Instant(at)),
    };
    Refusal {
        kind: QUOTA_EXCEEDED,
        title: "Quota exceeded",
        status: StatusCode::TOO_MANY_REQUESTS.as_u16(),
        detail,
        code: "refused",
        violated: binding.into_iter().collect(),
        answer: Answer::decided(served, decision, now),
    }
}
