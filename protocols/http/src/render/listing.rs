//! What a policy holds, and who is refused most.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Serialize, Serializer};
use tidegate::{Amount, ListedKey, Page};
use tidegate_service::{Frequent, PublicLease, Served};

use super::answer::Limits;
use super::instant::Instant;
use crate::parse::amount::InUnit;

#[derive(Serialize)]
pub(crate) struct Keys<'a> {
    keys: Vec<ShownKey<'a>>,
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

#[derive(Serialize)]
struct ShownKey<'a> {
    #[serde(flatten)]
    key: Name<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    limits: Limits<'a>,
}

#[derive(Serialize)]
pub(crate) struct Leases<'a> {
    leases: Vec<ShownLease<'a>>,
    cursor: Option<String>,
}

impl<'a> Leases<'a> {
    pub(crate) fn of(served: &'a Served, page: &'a Page<PublicLease>) -> Self {
        let leases = page.items.iter();
        Self {
            leases: leases.map(|held| ShownLease::of(served, held)).collect(),
            cursor: cursor(page),
        }
    }
}

/// Where the next page begins.
pub(crate) fn cursor<T>(page: &Page<T>) -> Option<String> {
    page.next.as_ref().map(|next| URL_SAFE_NO_PAD.encode(next))
}

#[derive(Serialize)]
struct ShownLease<'a> {
    #[serde(flatten)]
    key: Name<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<&'a str>,
    handle: String,
    fence: u64,
    granted_at: Instant,
    expires_at: Instant,
    amounts: Taken<'a>,
}

/// A key as requests have it: as text if it is one.
#[derive(Serialize)]
pub(crate) enum Name<'a> {
    #[serde(rename = "key")]
    Text(&'a str),
    #[serde(rename = "key_base64")]
    Bytes(String),
}

impl<'a> From<&'a [u8]> for Name<'a> {
    fn from(key: &'a [u8]) -> Self {
        match std::str::from_utf8(key) {
            Ok(text) => Self::Text(text),
            Err(_) => Self::Bytes(STANDARD.encode(key)),
        }
    }
}

/// What a lease took, by limit.
struct Taken<'a>(&'a Served, &'a [(String, Amount)]);

impl Serialize for Taken<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(served, taken) = self;
        serializer.collect_map(taken.iter().map(|(name, amount)| {
            let shown = InUnit(served.unit(name), *amount);
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
    fn of(served: &'a Served, held: &'a PublicLease) -> Self {
        Self {
            key: Name::from(&held.key[..]),
            member: held.member.as_deref(),
            handle: held.handle.to_string(),
            fence: held.fence,
            granted_at: Instant(held.granted_at),
            expires_at: Instant(held.expires_at),
            amounts: Taken(served, &held.taken),
        }
    }
}

#[derive(Serialize)]
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

#[derive(Serialize)]
struct ShownDenied<'a> {
    policy: &'a str,
    #[serde(flatten)]
    key: Name<'a>,
    count: u64,
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
