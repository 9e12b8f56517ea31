//! Overrides: set, removed and listed.

use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate_service::bounds::{LONGEST_ENTITY_ID, LONGEST_REASON};
use tidegate_service::{Call, OverrideListing, OverrideOf, OverrideTerms};

use super::page::{key, page_query};
use crate::error::Problem;
use crate::parse::body::Body;
use crate::parse::context::{Query, RequestContext};
use crate::parse::key::Text;
use crate::parse::precondition::Precondition;
use crate::parse::request::OverrideRequest;
use crate::render::headers::Style;
use crate::render::render;

page_query! {
    /// What a listing is asked.
    OverridesQuery {
        /// The one override of exactly this policy and key, if it is set: without `policy`, the one
        /// for every policy; without a key, the one for every key.
        #[serde(default)]
        exact: bool,
        /// Of the key of this entity alone; not together with `key`.
        #[schemars(length(min = 1, max = LONGEST_ENTITY_ID), example = &"alice")]
        entity: Option<String>,
    }
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
    /// An entity whose key is meant; not together with `key`.
    #[schemars(length(min = 1, max = LONGEST_ENTITY_ID), example = &"alice")]
    entity: Option<String>,
    /// Why: the audit event has it.
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

pub(crate) async fn all(
    mut context: RequestContext,
    Query(mut query): Query<OverridesQuery>,
) -> Result<Response, Problem> {
    let asked = query.page()?;
    let call = Call::Overrides(OverrideListing {
        of: OverrideOf {
            entity: query.entity.as_deref(),
            ..asked.of()
        },
        exact: query.exact,
        after: asked.after(),
        most: asked.most,
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
    let of = OverrideOf {
        policy: which.policy.as_deref(),
        key: key.as_deref(),
        entity: which.entity.as_deref(),
    };
    let call = Call::RemoveOverride(of, terms);
    Ok(render(context.call(call).await?, Style::Standard))
}
