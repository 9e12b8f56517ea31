//! `tidegate audit`: what was changed, and by whom.

use clap::Args;
use serde_json::Value;
use tidegate_client::Exchange;

use super::arguments::{instant_or_ago, instant_or_day};
use super::entities;
use super::exit::{DOES, Exit, Outcome, Stop};
use super::listing::{Listing, Paging, printable};
use super::overrides::{Of, place};
use super::print::print_for_reader;
use super::typed_limits;
use super::words::{csv_key, csv_row};

const PATH: &str = "/v1/audit";

/// List the administrative changes that clients have made, in the order of time
///
/// A line for each: its version, when, who, from where, what was done to what, and of an
/// override what the limits were and are, and until when, of an entity what it was and is. Of a policy it lists what was done to
/// it, its overrides and its keys, and policies that were applied if that changed it (as far as the
/// first 256 changes tell). The store keeps them for 90 days, and 10,000 of each sort (overrides,
/// entities, namespaces, policies, keys), unless the servers are set up otherwise. Needs the scope `observe`.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
pub struct Audit {
    #[command(flatten)]
    of: Of,

    /// Of this entity alone
    #[arg(long, value_name = "ID", conflicts_with_all = ["policy", "key", "key_base64"])]
    entity: Option<String>,

    /// From this instant on, such as 2026-12-31T23:59:59Z, from this day on (UTC), such as
    /// 2026-12-31, or so long ago, such as 1h
    #[arg(long, value_name = "INSTANT|DAY|TIME")]
    since: Option<String>,

    /// Before this instant, or this day (UTC)
    #[arg(long, value_name = "INSTANT|DAY", value_parser = instant_or_day)]
    until: Option<jiff::Timestamp>,

    /// The newest of them, where there are more than --most; without it the oldest
    #[arg(long)]
    newest: bool,

    /// Write CSV, with a line of the columns' names. A key that is no text is in Base64 behind
    /// `base64:`; what was there before and after, and the details, are JSON
    #[arg(long, help_heading = "The answer", conflicts_with = "json")]
    csv: bool,

    #[command(flatten)]
    page: Paging,
}

/// The columns of an event as CSV.
const COLUMNS: [&str; 13] = [
    "version", "at", "by", "protocol", "peer", "action", "policy", "key", "entity", "before",
    "after", "details", "reason",
];

impl Audit {
    /// Lists them.
    pub fn perform(&self) -> Outcome<Exit> {
        let since = self.since.as_deref().map(|text| {
            let since = instant_or_ago(text, jiff::Timestamp::now());
            since.map_err(|help| Stop::usage(format!("--since {text}: {help}")))
        });
        let said = |instant: jiff::Timestamp| instant.to_string();
        let (since, until) = (since.transpose()?.map(said), self.until.map(said));
        let [policy, key, key_base64] = self.of.said();
        let times = [("since", since.as_deref()), ("until", until.as_deref())];
        let entity = ("entity", self.entity.as_deref());
        let said = [policy, key, key_base64, entity, times[0], times[1]];
        let listing = Listing {
            asked: Exchange::get(PATH),
            items: "events",
            said: &said,
            most: self.page.most,
            newest: self.newest,
            more: |last| match last["at"].as_str() {
                Some(at) => {
                    format!("there are more after these; --since {at} goes on, --most 0 lists all")
                }
                None => "there are more; --most 0 lists all".to_owned(),
            },
        };
        if self.csv && !print_for_reader(&COLUMNS.join(","))? {
            return Ok(Exit::Done);
        }
        listing.print(&self.page.options, |event| {
            match (self.page.json, self.csv) {
                (true, _) => event.to_string(),
                (false, true) => csv_line(event),
                (false, false) => line(event),
            }
        })
    }
}

/// Whether a namespace was created, deleted, restored or purged.
fn is_of_namespace(event: &Value) -> bool {
    let action = event["action"].as_str().unwrap_or_default();
    action.ends_with("_namespace")
}

/// What an event tells beside.
fn details(event: &Value) -> impl Iterator<Item = &str> {
    let details = event["details"].as_array().into_iter().flatten();
    details.filter_map(Value::as_str)
}

/// What was changed: an entity, a namespace, or what a policy and a key are.
fn subject(event: &Value) -> String {
    match (event["entity"].as_str(), details(event).next()) {
        (Some(id), _) => format!("entity {}", printable(id)),
        (None, Some(name)) if is_of_namespace(event) => format!("namespace {}", printable(name)),
        (None, _) => place(event),
    }
}

/// An event as CSV.
fn csv_line(event: &Value) -> String {
    let column = |name: &&str| match (*name, &event[*name]) {
        ("key", _) => csv_key(event),
        (_, Value::Null) => String::new(),
        (_, Value::Array(details)) if details.is_empty() => String::new(),
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    };
    csv_row(&COLUMNS.iter().map(column).collect::<Vec<_>>())
}

/// An event in one line.
fn line(event: &Value) -> String {
    let told = |name: &str| event[name].as_str().map(printable);
    let word = |name: &str| told(name).unwrap_or_else(|| "?".to_owned());
    let from = [told("protocol"), told("peer")];
    let from = from.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let from = match from.is_empty() {
        true => String::new(),
        false => format!(" ({from})"),
    };
    let mut line = format!(
        "{}  {}  {}{from}  {}  {}",
        event["version"],
        word("at"),
        word("by"),
        word("action"),
        subject(event),
    );
    let limits = |when: &str| {
        let state = &event[when];
        if !event["entity"].is_null() {
            return entities::said(state);
        }
        let limits = typed_limits::shown(&state["limits"]);
        match state["expires_at"].as_str() {
            Some(until) => format!("{limits} until {}", printable(until)),
            None => limits,
        }
    };
    match (event["before"].is_null(), event["after"].is_null()) {
        (true, true) => {}
        (true, false) => line += &format!("  {}", limits("after")),
        (false, true) => line += &format!("  {} -> nothing", limits("before")),
        (false, false) => line += &format!("  {} -> {}", limits("before"), limits("after")),
    }
    // What an event of a namespace is about was named already.
    let details = details(event).skip(usize::from(is_of_namespace(event)));
    for detail in details {
        line += &format!("  {}", printable(detail));
    }
    match told("reason") {
        Some(reason) => format!("{line}  (reason: {reason})"),
        None => line,
    }
}
