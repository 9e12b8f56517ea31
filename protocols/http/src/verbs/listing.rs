//! What a policy holds: its keys, its leases, and who is refused most.

use axum::http::{StatusCode, Uri};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, Serializer};
use tidegate::{Amount, ListedKey, PageOf};
use tidegate::{Page, Select};
use tidegate_service::{Frequent, HeldTicket, LeaseHandle, Scope, Served, bounds};

use super::lease::ended;
use crate::amount::InUnit;
use crate::answer::{self, Limits};
use crate::error::Problem;
use crate::extract::Body;
use crate::instant::Instant;
use crate::request::{Keyed, RevokeRequest};
use crate::visit::{self, Visit};

/// What `/v1/keys` and `/v1/leases` are asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    policy: String,
    key: Option<String>,
    key_base64: Option<String>,
    prefix: Option<String>,
    cursor: Option<String>,
    limit: Option<u64>,
}

/// The same, as bytes.
struct Asked {
    policy: String,
    key: Option<Vec<u8>>,
    prefix: Option<String>,
    after: Option<Vec<u8>>,
    most: usize,
}

impl TryFrom<Query> for Asked {
    type Error = Problem;

    fn try_from(query: Query) -> Result<Self, Problem> {
        let key = match (query.key, query.key_base64) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid("give `key` or `key_base64`, not both"));
            }
            (text, None) => text.map(String::into_bytes),
            (None, Some(text)) => Some(bytes(&STANDARD, &text, "key_base64")?),
        };
        if key.is_some() && query.prefix.is_some() {
            return Err(Problem::invalid("give a key or a `prefix`, not both"));
        }
        let after = query.cursor.as_deref();
        let after = after.map(|text| bytes(&URL_SAFE_NO_PAD, text, "cursor"));
        Ok(Self {
            policy: query.policy,
            key,
            prefix: query.prefix,
            after: after.transpose()?,
            most: bounds::page(query.limit)?,
        })
    }
}

pub(super) fn bytes(alphabet: &impl Engine, text: &str, name: &str) -> Result<Vec<u8>, Problem> {
    let decoded = alphabet.decode(text);
    decoded.map_err(|error| Problem::invalid(format!("`{name}` is not Base64: {error}")))
}

impl Asked {
    fn page(&self) -> PageOf<'_> {
        let select = match (&self.key, &self.prefix) {
            (Some(key), _) => Select::Key(key),
            (None, Some(prefix)) => Select::Prefix(prefix.as_bytes()),
            (None, None) => Select::All,
        };
        PageOf {
            select,
            after: self.after.as_deref(),
            most: self.most,
        }
    }
}

pub(crate) async fn keys(visit: Visit, uri: Uri) -> Result<Response, Problem> {
    let asked = Asked::try_from(visit::query::<Query>(&uri)?)?;
    let served = visit.policy(Scope::Observe, &asked.policy)?;
    let Page { items, next } = served.list_keys(asked.page()).await?;
    let keys = items.iter().map(ShownKey::from).collect();
    let cursor = next.map(|next| URL_SAFE_NO_PAD.encode(next));
    Ok(answer::json(StatusCode::OK, &Keys { keys, cursor }))
}

pub(crate) async fn leases(visit: Visit, uri: Uri) -> Result<Response, Problem> {
    let asked = Asked::try_from(visit::query::<Query>(&uri)?)?;
    let served = visit.policy(Scope::Observe, &asked.policy)?;
    let Page { items, next } = served.list_leases(asked.page()).await?;
    let leases = items
        .iter()
        .map(|held| ShownLease::of(&served, held))
        .collect();
    let cursor = next.map(|next| URL_SAFE_NO_PAD.encode(next));
    Ok(answer::json(StatusCode::OK, &Leases { leases, cursor }))
}

pub(crate) async fn revoke(
    visit: Visit,
    Body(request): Body<RevokeRequest>,
) -> Result<Response, Problem> {
    let key = request.key()?;
    let served = visit.policy(Scope::Administer, &request.policy)?;
    let handle = LeaseHandle::read(request.handle.as_bytes())?;
    let revoked = served.revoke(visit.caller(), key, handle).await?;
    Ok(ended(&served, &revoked))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeniedQuery {
    policy: Option<String>,
    limit: Option<u64>,
}

/// Of one policy, or of all that the caller may observe.
pub(crate) async fn denied(visit: Visit, uri: Uri) -> Result<Response, Problem> {
    let DeniedQuery { policy, limit } = visit::query(&uri)?;
    let most = bounds::most_denied(limit)?;
    if let Some(policy) = &policy {
        visit.policy(Scope::Observe, policy)?;
    }
    let shown = |denied: &&Frequent| match &policy {
        Some(policy) => **policy == *denied.policy,
        None => {
            let may = visit.caller().check(Scope::Observe, Some(&denied.policy));
            may.is_ok()
        }
    };
    let all = visit.app().service().most_denied(usize::MAX);
    let denied = all.iter().filter(shown).take(most);
    let denied = denied.map(ShownDenied::from).collect();
    Ok(answer::json(StatusCode::OK, &Denied { denied }))
}

#[derive(Serialize)]
struct Keys<'a> {
    keys: Vec<ShownKey<'a>>,
    cursor: Option<String>,
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
struct Leases<'a> {
    leases: Vec<ShownLease<'a>>,
    cursor: Option<String>,
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

#[derive(Serialize)]
struct Denied<'a> {
    denied: Vec<ShownDenied<'a>>,
}

#[derive(Serialize)]
struct ShownDenied<'a> {
    policy: &'a str,
    #[serde(flatten)]
    key: Name<'a>,
    count: u64,
    error: u64,
}

/// A key as requests have it: as text if it is one.
#[derive(Serialize)]
pub(super) enum Name<'a> {
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
    fn of(served: &'a Served, held: &'a HeldTicket) -> Self {
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
