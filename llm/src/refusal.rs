//! What a refusal means: wait so long, move on to another member, or never ask again.
//!
//! A status code alone does not say it: a 429 may be a minute's rate, a day's quota, or a budget
//! that is spent, which no waiting brings back.

use http::HeaderMap;
use serde_json::Value;
use tidegate_core::Span;

use crate::headers::Signals;
use crate::provider::Provider;
use crate::when::{self, Received};

/// Of an error's body no more than this is read.
pub const LONGEST_BODY: usize = 64 * 1024;

/// Why a provider refused a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Kind {
    /// A rate: it passes within minutes.
    Rate,
    /// A quota of a day or longer: asking every minute is of no use.
    Quota,
    /// The account's money or a spend cap: until a person does something.
    Spend,
    /// The provider has no room for anybody (503, 529).
    Overloaded,
    /// The provider failed, or gave up on it (408, 409, 5xx).
    Failed,
}

impl Kind {
    /// Whether the same call may be sent again by itself, after its time.
    #[must_use]
    pub const fn may_retry(self) -> bool {
        matches!(self, Self::Rate | Self::Overloaded | Self::Failed)
    }

    /// Whether the member (the account, the region) is to be passed over meanwhile.
    #[must_use]
    pub const fn cools_down(self) -> bool {
        !matches!(self, Self::Failed)
    }
}

/// A refusal, and when to ask again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Why.
    pub kind: Kind,
    /// How long to wait, if the provider says so.
    pub retry_after: Option<Span>,
    /// Whether the same call may be sent again by itself: what the kind says, unless the provider
    /// says otherwise (`X-Should-Retry`).
    pub may_retry: bool,
    /// Whether somebody has given up waiting for it (408, 504, 524): it may have been carried out,
    /// and be billed.
    pub may_have_run: bool,
}

impl Refusal {
    /// What an answer with this status, these signals and this body refuses; `None` of an answer
    /// that is none, and of an error that is the caller's own (400, 401, 404 ...).
    #[must_use]
    pub fn of(
        provider: Provider,
        status: u16,
        headers: &HeaderMap,
        signals: &Signals,
        body: &[u8],
        received: Received,
    ) -> Option<Self> {
        let body = match body.len() {
            0..=LONGEST_BODY => serde_json::from_slice(body).unwrap_or(Value::Null),
            _ => Value::Null,
        };
        let error = Facts {
            body: &body,
            headers,
        };
        let kind = error.kind(provider, status, signals)?;
        let exhausted = || {
            let until = signals.exhausted_until()?;
            Some(until.since(received.at()))
        };
        let told = signals.retry_after.or_else(|| error.retry_delay());
        Some(Self {
            kind,
            retry_after: match kind {
                Kind::Spend => None,
                Kind::Rate | Kind::Quota => told.or_else(exhausted),
                Kind::Overloaded | Kind::Failed => told,
            },
            may_retry: kind.may_retry() && signals.should_retry != Some(false)
                || kind == Kind::Quota && signals.should_retry == Some(true),
            may_have_run: matches!(status, 408 | 504 | 524),
        })
    }
}

/// Where an error says what it is.
struct Facts<'b> {
    body: &'b Value,
    headers: &'b HeaderMap,
}

impl Facts<'_> {
    fn kind(&self, provider: Provider, status: u16, signals: &Signals) -> Option<Kind> {
        if self.is_spend() {
            return matches!(status, 402 | 403 | 429).then_some(Kind::Spend);
        }
        Some(match status {
            429 if self.is_daily(provider, signals) => Kind::Quota,
            429 => Kind::Rate,
            // Azure's gateway answers so when a quota is used up.
            403 if provider == Provider::AzureOpenAi && signals.retry_after.is_some() => {
                Kind::Quota
            }
            402 => Kind::Spend,
            503 | 529 => Kind::Overloaded,
            408 | 409 | 500.. => Kind::Failed,
            // Bedrock's refusals in the older form of the protocol.
            400 if self.error_type().contains("ThrottlingException") => Kind::Rate,
            _ => return None,
        })
    }

    fn text(&self, pointer: &str) -> &str {
        self.body
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// OpenAI: the account has no credit. Anthropic: a spend cap is reached.
    fn is_spend(&self) -> bool {
        const SPENT: [&str; 4] = [
            "insufficient_quota",
            "enforced_spend_limit_reached",
            "billing_hard_limit_reached",
            "billing_not_active",
        ];
        [
            "/error/code",
            "/error/type",
            "/error/details/error_code",
            "/details/error_code",
        ]
        .iter()
        .any(|pointer| SPENT.contains(&self.text(pointer)))
    }

    fn is_daily(&self, provider: Provider, signals: &Signals) -> bool {
        let used_up = signals.observations.iter().any(|seen| {
            let daily = seen
                .window
                .is_some_and(|window| window >= Span::from_secs(86_400));
            daily && seen.remaining == Some(0)
        });
        // Where it throttles, only the message says which limit it was.
        let bedrock = self.error_type().contains("ServiceQuotaExceeded")
            || provider == Provider::Bedrock && self.text("/message").contains("per day");
        let gemini = provider == Provider::Gemini && self.details("violations").any(is_per_day);
        used_up || bedrock || gemini
    }

    fn error_type(&self) -> &str {
        let value = self.headers.get("x-amzn-errortype");
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The members of that name in the details of a `google.rpc.Status`.
    fn details<'f>(&'f self, member: &'f str) -> impl Iterator<Item = &'f Value> {
        let details = self
            .body
            .pointer("/error/details")
            .and_then(Value::as_array);
        let details = details.into_iter().flatten();
        details.filter_map(move |detail| detail.get(member))
    }

    /// Gemini: `RetryInfo`, which is cut to seconds; the message has it in full. OpenAI and Groq:
    /// the message.
    fn retry_delay(&self) -> Option<Span> {
        const BEFORE: [&str; 2] = ["retry in ", "try again in "];
        let message = self.text("/error/message");
        let mut behind = BEFORE
            .iter()
            .filter_map(|before| message.split_once(before));
        let precise = behind.next().and_then(|(_, after)| {
            let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            let text = after[..end.unwrap_or(after.len())].trim_end_matches('.');
            when::duration(text)
        });
        precise.or_else(|| {
            let delay = self.details("retryDelay").find_map(Value::as_str)?;
            when::duration(delay)
        })
    }
}

/// Whether one of the quotas that were broken is a day's.
fn is_per_day(violations: &Value) -> bool {
    let violations = violations.as_array().into_iter().flatten();
    let id = |violation: &Value| {
        let id = violation.get("quotaId").and_then(Value::as_str);
        id.is_some_and(|id| id.contains("PerDay"))
    };
    violations.into_iter().any(id)
}
