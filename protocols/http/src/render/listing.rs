//! What a policy holds, and who is refused most.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use tidegate::{Amount, ListedKey, ListedUsage, Page};
use tidegate_service::{ActivePolicy, Frequent, PublicLease, PublicUsage};

use super::answer::{Limits, Standings};
use super::instant::Instant;
use crate::parse::amount::{InUnit, Sum};
use crate::parse::key::{Base64, Text};

/// A page of keys.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Keys<'a> {
    keys: Vec<ShownKey<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> From<&'a Page<ListedKey>> for Keys<'a> {
    fn from(page: &'a Page<ListedKey>) -> Self {
        Self {
            keys: page.items.iter().map(ShownKey::from).collect(),
            cursor: cursor(page),
        }
    }
}

/// A key, or an ancestor of keys, with the limits that it reaches.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedKey")]
struct ShownKey<'a> {
    #[serde(flatten)]
    key: Name<'a>,
    /// The member of the pool, where the policy is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    /// Where each stands, by name.
    #[schemars(with = "Standings")]
    limits: Limits<'a>,
}

/// A page of leases.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Leases<'a> {
    leases: Vec<ShownLease<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> Leases<'a> {
    pub(crate) fn of(active: &'a ActivePolicy, page: &'a Page<PublicLease>) -> Self {
        let leases = page.items.iter();
        Self {
            leases: leases.map(|held| ShownLease::of(active, held)).collect(),
            cursor: cursor(page),
        }
    }
}

/// Where the next page begins.
pub(crate) fn cursor<T>(page: &Page<T>) -> Option<String> {
    page.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next))
}

/// A lease that is held.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ListedLease")]
struct ShownLease<'a> {
    #[serde(flatten)]
    key: Name<'a>,
    /// The member of the pool, where the policy is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    /// The beginning of the SHA-256 of its id.
    #[schemars(regex(pattern = "^[0-9a-f]{16}$"))]
    handle: String,
    /// Larger than that of every earlier lease on the same slots; null without.
    fence: Option<u64>,
    /// When it was granted, by the store's clock: of one that waited, the end of its wait.
    /// Neither a renewal nor an adjustment changes it.
    granted_at: Instant,
    /// When it expires unless renewed.
    expires_at: Instant,
    /// What was taken, by limit.
    #[schemars(with = "BTreeMap<String, InUnit>")]
    amounts: Taken<'a>,
}

/// A key as requests have it: as text if it is one.
#[derive(Serialize, JsonSchema, Default)]
pub(crate) struct Name<'a> {
    /// The key, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Text")]
    key: Option<&'a str>,
    /// The key in Base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Base64")]
    key_base64: Option<String>,
}

impl<'a> From<&'a [u8]> for Name<'a> {
    fn from(key: &'a [u8]) -> Self {
        let text = std::str::from_utf8(key).ok();
        Self {
            key: text,
            key_base64: text.is_none().then(|| STANDARD.encode(key)),
        }
    }
}

/// What a lease took, by limit.
pub(super) struct Taken<'a>(
    pub(super) &'a ActivePolicy,
    pub(super) &'a [(String, Amount)],
);

impl Serialize for Taken<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(active, taken) = self;
        serializer.collect_map(taken.iter().map(|(name, amount)| {
            let shown = InUnit(active.unit(name), *amount);
            (name, shown)
        }))
    }
}

impl<'a> From<&'a ListedKey> for ShownKey<'a> {
    fn from(listed: &'a ListedKey) -> Self {
        Self {
            key: Name::from(&listed.key[..]),
            member: listed.decision.member(),
            limits: Limits(Some(&listed.decision)),
        }
    }
}

impl<'a> ShownLease<'a> {
    fn of(active: &'a ActivePolicy, held: &'a PublicLease) -> Self {
        Self {
            key: Name::from(&held.key[..]),
            member: held.member.as_deref(),
            handle: held.handle.to_string(),
            fence: held.fence,
            granted_at: Instant(held.granted_at),
            expires_at: Instant(held.expires_at),
            amounts: Taken(active, &held.taken),
        }
    }
}

/// A page of what was used.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
pub(crate) struct Used<'a> {
    usage: Vec<ShownUsage<'a>>,
    /// Where the next page goes on; null if this is the last.
    cursor: Option<String>,
}

impl<'a> Used<'a> {
    pub(crate) fn of(active: &'a ActivePolicy, page: &'a Page<PublicUsage>) -> Self {
        let usage = page.items.iter().map(|used| ShownUsage {
            key: Name::from(&used.used.key[..]),
            member: used.member.as_deref(),
            limit: &used.used.limit,
            hour: Instant(used.used.starts_at),
            amount: Amounted(active, &used.used),
        });
        Self {
            usage: usage.collect(),
            cursor: cursor(page),
        }
    }
}

/// What was used of one limit in one hour, day or month.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "UsedInHour")]
struct ShownUsage<'a> {
    #[serde(flatten)]
    key: Name<'a>,
    /// The member of the pool, where the policy is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    /// The limit's name: also one that is gone.
    limit: &'a str,
    /// When the hour, day or month begins, in UTC, by the clock that decided: of what a lease used,
    /// that in which it was granted.
    hour: Instant,
    /// How much was used.
    #[schemars(with = "Sum")]
    amount: Amounted<'a>,
}

/// What was used, in the unit of its limit.
struct Amounted<'a>(&'a ActivePolicy, &'a ListedUsage);

impl Serialize for Amounted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        InUnit(self.0.unit(&self.1.limit), self.1.amount).serialize(serializer)
    }
}

/// The keys that are refused most often, the most frequent first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Denied<'a> {
    denied: Vec<ShownDenied<'a>>,
}

impl<'a> From<&'a [Frequent]> for Denied<'a> {
    fn from(denied: &'a [Frequent]) -> Self {
        Self {
            denied: denied.iter().map(ShownDenied::from).collect(),
        }
    }
}

/// A key that is refused often.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DeniedKey")]
struct ShownDenied<'a> {
    /// The policy that refused it.
    policy: &'a str,
    #[serde(flatten)]
    key: Name<'a>,
    /// How often it was refused: at most this, and at least `count - error`.
    #[schemars(range(min = 1))]
    count: u64,
    /// By how much `count` may be too high.
    error: u64,
}

impl<'a> From<&'a Frequent> for ShownDenied<'a> {
    fn from(frequent: &'a Frequent) -> Self {
        Self {
            policy: &frequent.policy,
            key: Name::from(&frequent.key[..]),
            count: frequent.count,
            error: frequent.error,
        }
    }
}
