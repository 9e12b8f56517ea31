//! What was changed, and by whom.

use axum::response::Response;
use tidegate_service::{AuditListing, Call};

use super::page::page_query;
use crate::error::Problem;
use crate::parse::context::{Query, RequestContext};
use crate::parse::instant::Instant;
use crate::render::headers::Style;
use crate::render::render;

page_query! {
    /// Which events are listed.
    AuditQuery {
        /// Of this entity alone.
        #[schemars(length(min = 1), example = &"alice")]
        entity: Option<String>,
        /// From this instant on.
        since: Option<Instant>,
        /// Before this instant.
        until: Option<Instant>,
    }
}

pub(crate) async fn events(
    mut context: RequestContext,
    Query(mut query): Query<AuditQuery>,
) -> Result<Response, Problem> {
    let asked = query.page()?;
    let call = Call::Audit(AuditListing {
        of: asked.of(),
        entity: query.entity.as_deref(),
        since: query.since.map(|since| since.0),
        until: query.until.map(|until| until.0),
        after: asked.after(),
        most: asked.most,
    });
    Ok(render(context.call(call).await?, Style::Standard))
}
