//! `tidegate dynamodb`: the table of a DynamoDB store, as an operator has it.

mod args;

use std::process::ExitCode;

pub use args::Dynamodb;
use args::{Command, Kind, Status as StatusArgs, Switch, Table, Template as TemplateArgs, Who};
use serde_json::json;
use tidegate_url::dynamodb::{Administration, Done, Language, Rights, Status, Template};

use crate::output;
use tidegate_server::trouble::{Outcome, Trouble};

/// The exit code of a table that wants an upgrade.
const WANTS_UPGRADE: u8 = 3;

/// Does what the command says.
pub fn dynamodb(args: &Dynamodb) -> Outcome<ExitCode> {
    let said = match &args.command {
        Command::Status(args) => return status(args),
        Command::Template(args) => template(args)?,
        Command::Create(args) => {
            let done = open(&args.table)?.create(args.protect);
            told(&done.map_err(Trouble::failure)?)
        }
        Command::Upgrade(args) => {
            let protect = args.protect.map(|protect| protect == Switch::On);
            let done = open(&args.table)?.upgrade(protect);
            told(&done.map_err(Trouble::failure)?)
        }
        Command::Delete(args) => {
            let (name, _) = named(&args.table)?;
            if name != args.confirm {
                return Err(Trouble::usage(format!(
                    "the table is `{name}`, and --confirm says `{}`; nothing was deleted",
                    args.confirm
                )));
            }
            open(&args.table)?.delete().map_err(Trouble::failure)?;
            "deleted\n".to_owned()
        }
    };
    print(&said).map(|()| ExitCode::SUCCESS)
}

fn named(table: &Table) -> Outcome<(String, tidegate_url::dynamodb::Options)> {
    let url = &table.store;
    if !url.starts_with("dynamodb://") {
        return Err(Trouble::usage(format!(
            "`{}` is no table of DynamoDB's; write dynamodb://TABLE?region=eu-central-1",
            tidegate_url::shown(url)
        )));
    }
    tidegate_url::dynamodb_table(url).map_err(Trouble::usage)
}

fn open(table: &Table) -> Outcome<Administration> {
    let (name, options) = named(table)?;
    Administration::new(&name, options).map_err(Trouble::usage)
}

/// A line for each thing that was done.
fn told(done: &[Done]) -> String {
    let words = done.iter().map(|done| match done {
        Done::Made => "the table is made",
        Done::Expires => "what is spent expires",
        Done::Layout => "the layout is of this version",
        Done::Protected => "the table is protected",
        Done::Unprotected => "the table is protected no longer",
        _ => "the table is changed",
    });
    match done {
        [] => "nothing to do: the table is there and up to date\n".to_owned(),
        _ => words.map(|words| format!("{words}\n")).collect(),
    }
}

fn status(args: &StatusArgs) -> Outcome<ExitCode> {
    let status = open(&args.table)?.status().map_err(Trouble::failure)?;
    print(&match args.json {
        true => format!("{}\n", as_json(&status)),
        false => as_lines(&status),
    })?;
    Ok(match status.is_current() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(WANTS_UPGRADE),
    })
}

fn as_json(status: &Status) -> serde_json::Value {
    json!({
        "table": status.table,
        "state": status.state,
        "layout": status.layout,
        "layout_of_this_program": Status::LAYOUT,
        "expires": status.expires,
        "protected": status.is_protected,
        "on_demand": status.on_demand,
        "items": status.items,
        "bytes": status.bytes,
        "current": status.is_current(),
    })
}

fn as_lines(status: &Status) -> String {
    let layout = match status.layout {
        None => "none yet; `tidegate dynamodb upgrade` writes it".to_owned(),
        Some(layout) if layout == Status::LAYOUT => layout.to_string(),
        Some(layout) if layout < Status::LAYOUT => {
            let own = Status::LAYOUT;
            format!("{layout}, and this program's is {own}; `tidegate dynamodb upgrade` raises it")
        }
        Some(layout) => format!("{layout}; this program writes {}", Status::LAYOUT),
    };
    let expires = match status.expires {
        true => "yes",
        false => "no: what is spent stays, and is billed; `tidegate dynamodb upgrade` mends it",
    };
    let yes = |is: bool| if is { "yes" } else { "no" };
    let billed = match status.on_demand {
        true => "on demand",
        false => "as provisioned",
    };
    let lines = [
        ("table", status.table.clone()),
        ("state", status.state.clone()),
        ("layout", layout),
        ("expires", expires.to_owned()),
        ("protected", yes(status.is_protected).to_owned()),
        ("billed", billed.to_owned()),
        (
            "items",
            format!(
                "{} ({} bytes), as DynamoDB counted within six hours",
                status.items, status.bytes
            ),
        ),
    ];
    let lines = lines.map(|(name, value)| format!("{name:<10} {value}\n"));
    lines.concat()
}

fn template(args: &TemplateArgs) -> Outcome<String> {
    let language = match args.kind {
        Kind::Cloudformation => Language::CloudFormation,
        Kind::Terraform => Language::Terraform,
        Kind::Policy => Language::Policy(match args.rights {
            Who::Decide => Rights::Decide,
            Who::Migrate => Rights::Migrate,
            Who::Administer => Rights::Administer,
        }),
    };
    let template = Template::new(&args.table).map_err(Trouble::usage)?;
    Ok(template.text(language))
}

fn print(text: &str) -> Outcome<()> {
    let printed = output::print(text).map(drop);
    printed.map_err(|error| Trouble::failure(format!("cannot print: {error}")))
}
