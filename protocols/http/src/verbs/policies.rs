//! What the policies say, and others in their place.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::response::Response;
use tidegate_service::{Call, Scope};

use crate::error::Problem;
use crate::parse::body::Document;
use crate::parse::context::RequestContext;
use crate::render::headers::Style;
use crate::render::policies::Applied;
use crate::render::{answer, render};
use crate::settings::Application;

pub(crate) async fn all(mut context: RequestContext) -> Result<Response, Problem> {
    Ok(render(context.call(Call::Policies).await?, Style::Standard))
}

pub(crate) async fn one(
    mut context: RequestContext,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|rejection| Problem::invalid(rejection.body_text()))?;
    Ok(render(
        context.call(Call::Policy(&name)).await?,
        Style::Standard,
    ))
}

/// Goes over to the policies that are sent, wholly or not at all.
pub(crate) async fn apply(
    context: RequestContext,
    document: Document,
) -> Result<Response, Problem> {
    context.caller().check(Scope::Administer, None)?;
    if context.caller().namespace().is_some() {
        return apply_in_namespace(&context, document).await;
    }
    let apply = context.app().settings().apply.clone();
    let apply = apply.ok_or_else(|| {
        let detail = "policies are not applied here: this server has them from its file alone \
                      (start it with --applied FILE, or --applied store)";
        Problem::not_found(detail)
    })?;
    let policies = tidegate_policy::parse(document.name, &document.text);
    let application = Application {
        by: context.caller().name().to_owned(),
        name: document.name.to_owned(),
        policies: policies.map_err(|errors| Problem::faulty(&errors))?,
        text: document.text,
    };
    let service = context.app().service();
    let changes = service.compare(&application.policies);
    let applied = async {
        let applied = tokio::task::spawn_blocking(move || apply(application)).await;
        applied.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
    };
    let applied = service.apply_policies(context.caller(), &changes, applied);
    let changes = applied.await?.map_err(Problem::unable)?;
    Ok(answer::json(StatusCode::OK, &Applied::from(&changes[..])))
}

/// The same in a namespace, whose policies the store keeps.
async fn apply_in_namespace(
    context: &RequestContext,
    document: Document,
) -> Result<Response, Problem> {
    let policies = tidegate_policy::parse(document.name, &document.text);
    let policies = policies.map_err(|errors| Problem::faulty(&errors))?;
    let text = (document.name, &*document.text);
    let service = context.app().service();
    let applied = service.apply_in_namespace(context.caller(), text, policies);
    let changes = applied.await?.map_err(Problem::unable)?;
    Ok(answer::json(StatusCode::OK, &Applied::from(&changes[..])))
}
