//! What was changed, and by whom.

use std::borrow::Cow;

use axum::response::Response;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::LONGEST_PAGE;
use tidegate_service::bounds::USUAL_PAGE;
use tidegate_service::{AuditListing, Call, OverrideOf};

use super::listing::{bytes, key};
use crate::error::Problem;
use crate::parse::context::{Query, RequestContext};
use crate::parse::instant::Instant;
use crate::parse::key::Text;
use crate::render::headers::Style;
use crate::render::render;

/// Which events are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditQuery {
    /// Of this policy alone.
    #[schemars(length(min = 1), example = &"chat")]
    policy: Option<String>,
    /// Of this key alone.
    #[schemars(with = "Option<Text>")]
    key: Option<String>,
    /// The same for a key of any bytes, in padded Base64; not together with `key`.
    #[schemars(length(min = 4))]
    key_base64: Option<String>,
    /// From this instant on.
    since: Option<Instant>,
    /// Before this instant.
    until: Option<Instant>,
    /// Where the page before has ended: its `cursor`.
    cursor: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

pub(crate) async fn events(
    mut context: RequestContext,
    Query(query): Query<AuditQuery>,
) -> Result<Response, Problem> {
    let key = key(query.key, query.key_base64.as_deref())?;
    let after = query.cursor.as_deref();
    let after = after.map(|text| bytes(&URL_SAFE_NO_PAD, text, "cursor"));
    let call = Call::Audit(AuditListing {
        of: OverrideOf {
            policy: query.policy.as_deref(),
            key: key.as_deref(),
        },
        since: query.since.map(|since| since.0),
        until: query.until.map(|until| until.0),
        after: after.transpose()?.map(Cow::Owned),
        most: query.limit,
    });
    Ok(render(context.call(call).await?, Style::Standard))
}
