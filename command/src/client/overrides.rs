//! `tidegate override`: limits in place of what the policies say.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tidegate_client::{Exchange, Reply};
use tidegate_policy::parse_duration;

use super::arguments::instant;
use super::exit::{CHANGES_A_VERSION, DOES, Exit, Outcome, SETS_AN_OVERRIDE, Stop};
use super::listing::{Paging, key, printable};
use super::options::Options;
use super::print::{print, print_line};
use super::server::{Client, runtime};
use super::typed_limits::{self, Typed};
use super::words;

const PATH: &str = "/v1/overrides";

const NONE_SET: &str = "no override is set there; `tidegate override list` shows those that are";

/// So many policies are named at most where one is not there.
const MOST_NAMED: usize = 10;

const EXAMPLES: &str = "\
Examples:
  A customer bought more:   tidegate override set -p chat -k acme rpm=1000
  The same, in any policy:  tidegate override set -k acme rpm=calls:1000/1m
  Half speed for a policy:  tidegate override set -p chat rpm=30 tpm=rate:5000/1m
  For a week, and why:      tidegate override set -p chat -k acme rpm=90 --for 7d --reason trial
  Only as it was seen:      tidegate override set -p chat -k acme rpm=95 --if-version 18
  Of an entity, by its id:  tidegate override set -p chat --entity alice rpm=90
  What is set:              tidegate override list
  As it was:                tidegate override remove -p chat -k acme
  What holds, and why:      tidegate peek -p chat -k acme --json

The most specific holds: for a key in a policy, for a key, for a policy, for all.
The server keeps overrides over restarts; docs/reference/overrides.md says more.";

/// Manage overrides: other limits for a key, a policy or everyone
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Override {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Set(Set),
    Show(Show),
    List(List),
    Remove(Remove),
}

/// Set limits in place of the policies' own, and of any set there before
///
/// No key is reset: what was used stays used. Needs the scope `administer`, for
/// all policies if none is named.
#[derive(Debug, Args)]
#[command(after_help = SETS_AN_OVERRIDE)]
struct Set {
    /// What limits become: rpm=100 (so much, counted as the policy counts it),
    /// rpm=calls:100/1m, tpm=rate:5000/1m,burst:9000, slots=concurrency:8, or
    /// as a policy's file has it: 'rpm={calls=100, per="1m"}'
    #[arg(value_name = "LIMIT=AMOUNT", required = true)]
    limits: Vec<Typed>,

    /// Only if none is set there
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,

    /// Set it for so long, such as 7d; else for good
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until", value_parser = parse_duration)]
    length: Option<Duration>,

    /// Set it until this instant, such as 2026-12-31T23:59:59Z
    #[arg(long, value_name = "INSTANT", value_parser = instant)]
    until: Option<jiff::Timestamp>,

    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Show what is set for exactly this policy and key
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct Show {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// What is listed: of everything, or of one policy or key.
#[derive(Debug, Args)]
pub struct Of {
    /// Of this policy alone
    #[arg(long, short, value_name = "NAME")]
    policy: Option<String>,

    /// Of this key alone
    #[arg(long, short, value_name = "KEY", conflicts_with = "key_base64")]
    key: Option<String>,

    /// Of this key alone, in Base64: it is no text
    #[arg(long, value_name = "BASE64")]
    key_base64: Option<String>,
}

/// List the overrides that are set
///
/// A line for each: what it is for, its limits (which can be typed again), its version, who set
/// it, when, until when, and why.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct List {
    #[command(flatten)]
    of: Of,

    #[command(flatten)]
    page: Paging,
}

/// Remove what is set for exactly this policy and key
///
/// What is less specific holds again. Needs the scope `administer`, for all
/// policies if none is named.
#[derive(Debug, Args)]
#[command(after_help = CHANGES_A_VERSION)]
struct Remove {
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    options: Options,
}

/// On which terms an override is changed.
#[derive(Clone, Debug, Args)]
struct Terms {
    /// Only if this version is set there: what `show` tells
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,

    /// Why; `show` and `tidegate audit` tell it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// What an override is for.
#[derive(Clone, Debug, Args)]
struct Place {
    /// The policy; default: every policy that has such limits
    #[arg(long, short, value_name = "NAME")]
    policy: Option<String>,

    /// The key; default: every key. With levels, `acme` is the first level
    /// of `acme/alice`
    #[arg(long, short, value_name = "KEY", conflicts_with = "key_base64")]
    key: Option<String>,

    /// The key in Base64, for one that is no text
    #[arg(long, value_name = "BASE64")]
    key_base64: Option<String>,

    /// The entity whose key is meant, by its id: `tidegate entity` keeps them. One that belongs
    /// to another needs --policy
    #[arg(long, value_name = "ID", conflicts_with_all = ["key", "key_base64"])]
    entity: Option<String>,

    /// Every key in every policy
    #[arg(long, conflicts_with_all = ["policy", "key", "key_base64", "entity"])]
    everywhere: bool,
}

/// How the answer is told.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The answer")]
struct Telling {
    /// Print the override as one JSON object
    #[arg(long)]
    json: bool,
}

impl Override {
    /// Does what is said.
    pub fn perform(&self) -> Outcome<Exit> {
        match &self.command {
            Command::Set(set) => set.perform(),
            Command::Show(show) => show.perform(),
            Command::List(list) => list.perform(),
            Command::Remove(remove) => remove.perform(),
        }
    }
}

impl Set {
    fn perform(&self) -> Outcome<Exit> {
        let place = self.place.named()?;
        let client = self.options.connect()?;
        let reply = runtime()?.block_on(async {
            let policies = match typed_limits::needs_policies(&self.limits) {
                true => policies(&client, self.place.policy.as_deref()).await?,
                false => Vec::new(),
            };
            let mut body: Map<_, _> = place
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
                .collect();
            body.insert(
                "limits".to_owned(),
                typed_limits::request(&self.limits, &policies)?,
            );
            let length = self
                .length
                .map(|length| ("expires_in_ms", json!(millis(length))));
            let until = self
                .until
                .map(|until| ("expires_at", json!(until.to_string())));
            let reason = self.terms.reason.as_ref();
            let reason = reason.map(|reason| ("reason", json!(reason)));
            let terms = [length, until, reason].into_iter().flatten();
            body.extend(terms.map(|(name, value)| (name.to_owned(), value)));
            let body = Value::Object(body).to_string();
            let mut put = Exchange::put(PATH, "application/json", body);
            if self.if_absent {
                put = put.if_absent();
            }
            let done = client.done(self.terms.only_if(put)).await;
            let if_gone = ". Set it without --if-version";
            self.place.or_who(done, &client, if_gone).await
        })?;
        self.telling.tell(&reply.body)
    }
}

/// The policies that an override is for, as far as the token may see them.
async fn policies(client: &Client, policy: Option<&str>) -> Outcome<Vec<Value>> {
    let reply = client.done(Exchange::get("/v1/policies")).await;
    let reply = reply.map_err(|mut stop| {
        if stop.exit == Exit::NotAllowed {
            stop.message += ". A limit such as `rpm=1000` is looked up in its policy; one that is written \
                             in full, as in `rpm=calls:1000/1m`, is not";
        }
        stop
    })?;
    let all = reply.body["policies"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let Some(policy) = policy else {
        return Ok(all.to_vec());
    };
    match all.iter().find(|shown| shown["name"] == policy) {
        Some(found) => Ok(vec![found.clone()]),
        None => Err(Stop::new(Exit::Gone, no_policy(policy, all))),
    }
}

/// That there is no such policy, and which there are.
pub fn no_policy(policy: &str, all: &[Value]) -> String {
    let names = all.iter().filter_map(|shown| shown["name"].as_str());
    let mut known: Vec<_> = names
        .take(MOST_NAMED)
        .map(|name| format!("`{}`", printable(name)))
        .collect();
    if all.len() > MOST_NAMED {
        known.push("others".to_owned());
    }
    match known.is_empty() {
        true => format!("there is no policy `{policy}` that the token may see"),
        false => format!(
            "there is no policy `{policy}`; there is {}",
            known.join(", ")
        ),
    }
}

impl Show {
    fn perform(&self) -> Outcome<Exit> {
        self.place.named()?;
        let client = self.options.connect()?;
        match runtime()?.block_on(self.place.there(&client))? {
            Some(found) => self.telling.tell(&found),
            None => Err(Stop::new(Exit::Gone, NONE_SET)),
        }
    }
}

impl Of {
    /// As the server is asked.
    pub fn said(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("policy", self.policy.as_deref()),
            ("key", self.key.as_deref()),
            ("key_base64", self.key_base64.as_deref()),
        ]
    }
}

impl List {
    fn perform(&self) -> Outcome<Exit> {
        let said = self.of.said();
        let page = &self.page;
        page.list(Exchange::get(PATH), "overrides", &said, |item| {
            format!("{}  {}", line(item), record(item))
        })
    }
}

impl Remove {
    fn perform(&self) -> Outcome<Exit> {
        let mut query = self.place.named()?;
        query.extend(
            self.terms
                .reason
                .as_deref()
                .map(|reason| ("reason", reason)),
        );
        let client = self.options.connect()?;
        let remove = self.terms.only_if(Exchange::delete(PATH).query(&query));
        runtime()?.block_on(async {
            let done = match client.done(remove).await {
                // The server names its own listing, not the command's.
                Err(gone) if gone.exit == Exit::Gone => match self.place.there(&client).await {
                    Ok(None) => Err(Stop::new(Exit::Gone, NONE_SET)),
                    _ => Err(gone),
                },
                done => done,
            };
            self.place.or_who(done, &client, "").await
        })?;
        print("removed")?;
        Ok(Exit::Done)
    }
}

impl Terms {
    fn only_if(&self, exchange: Exchange) -> Exchange {
        match self.if_version {
            Some(version) => exchange.if_version(version),
            None => exchange,
        }
    }
}

/// In whole milliseconds, rounded up.
fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

impl Place {
    /// As the server is told. An override for everyone is not set by leaving
    /// something out.
    fn named(&self) -> Outcome<Vec<(&str, &str)>> {
        let said = [
            ("policy", &self.policy),
            ("key", &self.key),
            ("key_base64", &self.key_base64),
            ("entity", &self.entity),
        ];
        let named: Vec<_> = said
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_deref()?)))
            .collect();
        match named.is_empty() && !self.everywhere {
            true => Err(Stop::usage(
                "say what it is for: --policy NAME, --key KEY (or --entity ID), both, or --everywhere",
            )),
            false => Ok(named),
        }
    }

    /// What was done; if another was faster, who, when, and how to look at it, and `if_gone` where
    /// it was removed.
    async fn or_who(&self, done: Outcome<Reply>, client: &Client, if_gone: &str) -> Outcome<Reply> {
        match done {
            Err(lost) if lost.exit == Exit::Conflict => {
                let there = self.there(client).await;
                Err(there.map_or(lost, |there| {
                    Stop::new(Exit::Conflict, self.taken(there.as_ref(), if_gone))
                }))
            }
            done => done,
        }
    }

    /// The override that is set for exactly this, if one is.
    async fn there(&self, client: &Client) -> Outcome<Option<Value>> {
        let mut query = self.named()?;
        query.push(("exact", "true"));
        let reply = client.done(Exchange::get(PATH).query(&query)).await?;
        Ok(reply.body["overrides"].get(0).cloned())
    }

    /// That another was faster: what is there now is his.
    fn taken(&self, there: Option<&Value>, if_gone: &str) -> String {
        let Some(there) = there else {
            // Its events tell an entity's key; those of `audit --entity` are of the entity itself.
            let of_key = Self {
                entity: None,
                ..self.clone()
            };
            let audit = of_key.of("tidegate audit --newest");
            return format!(
                "no override is set there any more; `{audit}` shows who removed it{if_gone}"
            );
        };
        let told = |name: &str| {
            there[name]
                .as_str()
                .map_or_else(|| "?".to_owned(), printable)
        };
        let (by, at, version) = (told("by"), told("changed_at"), &there["version"]);
        let show = self.of(match self.everywhere {
            true => "tidegate override show --everywhere",
            false => "tidegate override show",
        });
        format!("version {version} is there, set by {by} at {at}; `{show}` shows it")
    }

    /// That command, of this policy and this key, as it is typed.
    fn of(&self, command: &str) -> String {
        let said = [
            ("-p", &self.policy),
            ("-k", &self.key),
            ("--key-base64", &self.key_base64),
            ("--entity", &self.entity),
        ];
        let flags = said.into_iter().filter_map(|(flag, value)| {
            let value = value.as_deref()?;
            Some(format!(" {flag} {}", typed(value)))
        });
        command.to_owned() + &flags.collect::<String>()
    }
}

/// A word as a shell takes it.
fn typed(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", printable(&word.replace('\'', r"'\''"))),
    }
}

impl Telling {
    fn tell(&self, body: &Value) -> Outcome<Exit> {
        match self.json {
            true => print(&words::json(body))?,
            false => {
                print_line(&line(body))?;
                print_line(&record(body))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Its version, who set it, when, until when, and why.
fn record(item: &Value) -> String {
    let told = |name: &str| item[name].as_str().map(printable);
    let mut record = format!("version {}", item["version"]);
    for (name, word) in [
        ("by", " set by"),
        ("changed_at", " at"),
        ("expires_at", ", until"),
    ] {
        if let Some(told) = told(name) {
            record = format!("{record}{word} {told}");
        }
    }
    match told("reason") {
        Some(reason) => format!("{record}  (reason: {reason})"),
        None => record,
    }
}

/// What it is for.
pub fn place(item: &Value) -> String {
    let policy = item["policy"].as_str();
    let has_key = item.get("key").or_else(|| item.get("key_base64")).is_some();
    match (policy, has_key) {
        (Some(policy), true) => format!("policy {policy}, key {}", key(item)),
        (Some(policy), false) => format!("policy {policy}"),
        (None, true) => format!("key {}", key(item)),
        (None, false) => "everywhere".to_owned(),
    }
}

/// What it is for, and what the limits become.
fn line(item: &Value) -> String {
    let place = place(item);
    let inert = item["inert"].as_array().into_iter().flatten();
    let inert: Vec<_> = inert.filter_map(Value::as_str).collect();
    let without = match inert.is_empty() {
        true => String::new(),
        false => format!("  (no effect now: {})", inert.join(", ")),
    };
    format!("{place}  {}{without}", typed_limits::shown(&item["limits"]))
}
