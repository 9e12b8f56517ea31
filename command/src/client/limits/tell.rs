//! Changes as lines, as a table, as JSON.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::plan::{Of, Plan, Sort, Step};
use super::settings::Change;
use super::there::place;
use crate::client::exit::Outcome;
use crate::client::listing::printable;
use crate::client::print::print_line;

const NOTHING: &str = "the server is as the file says";

/// A line for each change, in the order in which they would be made.
pub fn plan(plan: &Plan<'_>, _: &Path) -> Outcome<()> {
    if plan.steps.is_empty() {
        return print_line(NOTHING);
    }
    for step in &plan.steps {
        print_line(&line(step))?;
    }
    print_line(&summary(&plan.steps, "to make"))
}

/// Each change with its line in the file, and below it every setting: as it is, and as it is to be.
pub fn diff(plan: &Plan<'_>, path: &Path) -> Outcome<()> {
    if plan.steps.is_empty() {
        return print_line(NOTHING);
    }
    for step in &plan.steps {
        let at = format!("{}:{}", path.display(), step.of.line());
        print_line(&format!("{} {}  ({at})", sign(step.sort), name(step.of)))?;
        let width = step.changes.iter().map(|one| one.setting.chars().count());
        let width = width.max().unwrap_or(0);
        for Change {
            setting,
            was,
            becomes,
        } in &step.changes
        {
            let setting = printable(setting);
            let (was, becomes) = (shown(was), shown(becomes));
            print_line(&format!("    {setting:width$}  {was} -> {becomes}"))?;
        }
    }
    Ok(())
}

/// What is changed, and which of its settings.
pub fn line(step: &Step<'_>) -> String {
    let (sign, name) = (sign(step.sort), name(step.of));
    let changes = step.changes.iter();
    let settings: Vec<_> = match step.sort {
        Sort::Added => changes
            .map(|one| format!("{}={}", printable(&one.setting), shown(&one.becomes)))
            .collect(),
        Sort::Changed => changes.map(|one| printable(&one.setting)).collect(),
        Sort::Removed => Vec::new(),
    };
    format!("{sign} {name}  {}", settings.join("  "))
        .trim_end()
        .to_owned()
}

/// How many changes of which sort there are.
pub fn summary(steps: &[Step<'_>], what: &str) -> String {
    if steps.is_empty() {
        return NOTHING.to_owned();
    }
    let count = |sort| steps.iter().filter(|step| step.sort == sort).count();
    let [added, changed, removed] = [Sort::Added, Sort::Changed, Sort::Removed].map(count);
    let changes = if steps.len() == 1 {
        "change"
    } else {
        "changes"
    };
    format!(
        "{} {changes} {what}: {added} added, {changed} changed, {removed} removed",
        steps.len()
    )
}

/// Every change, with the version that it has made where it is made.
pub fn json(steps: &[Step<'_>], versions: &[Value]) -> Outcome<()> {
    let changes = steps.iter().enumerate().map(|(nth, step)| {
        let mut told = told(step);
        if let Some(version) = versions.get(nth) {
            told.insert("version".to_owned(), version.clone());
        }
        Value::Object(told)
    });
    print_line(&json!({"changes": changes.collect::<Vec<_>>()}).to_string())
}

fn told(step: &Step<'_>) -> Map<String, Value> {
    let settings = step.changes.iter();
    let settings = settings.map(
        |Change {
             setting,
             was,
             becomes,
         }| json!({"setting": setting, "was": was, "becomes": becomes}),
    );
    let (sort, of) = match step.of {
        Of::Entity(entity) => ("entity", json!(entity.id)),
        Of::Override(said) => {
            let place = place(said).into_iter();
            let place = place.map(|(name, value)| (name.to_owned(), json!(value)));
            ("override", Value::Object(place.collect()))
        }
    };
    let told = [
        ("change", json!(word(step.sort))),
        (sort, of),
        ("line", json!(step.of.line())),
        ("settings", settings.collect()),
    ];
    let told = told.into_iter();
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}

const fn word(sort: Sort) -> &'static str {
    match sort {
        Sort::Added => "added",
        Sort::Changed => "changed",
        Sort::Removed => "removed",
    }
}

const fn sign(sort: Sort) -> char {
    match sort {
        Sort::Added => '+',
        Sort::Changed => '~',
        Sort::Removed => '-',
    }
}

/// What it is.
fn name(of: Of<'_>) -> String {
    let said = match of {
        Of::Entity(entity) => return format!("entity {}", printable(&entity.id)),
        Of::Override(said) => said,
    };
    let place = place(said).into_iter();
    let place: Vec<_> = place
        .map(|(name, value)| format!("{name} {}", printable(value)))
        .collect();
    match place.is_empty() {
        true => "override everywhere".to_owned(),
        false => format!("override {}", place.join(", ")),
    }
}

/// A value as it can be shown; nothing is a dash.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        value => printable(&value.to_string()),
    }
}
