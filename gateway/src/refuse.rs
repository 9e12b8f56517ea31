//! Refusals.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use metrics::{counter, describe_counter};
use tidegate::internal::LimitInternals;
use tidegate::{Error, StoreError};
use tidegate_llm::request::NotJson;
use tidegate_llm::{Counts, Dialect};
use tidegate_policy::Policy;
use tidegate_service::{Kind, ServiceError, Told};

use crate::key_path::KeyPath;

/// Why a call was not forwarded, or not answered.
#[derive(Clone, Debug)]
pub struct Refusal {
    status: StatusCode,
    message: String,
    retry_after: Option<Duration>,
    /// In one word, for callers and metrics.
    reason: &'static str,
}

/// What tells a caller that the gateway has refused, and not the provider: the reason.
pub const REFUSED: HeaderName = HeaderName::from_static("x-tidegate-refused");

/// How many calls were refused, by the reason.
const REFUSED_CALLS: &str = "tidegate_gateway_refused_calls_total";

/// Says what is counted.
pub fn describe() {
    describe_counter!(
        REFUSED_CALLS,
        "Calls that the gateway refused itself, by reason"
    );
}

/// The reason that most refusals of a status have.
fn usual_reason(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "limit",
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "denied",
        StatusCode::SERVICE_UNAVAILABLE => "busy",
        status if status.is_server_error() => "upstream",
        _ => "invalid",
    }
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
            reason: usual_reason(status),
        }
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether a policy may refuse with that what another one does not.
    pub fn is_of_a_policy(&self) -> bool {
        self.status == StatusCode::BAD_REQUEST
    }

    /// A limit has no room for a call that takes `wanted`. When a slot comes back its holder alone
    /// knows: a caller is told to come again soon, and not when the lease expires.
    pub fn limit(policy: &Policy, told: &Told<'_>, wanted: Option<(Counts, u64)>) -> Self {
        let Some(limit) = told.binding() else {
            let after = told.retry_after().map(|after| after.as_duration());
            return match after {
                Some(after) if after > SOON => Self::cooling(policy, after.min(LONGEST)),
                _ => Self::behind(policy),
            };
        };
        let what = short_of(policy, told, wanted)
            .unwrap_or_else(|| format!("limit `{limit}` of policy `{}` is reached", policy.name));
        let mut limits = policy.limit_lists().flatten();
        let is_slot = limits.any(|known| known.name() == limit && known.is_concurrency());
        let told = told.retry_after().filter(|_| !is_slot);
        let after = told.map(|after| after.as_duration().min(LONGEST));
        let until = match after {
            Some(after) => format!("try again in {}", spoken(after)),
            None => "try again when a call has ended".to_owned(),
        };
        Self {
            retry_after: Some(after.unwrap_or(SOON)),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, format!("{what}; {until}"))
        }
    }

    /// A call whose wait ended while others stood before it: what the limits have is theirs.
    fn behind(policy: &Policy) -> Self {
        let message = format!(
            "other calls of policy `{}` stand before this one; try again in {}",
            policy.name,
            spoken(SOON)
        );
        Self {
            retry_after: Some(SOON),
            reason: "turn",
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// A call for a pool, all of whose members are passed over for a while.
    fn cooling(policy: &Policy, after: Duration) -> Self {
        let message = format!(
            "no member of policy `{}` is asked now, as their providers have refused; try again in {}",
            policy.name,
            spoken(after)
        );
        Self {
            retry_after: Some(after),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// A prompt that is more than a limit ever grants.
    pub fn prompt(
        policy: &Policy,
        (limit, most): (&str, &str),
        (counts, wanted): (Counts, &str),
    ) -> Self {
        let mut limits = policy.limit_lists().flatten();
        let is_learnt = limits.any(|known| known.name() == limit && known.is_adaptive());
        let (policy, how) = match is_learnt {
            true => (
                &policy.name,
                "or set an override, which stands over what is learnt",
            ),
            false => (&policy.name, "or raise the limit"),
        };
        let what = match counts {
            Counts::Money => format!("the prompt alone costs {wanted}"),
            _ => format!("the prompt is estimated at {wanted} tokens"),
        };
        let message = format!(
            "{what}, and limit `{limit}` of policy `{policy}` never grants more than {most}: shorten it, {how}"
        );
        Self {
            reason: "never",
            ..Self::new(StatusCode::BAD_REQUEST, message)
        }
    }

    /// A call that wants more than what is tried of a limit that nobody says.
    pub fn untried(policy: &str, limit: &str, after: Duration) -> Self {
        let message = format!(
            "limit `{limit}` of policy `{policy}` is still being learnt and is below what this call needs; shorten it, or try again in {:.3} s",
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
            "limit `{limit}` of policy `{policy}` was lowered by the provider, which still counts what was used before; try again in {:.3} s",
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
            reason: "turn",
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, message)
        }
    }

    /// A call that waited while the gateway closed.
    pub fn closing(why: &str) -> Self {
        Self {
            retry_after: Some(SOON),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }

    /// A body that is no call.
    pub fn body(error: &NotJson) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error.to_string())
    }

    /// A path of which nobody can tell what it asks for.
    pub fn path() -> Self {
        let message = "a path has no `.` and `..`, no space, and none of `\\`, `;`, `?`, `#`, `%`, spelt as \
                       they are or as `%xx`, which stands for UTF-8";
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A path that does not name whose limits count.
    pub fn no_key(pattern: &KeyPath) -> Self {
        let message = format!(
            "the path does not begin with {pattern}, where {{key}} stands for who calls; add that to the \
             base URL of the client"
        );
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// A method that is not forwarded.
    pub fn method() -> Self {
        let message =
            "only GET, HEAD, OPTIONS, POST, PUT, PATCH and DELETE are forwarded, in capitals";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, message)
    }

    /// A call that would become another protocol.
    pub fn upgrade() -> Self {
        let message = "WebSockets are not forwarded, for what they use cannot be counted: call over \
                       HTTP, without `Upgrade`";
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// A body that cannot be read as it comes.
    pub fn encoded(by: &HeaderValue) -> Self {
        let by: String = String::from_utf8_lossy(by.as_bytes())
            .chars()
            .take(64)
            .collect();
        let message = format!(
            "the body is compressed (`{by}`), and its tokens are counted here: send it as it is, \
             without Content-Encoding"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
    }

    /// A path whose tokens nobody counts, where only counted calls pass.
    pub fn uncounted(path: &str) -> Self {
        let path: String = path.chars().take(128).collect();
        let message = format!(
            "`{path}` is refused: its tokens cannot be counted, and this gateway runs with \
             --only-counted; call the provider directly, or start it without"
        );
        Self::new(StatusCode::FORBIDDEN, message)
    }

    /// A body that is too large.
    pub fn too_large(most: usize) -> Self {
        let message =
            format!("the body is larger than {most} bytes; shorten it, or send files by reference");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// No room for another body.
    pub fn busy() -> Self {
        let message = "the bodies of calls that are not answered yet take up the room that their caller \
                       may have: send fewer large ones at once, or try again";
        Self {
            retry_after: Some(SOON),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }

    /// A body that did not arrive.
    pub fn late(why: &str) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, why)
    }

    /// A model whose money cannot be counted.
    pub fn no_price(model: &str) -> Self {
        if model.is_empty() {
            let message =
                "the body names no `model`, and the policy counts money, which is by the model";
            return Self::new(StatusCode::BAD_REQUEST, message);
        }
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

    /// No connection to the provider came about in the time that an answer has to begin in.
    pub fn unconnected(upstream: &str, within: Duration) -> Self {
        Self::unreachable(
            upstream,
            &format!("no connection came about within {within:?}"),
        )
    }

    /// The provider sends the call elsewhere, where it is not sent.
    pub fn redirected(upstream: &str, status: StatusCode, to: Option<&str>) -> Self {
        // Without what is asked of it: that may be a key.
        let to = to.unwrap_or("nowhere").split(['?', '#']).next();
        let to: String = to.unwrap_or_default().chars().take(256).collect();
        let message = format!(
            "upstream `{upstream}` redirects to {to} ({}), which is not followed: write the address \
             that answers in --upstream",
            status.as_str()
        );
        Self::new(StatusCode::BAD_GATEWAY, message)
    }

    /// The provider does not answer.
    pub fn silent(upstream: &str, within: Duration) -> Self {
        let message = format!("upstream `{upstream}` did not answer within {within:?}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, message)
    }

    /// The same in the words of a dialect, for the caller; and counted.
    pub fn render(&self, dialect: Dialect) -> Response<Bytes> {
        counter!(REFUSED_CALLS, "reason" => self.reason).increment(1);
        let status = self.status.as_u16();
        let body = dialect.error(status, &self.message, self.retry_after);
        let mut response = Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(REFUSED, HeaderValue::from_static(self.reason));
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
}

/// How much of the limit that binds a call may take, and how much is left, if that is less.
fn short_of(policy: &Policy, told: &Told<'_>, wanted: Option<(Counts, u64)>) -> Option<String> {
    let (counts, wanted) = wanted?;
    let name = told.binding()?;
    let stand = told.limits().find(|stand| stand.name == name)?;
    let left = stand.standing.remaining;
    if wanted <= left {
        // Others stand before it.
        return None;
    }
    let (wanted, left, policy) = (stand.unit.show(wanted), stand.unit.show(left), &policy.name);
    Some(match counts {
        Counts::Money => {
            format!(
                "this call may cost {wanted}, and {left} of `{name}` (policy `{policy}`) is left"
            )
        }
        _ => format!(
            "this call may use {wanted} tokens, and {left} of `{name}` (policy `{policy}`) are left"
        ),
    })
}

/// A wait in words, rounded up: the two largest units of those that a person counts by.
fn spoken(wait: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    if wait < Duration::from_secs(MINUTE) {
        return format!("{:.3} s", wait.as_secs_f64());
    }
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let (large, small) = match seconds {
        0..HOUR => ((MINUTE, "min"), (1, "s")),
        HOUR..DAY => ((HOUR, "h"), (MINUTE, "min")),
        _ => ((DAY, "d"), (HOUR, "h")),
    };
    let parts = seconds.div_ceil(small.0);
    let in_large = large.0 / small.0;
    match (parts / in_large, parts % in_large) {
        (whole, 0) => format!("{whole} {}", large.1),
        (whole, rest) => format!("{whole} {} {rest} {}", large.1, small.1),
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        let status = match error.kind() {
            Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Invalid | Kind::Never => StatusCode::BAD_REQUEST,
            Kind::Ended | Kind::InUse => StatusCode::CONFLICT,
            Kind::Deleted => StatusCode::GONE,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let message = match &error {
            // What it says itself is for the log: it may name hosts.
            ServiceError::Limits(Error::Store(StoreError::Unavailable(_))) => {
                "the store of the limits does not answer; try again".to_owned()
            }
            _ => error.to_string(),
        };
        let is_away = status == StatusCode::SERVICE_UNAVAILABLE;
        let reason = match &error {
            ServiceError::Never { .. } => "never",
            ServiceError::Limits(Error::Store(_)) if is_away => "store",
            _ => usual_reason(status),
        };
        Self {
            retry_after: is_away.then_some(SOON),
            reason,
            ..Self::new(status, message)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that redirects to another often repeats the query, and the caller's key in it.
    #[test]
    fn where_an_upstream_redirects_to_is_told_without_its_query() {
        let to = Some("https://host/v1beta/models/m:generateContent?key=SECRET");
        let refusal = Refusal::redirected("gemini", StatusCode::MOVED_PERMANENTLY, to);
        let message = refusal.message();
        assert!(message.contains("https://host/v1beta/models/m:generateContent ("));
        assert!(!message.contains("SECRET"), "{message}");
    }

    /// When it was told to come again after the millisecond of a decision that others were before, it
    /// was refused again.
    #[test]
    fn who_stands_behind_others_is_told_to_come_again_in_a_second() {
        let text = "[policy.llm.limits]\nrunning = { concurrency = 1 }";
        let policies = tidegate_policy::parse("p.toml", text).expect("a policy");
        let behind = Refusal::behind(&policies.policies[0]);
        let answer = behind.render(Dialect::OpenAi);
        assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(answer.headers()[REFUSED], "turn");
        assert_eq!(answer.headers()["retry-after-ms"], "1000");
    }

    #[test]
    fn a_wait_is_spoken_in_two_units_and_never_too_short() {
        for (millis, words) in [
            (1_500, "1.500 s"),
            (59_999, "59.999 s"),
            (60_000, "1 min"),
            (90_001, "1 min 31 s"),
            (3_599_500, "1 h"),
            (3_600_001, "1 h 1 min"),
            (86_040_000, "23 h 54 min"),
            (86_399_000, "24 h"),
            (90_000_000, "1 d 1 h"),
            (259_200_000, "3 d"),
        ] {
            assert_eq!(spoken(Duration::from_millis(millis)), words, "{millis}");
        }
    }
}
