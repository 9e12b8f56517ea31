//! What is said back.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Serialize, Serializer};
use tidegate::{Decision, Limit, Metadata, Span, Standing, Timestamp, Unit};
use tidegate_service::{Decided, GrantedLease, Level, ServiceError, Told};

use crate::error::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED};
use crate::parse::amount::InUnit;
use crate::render::headers::{self, Style};
use crate::render::instant::Instant;

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
    /// What was answered.
    pub(crate) fn of(told: &Told<'a>) -> Self {
        Self {
            admitted: told.admitted(),
            binding: told.binding(),
            not_until: told.not_until().map(Instant),
            retry_after_ms: told.retry_after().map(Span::millis_up),
            limits: Limits(told.decision()),
            degraded: told.degraded(),
            shadowed: told.shadowed(),
            level: told.level(),
            member: told.member(),
            lease: None,
            overrides: None,
        }
    }

    /// A lease was granted.
    pub(crate) fn granted(told: &Told<'a>, granted: &'a GrantedLease) -> Self {
        Self {
            lease: Some(Lease {
                id: granted.id.to_string(),
                fence: granted.fence,
                granted_at: Instant(granted.granted_at),
                expires_at: Instant(granted.expires_at),
                repeated: granted.repeated,
                metadata: granted.metadata(),
            }),
            ..Self::of(told)
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

/// What was answered to whoever wants to begin: a refusal is a problem.
pub(crate) fn decided(told: &Told<'_>, style: Style) -> Response {
    match told.admitted() {
        true => self::told(told, style),
        false => refused_as(StatusCode::TOO_MANY_REQUESTS, told, style),
    }
}

/// What was answered to whoever wants to know: always an answer.
pub(crate) fn told(told: &Told<'_>, style: Style) -> Response {
    with_headers(&Answer::of(told), told, style)
}

/// What would be decided, with the limits whose numbers are an override's.
pub(crate) fn foretold(told: &Told<'_>, overridden: &[(String, Level)], style: Style) -> Response {
    let answer = Answer {
        overrides: (!overridden.is_empty()).then_some(Overrides(overridden)),
        ..Answer::of(told)
    };
    with_headers(&answer, told, style)
}

/// A lease was granted.
pub(crate) fn granted(told: &Told<'_>, granted: &GrantedLease, style: Style) -> Response {
    with_headers(&Answer::granted(told, granted), told, style)
}

fn with_headers(answer: &Answer<'_>, told: &Told<'_>, style: Style) -> Response {
    let mut response = json(StatusCode::OK, answer);
    headers::put(response.headers_mut(), told, style);
    response
}

/// A refusal, under this status: when to come back, and why.
pub(crate) fn refused_as(status: StatusCode, told: &Told<'_>, style: Style) -> Response {
    let (Some(at), Some(wait)) = (told.not_until(), told.retry_after()) else {
        return Problem::never(told.binding()).into_response();
    };
    let mut response = written(status, PROBLEM_JSON, &refusal(status, told, at));
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(wait.secs_up()));
    headers::put(headers, told, style);
    response
}

fn refusal<'a>(status: StatusCode, told: &Told<'a>, at: Timestamp) -> Refusal<'a> {
    let binding = told.binding();
    let detail = match (binding, told.level()) {
        (Some(limit), Some(level)) => {
            format!(
                "limit `{limit}` of the {level} does not have as much left; it fits at {}",
                Instant(at)
            )
        }
        (Some(limit), None) => format!(
            "limit `{limit}` does not have as much left; it fits at {}",
            Instant(at)
        ),
        (None, _) => format!("not before {}", Instant(at)),
    };
    Refusal {
        kind: QUOTA_EXCEEDED,
        title: "Quota exceeded",
        status: status.as_u16(),
        detail,
        code: "refused",
        violated: binding.into_iter().collect(),
        answer: Answer::of(told),
    }
}

/// The answers to several checks: to each what would have been said to it alone.
#[derive(Serialize)]
pub(crate) struct Many<'a> {
    answers: Vec<Each<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Each<'a> {
    Answered(Answer<'a>),
    Failed { problem: Problem },
}

impl<'a> From<&'a [Result<Decided, ServiceError>]> for Many<'a> {
    fn from(answers: &'a [Result<Decided, ServiceError>]) -> Self {
        let answers = answers.iter().map(|one| match one {
            Ok(decided) => Each::Answered(Answer::of(&decided.told())),
            Err(error) => Each::Failed {
                problem: error.clone().into(),
            },
        });
        Self {
            answers: answers.collect(),
        }
    }
}
