//! What may be said in a body. A member that is unknown, or null, is an error.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tidegate::LeaseId;
use tidegate_service::{Call, LeaseHandle, OfLease, OverrideOf, Question, Report, Terms, Uses};

use crate::error::Problem;
use crate::parse::amount::{Amount, Amounts};
use crate::parse::key::{self, Base64};
use crate::parse::object::Object;
use crate::parse::override_limits::OverrideLimits;

/// Check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Amount>,
    #[serde(default)]
    amounts: Amounts,
}

/// Debit, peek, forecast: of a pool, about one member if it is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    member: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Amount>,
    #[serde(default)]
    amounts: Amounts,
}

/// Several checks, each by itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ManyRequest {
    pub(crate) checks: Vec<Object<CheckRequest>>,
}

/// Acquire.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Amount>,
    #[serde(default)]
    amounts: Amounts,
    #[serde(default)]
    pub(crate) wait_ms: u64,
    #[serde(default)]
    wait_for_refunds: bool,
    #[serde(default, deserialize_with = "present")]
    ttl_ms: Option<u64>,
    #[serde(default)]
    priority: u64,
    #[serde(default, deserialize_with = "present")]
    idempotency_key: Option<String>,
}

/// Release and cancel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    lease: LeaseId,
    #[serde(default)]
    outcome: Outcome,
    #[serde(default, deserialize_with = "present")]
    cool_down_ms: Option<u64>,
}

/// Settle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    lease: LeaseId,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Amount>,
    #[serde(default)]
    used: Amounts,
    #[serde(default)]
    outcome: Outcome,
    #[serde(default, deserialize_with = "present")]
    cool_down_ms: Option<u64>,
}

/// How the work went.
#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    #[default]
    Succeeded,
    Ignored,
    Dropped,
}

/// Renew.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    lease: LeaseId,
    ttl_ms: u64,
}

/// Adjust.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdjustRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    lease: LeaseId,
    #[serde(default, deserialize_with = "present")]
    cost: Option<Amount>,
    #[serde(default)]
    amounts: Amounts,
    #[serde(default)]
    overdraw: bool,
}

/// Reset.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
}

/// Revoke.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokeRequest {
    policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    handle: String,
}

/// Set an override: for a key or every one, in a policy or in every one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideRequest {
    #[serde(default, deserialize_with = "present")]
    policy: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    limits: OverrideLimits,
}

impl OverrideRequest {
    /// The key that it is for; `None`: every key.
    fn key(&self) -> Result<Option<&[u8]>, Problem> {
        if self.key.is_none() && self.key_base64.is_none() {
            return Ok(None);
        }
        key::chosen(self.key.as_ref(), self.key_base64.as_ref()).map(Some)
    }

    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let of = OverrideOf {
            policy: self.policy.as_deref(),
            key: self.key()?,
        };
        Ok(Call::SetOverride(of, Cow::Borrowed(&self.limits.0)))
    }
}

/// A request about one key of one policy.
pub(crate) trait Keyed {
    fn policy(&self) -> &str;

    /// Whose limits are meant.
    fn key(&self) -> Result<&[u8], Problem>;
}

macro_rules! keyed {
    ($($request:ty),*) => {$(
        impl Keyed for $request {
            fn policy(&self) -> &str {
                &self.policy
            }

            fn key(&self) -> Result<&[u8], Problem> {
                key::chosen(self.key.as_ref(), self.key_base64.as_ref())
            }
        }
    )*};
}

keyed!(
    CheckRequest,
    MemberRequest,
    AcquireRequest,
    EndRequest,
    SettleRequest,
    RenewRequest,
    AdjustRequest,
    ResetRequest,
    RevokeRequest
);

impl CheckRequest {
    pub(crate) fn question(&self) -> Result<Question<'_>, Problem> {
        question(self, None, self.cost.as_ref(), &self.amounts)
    }
}

impl MemberRequest {
    pub(crate) fn question(&self) -> Result<Question<'_>, Problem> {
        question(
            self,
            self.member.as_deref(),
            self.cost.as_ref(),
            &self.amounts,
        )
    }
}

impl AcquireRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let question = question(self, None, self.cost.as_ref(), &self.amounts)?;
        let terms = Terms {
            wait_ms: self.wait_ms,
            wait_for_refunds: self.wait_for_refunds,
            ttl_ms: self.ttl_ms,
            priority: self.priority,
            idempotency: self.idempotency_key.as_deref().map(str::as_bytes),
            standings: true,
        };
        Ok(Call::Acquire(question, terms))
    }
}

fn question<'a>(
    request: &'a impl Keyed,
    member: Option<&'a str>,
    cost: Option<&'a Amount>,
    amounts: &'a Amounts,
) -> Result<Question<'a>, Problem> {
    Ok(Question {
        policy: request.policy(),
        key: request.key()?,
        member,
        cost: cost.map(Amount::number),
        amounts: amounts.said(),
    })
}

impl SettleRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let report = report(self.outcome, self.cool_down_ms);
        let used = uses(self.cost.as_ref(), &self.used);
        Ok(Call::Settle(of_lease(self, self.lease)?, report, used))
    }
}

impl EndRequest {
    pub(crate) fn of(&self) -> Result<(OfLease<'_>, Report), Problem> {
        let report = report(self.outcome, self.cool_down_ms);
        Ok((of_lease(self, self.lease)?, report))
    }
}

impl RenewRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        Ok(Call::Renew(of_lease(self, self.lease)?, self.ttl_ms))
    }
}

impl AdjustRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let of = of_lease(self, self.lease)?;
        let to = uses(self.cost.as_ref(), &self.amounts);
        Ok(Call::Adjust(of, to, self.overdraw))
    }
}

impl ResetRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        Ok(Call::Reset(&self.policy, self.key()?.into()))
    }
}

impl RevokeRequest {
    pub(crate) fn call(&self) -> Result<Call<'_>, Problem> {
        let key = self.key()?.into();
        let handle = LeaseHandle::read(self.handle.as_bytes())?;
        Ok(Call::Revoke(&self.policy, key, handle))
    }
}

fn uses<'a>(cost: Option<&'a Amount>, amounts: &'a Amounts) -> Uses<'a> {
    Uses {
        cost: cost.map(Amount::number),
        amounts: amounts.said(),
    }
}

fn of_lease(request: &impl Keyed, lease: LeaseId) -> Result<OfLease<'_>, Problem> {
    let (policy, key) = (request.policy(), request.key()?);
    Ok(OfLease { policy, key, lease })
}

/// What is said of the work when a lease ends.
fn report(outcome: Outcome, cool_down_ms: Option<u64>) -> Report {
    Report {
        outcome: match outcome {
            Outcome::Succeeded => tidegate::Outcome::Succeeded,
            Outcome::Ignored => tidegate::Outcome::Ignored,
            Outcome::Dropped => tidegate::Outcome::Dropped,
        },
        cool_down: cool_down_ms.map(Duration::from_millis),
    }
}

/// A member that is there has a value: null is not the same as nothing.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn lease<'de, D: Deserializer<'de>>(deserializer: D) -> Result<LeaseId, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}
