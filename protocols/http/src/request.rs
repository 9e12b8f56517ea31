//! What may be said in a body. A member that is unknown, or null, is an error.

use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tidegate::{Ask, Key, LeaseId};
use tidegate_service::{Report, Served, ServiceError};

use crate::amount::{Amount, Amounts};
use crate::error::Problem;
use crate::key::{self, Base64};
use crate::object::Object;
use crate::written::WrittenLimits;

/// Check.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AskRequest {
    pub(crate) policy: String,
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
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    pub(crate) member: Option<String>,
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
    pub(crate) checks: Vec<Object<AskRequest>>,
}

/// Acquire.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcquireRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(default, deserialize_with = "present")]
    pub(crate) cost: Option<Amount>,
    #[serde(default)]
    pub(crate) amounts: Amounts,
    #[serde(default)]
    pub(crate) wait_ms: u64,
    #[serde(default)]
    pub(crate) wait_for_refunds: bool,
    #[serde(default, deserialize_with = "present")]
    pub(crate) ttl_ms: Option<u64>,
    #[serde(default)]
    pub(crate) priority: u64,
    #[serde(default, deserialize_with = "present")]
    pub(crate) idempotency_key: Option<String>,
}

/// Release and cancel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    pub(crate) lease: LeaseId,
    #[serde(default)]
    pub(crate) outcome: Outcome,
    #[serde(default, deserialize_with = "present")]
    pub(crate) cool_down_ms: Option<u64>,
}

/// Settle.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    pub(crate) lease: LeaseId,
    #[serde(default)]
    pub(crate) used: Amounts,
    #[serde(default)]
    pub(crate) outcome: Outcome,
    #[serde(default, deserialize_with = "present")]
    pub(crate) cool_down_ms: Option<u64>,
}

/// How the work went.
#[derive(Clone, Copy, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    #[default]
    Succeeded,
    Ignored,
    Dropped,
}

/// Renew.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    pub(crate) lease: LeaseId,
    pub(crate) ttl_ms: u64,
}

/// Adjust.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdjustRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    #[serde(deserialize_with = "lease")]
    pub(crate) lease: LeaseId,
    pub(crate) amounts: Amounts,
    #[serde(default)]
    pub(crate) overdraw: bool,
}

/// Reset.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
}

/// Revoke.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokeRequest {
    pub(crate) policy: String,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    pub(crate) handle: String,
}

/// Set an override: for a key or every one, in a policy or in every one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverrideRequest {
    #[serde(default, deserialize_with = "present")]
    pub(crate) policy: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key_base64: Option<Base64>,
    pub(crate) limits: WrittenLimits,
}

impl OverrideRequest {
    /// The key that it is for; `None`: every key.
    pub(crate) fn key(&self) -> Result<Option<&[u8]>, Problem> {
        if self.key.is_none() && self.key_base64.is_none() {
            return Ok(None);
        }
        let key = key::chosen(self.key.as_ref(), self.key_base64.as_ref())?;
        Ok(Some(key.bytes()))
    }
}

/// A request about one key.
pub(crate) trait Keyed {
    /// Whose limits are meant.
    fn key(&self) -> Result<Key<'_>, Problem>;
}

macro_rules! keyed {
    ($($request:ty),*) => {$(
        impl Keyed for $request {
            fn key(&self) -> Result<Key<'_>, Problem> {
                key::chosen(self.key.as_ref(), self.key_base64.as_ref())
            }
        }
    )*};
}

keyed!(
    AskRequest,
    MemberRequest,
    AcquireRequest,
    EndRequest,
    SettleRequest,
    RenewRequest,
    AdjustRequest,
    ResetRequest,
    RevokeRequest
);

impl AskRequest {
    /// The amounts by name, for [`ask`](Self::ask) to borrow.
    pub(crate) fn named(&self, served: &Served) -> Result<Vec<(&str, u64)>, ServiceError> {
        self.amounts.named(served)
    }

    /// What is asked for.
    pub(crate) fn ask<'a>(
        &self,
        served: &Served,
        named: &'a [(&'a str, u64)],
    ) -> Result<Ask<'a>, ServiceError> {
        ask(served, self.cost.as_ref(), named)
    }
}

impl MemberRequest {
    /// The amounts by name, for [`ask`](Self::ask) to borrow.
    pub(crate) fn named(&self, served: &Served) -> Result<Vec<(&str, u64)>, ServiceError> {
        self.amounts.named(served)
    }

    /// What is asked for.
    pub(crate) fn ask<'a>(
        &self,
        served: &Served,
        named: &'a [(&'a str, u64)],
    ) -> Result<Ask<'a>, ServiceError> {
        ask(served, self.cost.as_ref(), named)
    }
}

/// What is said of the work when a lease ends.
pub(crate) fn report(outcome: Outcome, cool_down_ms: Option<u64>) -> Report {
    Report {
        outcome: match outcome {
            Outcome::Succeeded => tidegate::Outcome::Succeeded,
            Outcome::Ignored => tidegate::Outcome::Ignored,
            Outcome::Dropped => tidegate::Outcome::Dropped,
        },
        cool_down: cool_down_ms.map(Duration::from_millis),
    }
}

/// A cost and named amounts, as the engine takes them.
pub(crate) fn ask<'a>(
    served: &Served,
    cost: Option<&Amount>,
    named: &'a [(&'a str, u64)],
) -> Result<Ask<'a>, ServiceError> {
    let ask = Ask::named(named);
    Ok(match cost {
        Some(cost) => ask.cost(served.cost(cost.number(), named)?),
        None => ask,
    })
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
