//! Overrides: set, removed and listed.

use std::borrow::Cow;

use axum::response::Response;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::LONGEST_PAGE;
use tidegate_service::bounds::{LONGEST_REASON, USUAL_PAGE};
use tidegate_service::{Call, OverrideListing, OverrideOf, OverrideTerms};

use super::listing::{bytes, key};
use crate::error::Problem;
use crate::parse::body::Body;
use crate::parse::context::{Query, RequestContext};
use crate::parse::key::Text;
use crate::parse::precondition::Precondition;
use crate::parse::request::OverrideRequest;
use crate::render::headers::Style;
use crate::render::render;

/// What a listing is asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverridesQuery {
    /// Of this policy alone.
    #[schemars(length(min = 1), example = &"chat")]
    policy: Option<String>,
    /// Of this key alone.
    #[schemars(with = "Option<Text>")]
    key: Option<String>,
    /// The same for a key of any bytes, in padded Base64; not together with `key`.
    #[schemars(length(min = 4))]
    key_base64: Option<String>,
    /// The one override of exactly this policy and key, if it is set: without `policy`, the one
    /// for every policy; without a key, the one for every key.
    #[serde(default)]
    exact: bool,
    /// Where the page before has ended: its `cursor`.
    cursor: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

/// Which override is removed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Which {
    /// The policy; every policy without it.
    #[schemars(length(min = 1), example = &"chat")]
    policy: Option<String>,
    /// The key, or an ancestor of keys; every key without it.
    #[schemars(with = "Option<Text>")]
    key: Option<String>,
    /// The same for a key of any bytes, in padded Base64; not together with `key`.
    #[schemars(length(min = 4))]
    key_base64: Option<String>,
    /// Why: it is told in the audit event.
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

pub(crate) async fn all(
    mut context: RequestContext,
    Query(query): Query<OverridesQuery>,
) -> Result<Response, Problem> {
    let key = key(query.key, query.key_base64.as_deref())?;
    let after = query.cursor.as_deref();
    let after = after.map(|text| bytes(&URL_SAFE_NO_PAD, text, "cursor"));
    let call = Call::Overrides(OverrideListing {
        of: of(query.policy.as_deref(), key.as_deref()),
        exact: query.exact,
        after: after.transpose()?.map(Cow::Owned),
        most: query.limit,
    });
    Ok(render(context.call(call).await?, Style::Standard))
}

pub(crate) async fn set(
    mut context: RequestContext,
    Precondition(only_if): Precondition,
    Body(request): Body<OverrideRequest>,
) -> Result<Response, Problem> {
    let call = request.call(only_if)?;
    Ok(render(context.call(call).await?, Style::Standard))
}

pub(crate) async fn remove(
    mut context: RequestContext,
    Precondition(only_if): Precondition,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    let key = key(which.key, which.key_base64.as_deref())?;
    let terms = OverrideTerms {
        only_if,
        reason: which.reason.as_deref(),
        until: None,
    };
    let call = Call::RemoveOverride(of(which.policy.as_deref(), key.as_deref()), terms);
    Ok(render(context.call(call).await?, Style::Standard))
}

const fn of<'a>(policy: Option<&'a str>, key: Option<&'a [u8]>) -> OverrideOf<'a> {
    OverrideOf { policy, key }
}
