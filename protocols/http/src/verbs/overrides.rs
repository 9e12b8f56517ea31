//! Overrides: set, removed and listed.

use std::borrow::Cow;

use axum::http::Uri;
use axum::response::Response;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use tidegate_service::{Call, OverrideListing, OverrideOf};

use super::listing::{bytes, key};
use crate::error::Problem;
use crate::parse::body::Body;
use crate::parse::context::{self, RequestContext};
use crate::parse::request::OverrideRequest;
use crate::render::headers::Style;
use crate::render::render;

/// What a listing is asked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    policy: Option<String>,
    key: Option<String>,
    key_base64: Option<String>,
    #[serde(default)]
    exact: bool,
    cursor: Option<String>,
    limit: Option<u64>,
}

/// Which override is removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    policy: Option<String>,
    key: Option<String>,
    key_base64: Option<String>,
}

pub(crate) async fn all(mut context: RequestContext, uri: Uri) -> Result<Response, Problem> {
    let query: Query = context::query(&uri)?;
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
    Body(request): Body<OverrideRequest>,
) -> Result<Response, Problem> {
    Ok(render(
        context.call(request.call()?).await?,
        Style::Standard,
    ))
}

pub(crate) async fn remove(mut context: RequestContext, uri: Uri) -> Result<Response, Problem> {
    let which: Which = context::query(&uri)?;
    let key = key(which.key, which.key_base64.as_deref())?;
    let call = Call::RemoveOverride(of(which.policy.as_deref(), key.as_deref()));
    Ok(render(context.call(call).await?, Style::Standard))
}

const fn of<'a>(policy: Option<&'a str>, key: Option<&'a [u8]>) -> OverrideOf<'a> {
    OverrideOf { policy, key }
}
