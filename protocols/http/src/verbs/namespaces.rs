//! Namespaces: created, deleted, restored, purged and listed.

use std::borrow::Cow;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tidegate::LONGEST_PAGE;
use tidegate_policy::LONGEST_NAMESPACE;
use tidegate_service::Call;
use tidegate_service::bounds::{LONGEST_REASON, USUAL_PAGE};

use super::page::after;
use crate::app::App;
use crate::error::Problem;
use crate::openapi::schema::{Schemas, members};
use crate::openapi::takes::{Taken, Takes};
use crate::parse::body::Body;
use crate::parse::context::{Query, RequestContext};
use crate::parse::request::CreateNamespaceRequest;
use crate::render::headers::Style;
use crate::render::render;

/// Which page of namespaces.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespacesQuery {
    /// Where the page before has ended: its `cursor`.
    cursor: Option<String>,
    /// How many items a page has at most.
    #[schemars(range(min = 1, max = LONGEST_PAGE), extend("default" = USUAL_PAGE))]
    limit: Option<u64>,
}

/// Why a namespace is deleted, restored or purged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyQuery {
    /// Why: the audit event has it.
    #[schemars(length(max = LONGEST_REASON))]
    reason: Option<String>,
}

/// A namespace's name, in the path.
pub(crate) struct Name(String);

impl FromRequestParts<App> for Name {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, app).await;
        let Path(name) = path.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
        Ok(Self(name))
    }
}

impl Takes for Name {
    fn takes(taken: &mut Taken, _: &mut Schemas) {
        let schema = json!({
            "type": "string", "minLength": 1, "maxLength": LONGEST_NAMESPACE,
            "description": "Its name.", "examples": ["acme"]
        });
        taken.parameter("path", "name", members(schema), true);
        taken.wrong.extend([400, 431]);
    }
}

pub(crate) async fn all(
    mut context: RequestContext,
    Query(query): Query<NamespacesQuery>,
) -> Result<Response, Problem> {
    let after = after(query.cursor.as_deref())?.map(Cow::Owned);
    let answer = context.call(Call::Namespaces(after, query.limit)).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn one(
    mut context: RequestContext,
    Name(name): Name,
) -> Result<Response, Problem> {
    let answer = context.call(Call::Namespace(&name)).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn create(
    mut context: RequestContext,
    Body(request): Body<CreateNamespaceRequest>,
) -> Result<Response, Problem> {
    let answer = context.call(request.call()).await?;
    Ok(render(answer, Style::Standard))
}

pub(crate) async fn delete(
    mut context: RequestContext,
    Name(name): Name,
    Query(query): Query<WhyQuery>,
) -> Result<Response, Problem> {
    let call = Call::DeleteNamespace(&name, query.reason.as_deref());
    Ok(render(context.call(call).await?, Style::Standard))
}

pub(crate) async fn restore(
    mut context: RequestContext,
    Name(name): Name,
    Query(query): Query<WhyQuery>,
) -> Result<Response, Problem> {
    let call = Call::RestoreNamespace(&name, query.reason.as_deref());
    Ok(render(context.call(call).await?, Style::Standard))
}

pub(crate) async fn purge(
    mut context: RequestContext,
    Name(name): Name,
    Query(query): Query<WhyQuery>,
) -> Result<Response, Problem> {
    let call = Call::PurgeNamespace(&name, query.reason.as_deref());
    Ok(render(context.call(call).await?, Style::Standard))
}
