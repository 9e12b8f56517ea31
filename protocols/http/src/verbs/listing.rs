//! What a policy holds: its keys, what they come to, its leases, what nodes took in advance, what was used, and who is
//! refused most.

use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::{LONGEST_PAGE, Select};
use tidegate_service::bounds::{MOST_DENIED, USUAL_PAGE};
use tidegate_service::{Call, Listing, UsageBy, UsageListing};

use super::page::{after, key};
use crate::error::Problem;
use crate::parse::context::{Query, RequestContext};
use crate::parse::instant::Instant;
use crate::parse::key::Text;
use crate::render::headers::Style;
use crate::render::render;

/// What `/v1/keys`, `/v1/leases` and `/v1/fleet` are asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeysQuery {
    /// The policy.
    #[schemars(length(min = 1), example = &"chat")]
    policy: String,
    /// Of this key alone; not together with `prefix`.
    #[schemars(with = "Option<Text>")]
    key: Option<String>,
    /// The same for a key of any bytes, in padded Base64; not together with `key`.
    #[schemars(length(min = 4))]
    key_base64: Option<String>,
    /// Only of keys with this prefix.
    prefix: Option<String>,
    /// Where the page before has ended: its `cursor`. One from before a restart is an error;
    /// begin anew.
    cursor: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

pub(crate) async fn keys(
    mut context: RequestContext,
    Query(query): Query<KeysQuery>,
) -> Result<Response, Problem> {
    let requested = PageRequest::try_from(query)?;
    let call = Call::Keys(&requested.policy, requested.listing());
    Ok(render(context.call(call).await?, Style::Standard))
}

pub(crate) async fn leases(
    mut context: RequestContext,
    Query(query): Query<KeysQuery>,
) -> Result<Response, Problem> {
    let requested = PageRequest::try_from(query)?;
    let call = Call::Leases(&requested.policy, requested.listing());
    Ok(render(context.call(call).await?, Style::Standard))
}

/// What `/v1/capacity` is asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CapacityQuery {
    /// The policy.
    #[schemars(length(min = 1), example = &"chat")]
    policy: String,
    /// Of the limits of this level of keys alone, by its name in the policy: those of the first
    /// are of the roots.
    #[schemars(length(min = 1), example = &"org")]
    level: Option<String>,
    /// Only of keys with this prefix.
    prefix: Option<String>,
    /// Where the page before has ended: its `cursor`. One from before a restart is an error;
    /// begin anew.
    cursor: Option<String>,
    /// How many keys are added up at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

pub(crate) async fn capacity(
    mut context: RequestContext,
    Query(query): Query<CapacityQuery>,
) -> Result<Response, Problem> {
    let requested = PageRequest {
        policy: query.policy,
        key: None,
        prefix: query.prefix,
        after: after(query.cursor.as_deref())?,
        most: query.limit,
    };
    let level = query.level.as_deref();
    let call = Call::Capacity(&requested.policy, level, requested.listing());
    Ok(render(context.call(call).await?, Style::Standard))
}

pub(crate) async fn fleet(
    mut context: RequestContext,
    Query(query): Query<KeysQuery>,
) -> Result<Response, Problem> {
    let requested = PageRequest::try_from(query)?;
    let call = Call::Fleet(&requested.policy, requested.listing());
    Ok(render(context.call(call).await?, Style::Standard))
}

/// What `/v1/usage` is asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsageQuery {
    /// The policy.
    #[schemars(length(min = 1), example = &"chat")]
    policy: String,
    /// Of this key alone; not together with `prefix` or `entity`.
    #[schemars(with = "Option<Text>")]
    key: Option<String>,
    /// The same for a key of any bytes, in padded Base64; not together with `key`.
    #[schemars(length(min = 4))]
    key_base64: Option<String>,
    /// Only of keys with this prefix.
    prefix: Option<String>,
    /// Of this entity alone.
    #[schemars(length(min = 1), example = &"alice")]
    entity: Option<String>,
    /// In the hours from that of this instant on.
    since: Option<Instant>,
    /// In the hours before this instant.
    until: Option<Instant>,
    /// The periods that are added up, in UTC; hours if not said.
    #[serde(default)]
    by: By,
    /// Where the page before has ended: its `cursor`. One from before a restart is an error;
    /// begin anew.
    cursor: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

/// By which time usage is added up. A day or a month may be told in parts, on several pages: add
/// them up.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "UsageBy")]
enum By {
    /// Each hour by itself
    #[default]
    Hour,
    /// By the day
    Day,
    /// By the month
    Month,
}

impl From<By> for UsageBy {
    fn from(by: By) -> Self {
        match by {
            By::Hour => Self::Hour,
            By::Day => Self::Day,
            By::Month => Self::Month,
        }
    }
}

pub(crate) async fn usage(
    mut context: RequestContext,
    Query(query): Query<UsageQuery>,
) -> Result<Response, Problem> {
    let (since, until, entity) = (query.since, query.until, query.entity);
    let requested = PageRequest::try_from(KeysQuery {
        policy: query.policy,
        key: query.key,
        key_base64: query.key_base64,
        prefix: query.prefix,
        cursor: query.cursor,
        limit: query.limit,
    })?;
    if entity.is_some() && (requested.key.is_some() || requested.prefix.is_some()) {
        return Err(Problem::invalid(
            "give an `entity`, a key or a `prefix`, and no two of them",
        ));
    }
    let listing = UsageListing {
        listing: requested.listing(),
        entity: entity.as_deref(),
        since: since.map(|since| since.0),
        until: until.map(|until| until.0),
        by: query.by.into(),
    };
    let call = Call::Usage(&requested.policy, listing);
    Ok(render(context.call(call).await?, Style::Standard))
}

/// What is asked, as bytes.
struct PageRequest {
    policy: String,
    key: Option<Vec<u8>>,
    prefix: Option<String>,
    after: Option<Vec<u8>>,
    most: Option<u64>,
}

impl TryFrom<KeysQuery> for PageRequest {
    type Error = Problem;

    fn try_from(query: KeysQuery) -> Result<Self, Problem> {
        let key = key(query.key, query.key_base64.as_deref())?;
        if key.is_some() && query.prefix.is_some() {
            return Err(Problem::invalid("give a key or a `prefix`, not both"));
        }
        Ok(Self {
            policy: query.policy,
            key,
            prefix: query.prefix,
            after: after(query.cursor.as_deref())?,
            most: query.limit,
        })
    }
}

impl PageRequest {
    fn listing(&self) -> Listing<'_> {
        Listing {
            select: match (&self.key, &self.prefix) {
                (Some(key), _) => Select::Key(key),
                (None, Some(prefix)) => Select::Prefix(prefix.as_bytes()),
                (None, None) => Select::All,
            },
            after: self.after.as_deref().map(Into::into),
            most: self.most,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeniedQuery {
    /// The policy.
    #[schemars(length(min = 1), example = &"chat")]
    policy: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = MOST_DENIED), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

/// Of one policy, or of all that the caller may observe.
pub(crate) async fn denied(
    mut context: RequestContext,
    Query(DeniedQuery { policy, limit }): Query<DeniedQuery>,
) -> Result<Response, Problem> {
    let call = Call::Denied(policy.as_deref(), limit);
    Ok(render(context.call(call).await?, Style::Standard))
}
