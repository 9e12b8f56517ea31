//! Entities: created, changed, deleted and listed.

use std::borrow::Cow;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate::LONGEST_PAGE;
use tidegate_service::bounds::{LONGEST_ENTITY_ID, LONGEST_REASON, USUAL_PAGE};
use tidegate_service::{Call, EntityListing, EntityTerms};

use super::page::after;
use crate::app::App;
use crate::error::Problem;
use crate::openapi::schema::{Schemas, members};
use crate::openapi::takes::{Taken, Takes};
use crate::parse::body::Body;
use crate::parse::context::{Query, RequestContext};
use crate::parse::precondition::Precondition;
use crate::parse::request::{ChangeEntityRequest, CreateEntityRequest};
use crate::render::headers::Style;
use crate::render::render;

/// Which page of entities.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntitiesQuery {
    /// Where the page before has ended: its `cursor`.
    cursor: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

/// Why an entity is deleted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteQuery {
    /// Why: the audit event has it.
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

/// An entity's id, in the path.
pub(crate) struct Id(String);

impl FromRequestParts<App> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, app).await;
        let Path(id) = path.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        Ok(Self(id))
    }
}

impl Takes for Id {
    fn takes(taken: &mut Taken, _: &mut Schemas) {
        let schema = json!({
            "type": "string", "minLength": 1, "maxLength": LONGEST_ENTITY_ID,
            "description": "Its id.", "examples": ["alice"]
        });
        taken.parameter("path", "id", members(schema), true);
        taken.wrong.extend([400, 431]);
    }
}

pub(crate) async fn create(
    mut context: RequestContext,
    Body(request): Body<CreateEntityRequest>,
) -> Result<Response, Problem> {
    let answer = context.call(request.call()).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn change(
    mut context: RequestContext,
    Id(id): Id,
    Precondition(only_if): Precondition,
    Body(request): Body<ChangeEntityRequest>,
) -> Result<Response, Problem> {
    let answer = context.call(request.call(&id, only_if)).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn delete(
    mut context: RequestContext,
    Id(id): Id,
    Precondition(only_if): Precondition,
    Query(query): Query<DeleteQuery>,
) -> Result<Response, Problem> {
    let terms = EntityTerms {
        only_if,
        reason: query.reason.as_deref(),
    };
    let answer = context.call(Call::DeleteEntity(&id, terms)).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn one(mut context: RequestContext, Id(id): Id) -> Result<Response, Problem> {
    let answer = context.call(Call::Entity(&id)).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn all(
    context: RequestContext,
    Query(query): Query<EntitiesQuery>,
) -> Result<Response, Problem> {
    list(context, None, query).await
}

pub(crate) async fn children(
    context: RequestContext,
    Id(id): Id,
    Query(query): Query<EntitiesQuery>,
) -> Result<Response, Problem> {
    list(context, Some(&id), query).await
}

async fn list(
    mut context: RequestContext,
    of: Option<&str>,
    query: EntitiesQuery,
) -> Result<Response, Problem> {
    let call = Call::Entities(EntityListing {
        of,
        after: after(query.cursor.as_deref())?.map(Cow::Owned),
        most: query.limit,
    });
    Ok(render(context.call(call).await?, Style::Standard))
}
