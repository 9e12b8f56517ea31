//! One change after the other, each on the version that was read.

use serde_json::{Map, Value, json};
use tidegate_client::{Exchange, Reply};
use tidegate_policy::{DesiredEntity, DesiredOverride};

use super::args::Apply;
use super::plan::{Of, Plan, Sort, Step};
use super::tell;
use super::there::{ENTITIES, OVERRIDES, at, place};
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::print::print_line;
use crate::client::server::{Client, exit, stop};
use crate::command::Progress;
use crate::shape::json_of;

/// Makes every change, in order; stops at the first that is not made.
pub async fn apply(client: &Client, plan: &Plan<'_>, args: &Apply) -> Outcome<()> {
    let steps = &plan.steps;
    let mut progress = Progress::of_requests(steps.len() as u64, "changing");
    let (mut versions, mut lost) = (Vec::new(), None);
    for step in steps {
        match make(client, step, args).await {
            Ok(reply) => versions.push(reply.body["version"].clone()),
            Err(stop) => {
                lost = Some(stop);
                break;
            }
        }
        if !args.json {
            progress.print(|| print_line(&tell::line(step)))?;
        }
        progress.tick();
    }
    drop(progress);
    let made = versions.len();
    if args.json {
        tell::json(&steps[..made], &versions)?;
    }
    match lost {
        Some(stop) => Err(undone(stop, (made, steps.len()))),
        None if args.json => Ok(()),
        None => print_line(&tell::summary(steps, "made")),
    }
}

async fn make(client: &Client, step: &Step<'_>, args: &Apply) -> Outcome<Reply> {
    let reply = client.ask(exchange(step, args.reason.as_deref())).await?;
    if reply.is_success() {
        return Ok(reply);
    }
    let lost = match (exit(&reply), step.version) {
        // What was there is not there any more.
        (Exit::Gone, Some(_)) => Stop::new(Exit::Conflict, stop(&reply)),
        _ => stop(&reply),
    };
    Err(at(&lost, &args.file, step.of.line()))
}

fn undone(stop: Stop, (made, of): (usize, usize)) -> Stop {
    let again = match stop.exit {
        Exit::Conflict => "look with `tidegate limits diff`, and apply it again",
        _ => "apply it again, and it goes on there",
    };
    let message = format!("{stop}\n  = {made} of {of} changes are made; {again}");
    Stop::new(stop.exit, message)
}

fn exchange(step: &Step<'_>, reason: Option<&str>) -> Exchange {
    let exchange = match step.of {
        Of::Entity(entity) => of_entity(entity, step, reason),
        Of::Override(said) => of_override(said, step, reason),
    };
    // Asked twice, it would find what it has made itself.
    let exchange = exchange.repeatable(false);
    match (step.version, step.of) {
        (Some(version), _) => exchange.if_version(version),
        (None, Of::Override(_)) => exchange.if_absent(),
        (None, Of::Entity(_)) => exchange,
    }
}

fn of_entity(entity: &DesiredEntity, step: &Step<'_>, reason: Option<&str>) -> Exchange {
    let said = step.changes.iter();
    let said = said.map(|change| (change.setting.clone(), change.becomes.clone()));
    let mut body: Map<String, Value> = said.collect();
    if let Some(reason) = reason {
        body.insert("reason".to_owned(), json!(reason));
    }
    match step.sort {
        Sort::Added => {
            body.insert("id".to_owned(), json!(entity.id));
            Exchange::post(ENTITIES, &body)
        }
        Sort::Changed => Exchange::patch(ENTITIES, &body).of(&entity.id),
        Sort::Removed => {
            let query: Vec<_> = reason
                .map(|reason| ("reason", reason))
                .into_iter()
                .collect();
            Exchange::delete(ENTITIES).of(&entity.id).query(&query)
        }
    }
}

fn of_override(said: &DesiredOverride, step: &Step<'_>, reason: Option<&str>) -> Exchange {
    let mut query = place(said);
    if step.sort == Sort::Removed {
        query.extend(reason.map(|reason| ("reason", reason)));
        return Exchange::delete(OVERRIDES).query(&query);
    }
    let place = query.into_iter();
    let mut body: Map<String, Value> = place
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    body.insert("limits".to_owned(), json_of(&said.limits));
    let until = said.expires_at.map(|at| ("expires_at", at.to_string()));
    let why = said.reason.clone().map(|reason| ("reason", reason));
    let terms = until.into_iter().chain(why);
    body.extend(terms.map(|(name, value)| (name.to_owned(), json!(value))));
    Exchange::put(
        OVERRIDES,
        "application/json",
        Value::Object(body).to_string(),
    )
}
