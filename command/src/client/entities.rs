//! `tidegate entity`: who belongs to whom.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tidegate_client::Exchange;
use tidegate_policy::wrong_entity_id;

use super::exit::{CHANGES_A_VERSION, CREATES, DOES, Exit, Outcome, Stop};
use super::listing::{Paging, printable};
use super::options::Options;
use super::print::{print, print_line};
use super::reason::Reason;
use super::server::runtime;
use super::words;

const PATH: &str = "/v1/entities";

const EXAMPLES: &str = "\
Examples:
  A customer:                  tidegate entity create acme --name 'Acme Inc.'
  A team, and who is in it:    tidegate entity create search --parent acme
                               tidegate entity create alice --parent search --meta tier=gold
  Asked by its id alone:       tidegate check -p chat --entity alice tpm=1200
  Where it stands:             tidegate entity show alice
  Who belongs to a team:       tidegate entity children search
  Move it to another team:     tidegate entity change alice --parent ads
  Charge it alone:             tidegate entity change alice --charge-parents false
  Only as it was seen:         tidegate entity change alice --name Alice --if-version 18
  Delete it:                   tidegate entity delete alice

docs/entities.md says more.";

/// Manage entities (customers, teams, users), which requests may name by their ids
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Entities {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
    Show(Show),
    List(List),
    Children(Children),
    Change(Change),
    Delete(Delete),
}

/// Create an entity
///
/// Needs the scope `administer`, for all policies.
#[derive(Debug, Args)]
#[command(after_help = CREATES)]
struct Create {
    /// Its id: 1 to 256 bytes
    id: String,

    /// The entity that it belongs to; without, it is a root
    #[arg(long, value_name = "ID")]
    parent: Option<String>,

    #[command(flatten)]
    said: Said,
    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Show an entity, and its ancestors
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct Show {
    /// Its id
    id: String,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// List all entities, by their ids
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct List {
    #[command(flatten)]
    page: Paging,
}

/// List the children of an entity, by their ids
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct Children {
    /// Its id
    id: String,

    #[command(flatten)]
    page: Paging,
}

/// Change what is said of an entity, or move it
///
/// What is not named stays as it is. Below another parent it keeps what it has used. Takes the
/// scope `administer`, for all policies.
#[derive(Debug, Args)]
#[command(after_help = CHANGES_A_VERSION)]
struct Change {
    /// Its id
    id: String,

    /// The entity that it is to belong to: of the same root, and as deep as its parent now
    #[arg(long, value_name = "ID")]
    parent: Option<String>,

    /// No metadata any more
    #[arg(long, conflicts_with = "meta")]
    no_meta: bool,

    #[command(flatten)]
    said: Said,
    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Delete an entity
///
/// One that has children or holds leases stays. Needs the scope `administer`, for all policies.
#[derive(Debug, Args)]
#[command(after_help = CHANGES_A_VERSION)]
struct Delete {
    /// Its id
    id: String,

    #[command(flatten)]
    terms: Terms,
    #[command(flatten)]
    options: Options,
}

/// What is said of an entity.
#[derive(Clone, Debug, Args)]
struct Said {
    /// What people call it
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,

    /// Metadata of your own; replaces all that there is: at most 16, of 1,024
    /// bytes in all
    #[arg(long, value_name = "WORD=TEXT", value_parser = word)]
    meta: Vec<(String, String)>,

    /// Whether its ancestors' limits count, too: they can refuse, and they are charged
    #[arg(long, value_name = "true|false")]
    charge_parents: Option<bool>,
}

/// On which terms an entity is changed.
#[derive(Clone, Debug, Args)]
struct Terms {
    /// Only if it is at this version: what `show` tells
    #[arg(long, value_name = "N")]
    if_version: Option<u64>,

    #[command(flatten)]
    reason: Reason,
}

/// How the answer is told.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The answer")]
struct Telling {
    /// Print the entity as one JSON object
    #[arg(long)]
    json: bool,
}

fn word(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((word, says)) if !word.is_empty() => Ok((word.to_owned(), says.to_owned())),
        _ => Err("write WORD=TEXT, such as tier=gold".to_owned()),
    }
}

impl Entities {
    /// Does what is said.
    pub fn perform(&self) -> Outcome<Exit> {
        match &self.command {
            Command::Create(create) => create.perform(),
            Command::Show(show) => show.telling.ask(&show.options, get(&show.id)?),
            Command::List(all) => all.page.list(Exchange::get(PATH), "entities", &[], line),
            Command::Children(of) => {
                let children = get(&of.id)?.of("children");
                of.page.list(children, "entities", &[], line)
            }
            Command::Change(change) => change.perform(),
            Command::Delete(delete) => delete.perform(),
        }
    }
}

fn get(id: &str) -> Outcome<Exchange> {
    of(Exchange::get(PATH), id)
}

/// About the entity of this id, if it can be one: an address without any is another's.
fn of(exchange: Exchange, id: &str) -> Outcome<Exchange> {
    match wrong_entity_id(id) {
        Some(wrong) => Err(Stop::usage(format!("the entity's id: {wrong}"))),
        None => Ok(exchange.of(id)),
    }
}

impl Create {
    fn perform(&self) -> Outcome<Exit> {
        let mut body = self.said.body(false);
        body.insert("id".to_owned(), json!(self.id));
        if let Some(parent) = &self.parent {
            body.insert("parent".to_owned(), json!(parent));
        }
        self.reason.put(&mut body);
        self.telling.ask(&self.options, Exchange::post(PATH, &body))
    }
}

impl Change {
    fn perform(&self) -> Outcome<Exit> {
        let mut body = self.said.body(self.no_meta);
        if let Some(parent) = &self.parent {
            body.insert("parent".to_owned(), json!(parent));
        }
        self.terms.reason.put(&mut body);
        let change = of(Exchange::patch(PATH, &body), &self.id)?;
        self.telling.ask(&self.options, self.terms.only_if(change))
    }
}

impl Delete {
    fn perform(&self) -> Outcome<Exit> {
        let delete = of(Exchange::delete(PATH), &self.id)?;
        let delete = self.terms.reason.query(delete);
        // Asked twice, the second time it is not there any more.
        let delete = self.terms.only_if(delete.repeatable(false));
        let client = self.options.connect()?;
        runtime()?.block_on(client.done(delete))?;
        print("deleted")?;
        Ok(Exit::Done)
    }
}

impl Said {
    fn body(&self, no_meta: bool) -> Map<String, Value> {
        let mut body = Map::new();
        if let Some(name) = &self.name {
            body.insert("name".to_owned(), json!(name));
        }
        if no_meta || !self.meta.is_empty() {
            let words = self.meta.iter();
            let words: Map<_, _> = words
                .map(|(word, says)| (word.clone(), json!(says)))
                .collect();
            body.insert("metadata".to_owned(), words.into());
        }
        if let Some(charge_parents) = self.charge_parents {
            body.insert("charge_parents".to_owned(), json!(charge_parents));
        }
        body
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

impl Telling {
    fn ask(&self, options: &Options, exchange: Exchange) -> Outcome<Exit> {
        let client = options.connect()?;
        let reply = runtime()?.block_on(client.done(exchange))?;
        match self.json {
            true => print(&words::json(&reply.body))?,
            false => {
                print_line(&line(&reply.body))?;
                print_line(&record(&reply.body))?;
            }
        }
        Ok(Exit::Done)
    }
}

/// Its id, whom it belongs to, and what is said of it.
fn line(item: &Value) -> String {
    let id = item["id"]
        .as_str()
        .map_or_else(|| "?".to_owned(), printable);
    format!("{id}  {}", said(item))
}

/// Whom an entity belongs to, and what is said of it.
pub fn said(item: &Value) -> String {
    let told = |value: &Value| value.as_str().map(printable);
    let ancestors = item["ancestors"].as_array().into_iter().flatten();
    let ancestors: Vec<_> = ancestors.filter_map(told).collect();
    let mut line = match (ancestors.is_empty(), told(&item["parent"])) {
        (false, _) => format!("belongs to {}", ancestors.join(" / ")),
        (true, Some(parent)) => format!("belongs to {parent}"),
        (true, None) => "a root".to_owned(),
    };
    if let Some(name) = told(&item["name"]).filter(|name| !name.is_empty()) {
        line += &format!("  \"{name}\"");
    }
    let words = item["metadata"].as_object().into_iter().flatten();
    for (word, says) in words {
        line += &format!("  {}={}", printable(word), told(says).unwrap_or_default());
    }
    if item["charge_parents"] == false {
        line += "  (its parents are not charged)";
    }
    line
}

/// Its version, who changed it, and when.
fn record(item: &Value) -> String {
    let mut record = format!("version {}", item["version"]);
    for (name, word) in [("by", " changed by"), ("changed_at", " at")] {
        if let Some(told) = item[name].as_str().map(printable) {
            record = format!("{record}{word} {told}");
        }
    }
    record
}
