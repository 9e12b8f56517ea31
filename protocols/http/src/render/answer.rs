//! What is said back.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, Schema};
use serde::{Serialize, Serializer};
use serde_json::json;
use tidegate::{Decision, Limit, Metadata, Span, Standing, Timestamp, Unit};
use tidegate_service::{Decided, GrantedLease, Level, ServiceError, Told};

use crate::error::{PROBLEM_JSON, Problem, QUOTA_EXCEEDED};
use crate::openapi::schema::schema;
use crate::parse::amount::InUnit;
use crate::parse::request;
use crate::render::example;
use crate::render::headers::{self, Style};
use crate::render::instant::{Instant, millis_down};

/// As much as an answer usually comes to, in bytes.
const USUAL: usize = 512;

/// The code of a refusal.
const REFUSED: &str = "refused";

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// May it start, and where does everything stand?
#[derive(Serialize, JsonSchema)]
#[schemars(example = example::answer())]
pub(crate) struct Answer<'a> {
    /// Whether it may start.
    admitted: bool,
    /// The limit that binds: whose refusal lasts longest.
    binding: Option<&'a str>,
    /// The exact instant at which it may start, if nothing else happens. Of a concurrency
    /// limit, that is when the lease that expires first does: its holder may end it sooner, or
    /// renew it.
    not_until: Option<Instant>,
    /// Milliseconds until then, rounded up; longer by up to the policy's `jitter`, where it has
    /// one.
    #[schemars(range(min = 1))]
    retry_after_ms: Option<u64>,
    /// Where every limit stands after this step, by name.
    #[schemars(with = "Standings")]
    limits: Limits<'a>,
    /// The store could not tell; admitted, as the policy's failure mode says.
    degraded: bool,
    /// A shadow limit would have refused.
    shadowed: bool,
    /// The name of the level of the limit that binds, where keys have levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    level: Option<&'a str>,
    /// The id of the entity whose limit binds, the one that was asked or an ancestor, where an
    /// `entity` was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<&'a str>,
    /// The member of a pool whose answer it is; of a refusal, the one that is free soonest.
    /// Missing without a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
}

/// The answer to a request for a lease.
#[derive(Serialize, JsonSchema)]
#[schemars(example = example::admission())]
pub(crate) struct Admission<'a> {
    #[serde(flatten)]
    answer: Answer<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Lease<'a>>,
}

/// What a check would be answered.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Peek", example = example::answer())]
pub(crate) struct Peeked<'a> {
    #[serde(flatten)]
    answer: Answer<'a>,
    /// The limits whose numbers are an override's, and how specific it is. Missing if all are the
    /// policy's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, LevelName>", example = json!({"tpm": "entity"}))]
    overrides: Option<Overrides<'a>>,
}

/// How specific an override is.
struct LevelName;

schema!(LevelName = {"type": "string", "enum": Level::ALL.map(Level::name)});

/// Limits, and at which level their overrides are set.
struct Overrides<'a>(&'a [(String, Level)]);

impl Serialize for Overrides<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let limits = self.0.iter();
        serializer.collect_map(limits.map(|(name, level)| (name, level.name())))
    }
}

/// What is held, for its holder alone. It is missing where the answer is degraded.
#[derive(Serialize, JsonSchema)]
#[schemars(example = example::lease())]
struct Lease<'a> {
    /// The lease's id, which only its holder knows.
    #[schemars(regex(pattern = "^[0-9a-fA-F]{32}$"), example = request::Lease::EXAMPLE)]
    id: String,
    /// Larger than that of every earlier lease on the same slots; null without slots, and of a
    /// lease that a tier gave. Hand it to the resource, which refuses a smaller one.
    fence: Option<u64>,
    /// When it was granted, by the store's clock: of one that waited, the end of its wait.
    /// Neither a renewal nor an adjustment changes it.
    granted_at: Instant,
    /// When it expires unless renewed.
    expires_at: Instant,
    /// Milliseconds for which it surely lasts from this answer on, unless renewed; of one that
    /// was given before, what is left of it. A client counts these by a clock of its own.
    expires_in_ms: u64,
    /// Milliseconds for which the request was here until this answer. Sent at an instant of the
    /// client's clock, the lease surely lasts until `waited_ms` and `expires_in_ms` after that.
    waited_ms: u64,
    /// It was given before, to a request with the same idempotency key.
    repeated: bool,
    /// The words of the policy, and of the member that gave it: region, account, endpoint.
    /// Missing if there are none.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schemars(with = "BTreeMap<String, String>", example = json!({"region": "eu-west"}))]
    metadata: &'a Metadata,
}

/// Not now: a problem that carries the answer.
#[derive(Serialize, JsonSchema)]
#[schemars(example = example::refusal())]
pub(crate) struct Refusal<'a> {
    /// The registered type.
    #[serde(rename = "type")]
    #[schemars(extend("const" = QUOTA_EXCEEDED))]
    kind: &'static str,
    /// The kind in words.
    title: &'static str,
    /// The status of the response.
    #[schemars(range(min = 400, max = 599))]
    status: u16,
    /// What is wrong, for people.
    detail: String,
    /// Always this word.
    #[schemars(extend("const" = REFUSED))]
    code: &'static str,
    /// The limit that binds.
    #[serde(rename = "violated-policies")]
    violated: Vec<&'a str>,
    #[serde(flatten)]
    answer: Answer<'a>,
}

/// The standings of a decision, by name.
pub(crate) struct Limits<'a>(pub(crate) Option<&'a Decision>);

/// As the document has them.
pub(crate) type Standings = BTreeMap<String, Stand>;

/// Where a limit stands.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Standing", example = example::standing())]
pub(crate) struct Stand {
    /// The most that could ever be granted at once. Of a limit with a `unit`, a decimal in
    /// quotes.
    limit: InUnit,
    /// Whole units that could be granted now. Of a limit with a `unit`, a decimal in quotes.
    remaining: InUnit,
    /// Units used beyond the limit and not yet paid back. Of a limit with a `unit`, a decimal in
    /// quotes.
    #[schemars(transform = without_maximum)]
    debt: InUnit,
    /// When `remaining` next grows by itself; null if it is full.
    replenish_at: Option<Instant>,
    /// When everything is available again; null if it is.
    full_at: Option<Instant>,
}

pub(super) fn without_maximum(schema: &mut Schema) {
    schema.remove("maximum");
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
            entity: told.entity(),
            member: told.member(),
        }
    }
}

impl<'a> Admission<'a> {
    fn of(told: &Told<'a>, granted: &'a GrantedLease) -> Self {
        Self {
            answer: Answer::of(told),
            lease: Some(Lease {
                id: granted.id.to_string(),
                fence: granted.fence,
                granted_at: Instant(granted.granted_at),
                expires_at: Instant(granted.expires_at),
                expires_in_ms: millis_down(granted.expires_in),
                waited_ms: millis_down(granted.waited),
                repeated: granted.repeated,
                metadata: granted.metadata(),
            }),
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
    let answer = Peeked {
        answer: Answer::of(told),
        overrides: (!overridden.is_empty()).then_some(Overrides(overridden)),
    };
    with_headers(&answer, told, style)
}

/// A lease was granted.
pub(crate) fn granted(told: &Told<'_>, granted: &GrantedLease, style: Style) -> Response {
    with_headers(&Admission::of(told, granted), told, style)
}

pub(super) fn with_headers(answer: &impl Serialize, told: &Told<'_>, style: Style) -> Response {
    let mut response = json(StatusCode::OK, answer);
    headers::put(response.headers_mut(), told, style);
    response
}

/// A refusal, under this status: when to come back, and why.
pub(crate) fn refused_as(status: StatusCode, told: &Told<'_>, style: Style) -> Response {
    let (Some(at), Some(wait)) = (told.not_until(), told.retry_after()) else {
        return Problem::other().into_response();
    };
    let mut response = written(status, PROBLEM_JSON, &refusal(status, told, at));
    let headers = response.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from(wait.secs_up()));
    headers::put(headers, told, style);
    response
}

fn refusal<'a>(status: StatusCode, told: &Told<'a>, at: Timestamp) -> Refusal<'a> {
    let binding = told.binding();
    let by = match (binding, told.level()) {
        (Some(limit), Some(level)) => match told.entity() {
            Some(entity) => format!("refused by {limit} of the {level} {entity}"),
            None => format!("refused by {limit} of the {level}"),
        },
        (Some(limit), None) => format!("refused by {limit}"),
        (None, _) => "refused".to_owned(),
    };
    let or_sooner = match told.binds_slots() {
        true => ", or send `wait_ms` to get a slot as soon as one is freed",
        false => "",
    };
    Refusal {
        kind: QUOTA_EXCEEDED,
        title: "Quota exceeded",
        status: status.as_u16(),
        detail: format!("{by}; retry at {}{or_sooner}", Instant(at)),
        code: REFUSED,
        violated: binding.into_iter().collect(),
        answer: Answer::of(told),
    }
}

/// The answers, in the order of the checks: to each what it would have been answered alone.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Answers", example = example::answers())]
pub(crate) struct Many<'a> {
    answers: Vec<Each<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Each<'a> {
    Answered(Answer<'a>),
    Failed(Failed),
}

/// Why one of several checks has no answer.
#[derive(Serialize, JsonSchema)]
struct Failed {
    problem: Problem,
}

impl<'a> From<&'a [Result<Decided, ServiceError>]> for Many<'a> {
    fn from(answers: &'a [Result<Decided, ServiceError>]) -> Self {
        let answers = answers.iter().map(|one| match one {
            Ok(decided) => Each::Answered(Answer::of(&decided.told())),
            Err(error) => Each::Failed(Failed {
                problem: error.clone().into(),
            }),
        });
        Self {
            answers: answers.collect(),
        }
    }
}
