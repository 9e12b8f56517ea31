//! `tidegate namespaces`: parts of one store that share nothing.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tidegate_client::Exchange;

use super::exit::{DOES, Exit, OF_A_NAMESPACE, Outcome};
use super::listing::{Paging, printable};
use super::options::Options;
use super::print::{print, print_line};
use super::reason::Reason;
use super::server::runtime;
use super::words;

const PATH: &str = "/v1/namespaces";

const EXAMPLES: &str = "\
Examples:
  A tenant of its own:         tidegate namespaces create acme
  Asked in it:                 tidegate check --namespace acme -p chat -k alice
  A token for it alone:        tidegate token acme-gateway --namespace acme
  Its requests are refused:    tidegate namespaces delete acme --reason 'contract ended'
  It answers again:            tidegate namespaces restore acme
  All that it has is removed:  tidegate namespaces purge acme

docs/namespaces.md says more.";

/// Manage namespaces: parts of one store that share no key, lease, limit, usage or event
///
/// All of it needs a token for every namespace (`namespace = "*"`), for all policies: to list, the
/// scope `observe`; for all else, `administer`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Namespaces {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
    Show(Show),
    Create(Change),
    Delete(Delete),
    Restore(Restore),
    Purge(Purge),
}

/// List all namespaces, those that are deleted among them
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct List {
    #[command(flatten)]
    page: Paging,
}

/// Show a namespace
#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct Show {
    /// Its name
    name: String,

    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Create a namespace
#[derive(Debug, Args)]
#[command(after_help = OF_A_NAMESPACE)]
struct Change {
    /// Its name
    name: String,

    #[command(flatten)]
    reason: Reason,
    #[command(flatten)]
    telling: Telling,
    #[command(flatten)]
    options: Options,
}

/// Delete a namespace: all requests in it are refused, and it keeps all that it has
#[derive(Debug, Args)]
#[command(after_help = OF_A_NAMESPACE)]
struct Delete {
    #[command(flatten)]
    change: Change,
}

/// Restore a deleted namespace: it answers again, with all that it had
#[derive(Debug, Args)]
#[command(after_help = OF_A_NAMESPACE)]
struct Restore {
    #[command(flatten)]
    change: Change,
}

/// Purge a deleted namespace: all that it has is removed, and then itself
///
/// It goes on until nothing is left. One that was stopped half way is asked for again, and goes
/// on. A namespace that is in use, or was deleted less than ten seconds ago, is not purged.
#[derive(Debug, Args)]
#[command(after_help = OF_A_NAMESPACE)]
struct Purge {
    #[command(flatten)]
    change: Change,
}

/// How the answer is told.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "The answer")]
struct Telling {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Namespaces {
    /// Does what is said.
    pub fn perform(&self) -> Outcome<Exit> {
        match &self.command {
            Command::List(all) => all.page.list(Exchange::get(PATH), "namespaces", &[], line),
            Command::Show(show) => show.telling.ask(&show.options, one(&show.name)),
            Command::Create(create) => create.ask(create.create()),
            Command::Delete(delete) => {
                let change = &delete.change;
                let delete = Exchange::delete(PATH).of(&change.name);
                change.ask(change.reason.query(delete))
            }
            Command::Restore(restore) => {
                let change = &restore.change;
                change.ask(change.posted("restore"))
            }
            Command::Purge(purge) => purge.change.purge(),
        }
    }
}

fn one(name: &str) -> Exchange {
    Exchange::get(PATH).of(name)
}

impl Change {
    fn create(&self) -> Exchange {
        let mut body = Map::new();
        body.insert("name".to_owned(), json!(self.name));
        self.reason.put(&mut body);
        Exchange::post(PATH, &body)
    }

    /// Asked twice, it comes to the same.
    fn posted(&self, verb: &str) -> Exchange {
        let posted = Exchange::post(PATH, &json!({})).of(&self.name).of(verb);
        self.reason.query(posted.repeatable(true))
    }

    fn ask(&self, exchange: Exchange) -> Outcome<Exit> {
        self.telling.ask(&self.options, exchange)
    }

    fn purge(&self) -> Outcome<Exit> {
        let (client, runtime) = (self.options.connect()?, runtime()?);
        let mut removed = 0;
        loop {
            // Asked twice, the second time it may be gone.
            let purge = self.posted("purge").repeatable(false);
            let reply = runtime.block_on(client.done(purge))?;
            removed += reply.body["removed"].as_u64().unwrap_or_default();
            if reply.body["done"] == true {
                break;
            }
        }
        match self.telling.json {
            true => print(&json!({"removed": removed, "done": true}).to_string())?,
            false => print(&format!("purged: {removed} items removed"))?,
        }
        Ok(Exit::Done)
    }
}

impl Telling {
    fn ask(&self, options: &Options, exchange: Exchange) -> Outcome<Exit> {
        let client = options.connect()?;
        let reply = runtime()?.block_on(client.done(exchange))?;
        match self.json {
            true => print(&words::json(&reply.body))?,
            false => print_line(&line(&reply.body))?,
        }
        Ok(Exit::Done)
    }
}

/// Its name, how it is, and since when.
fn line(item: &Value) -> String {
    let told = |name: &str| item[name].as_str().map(printable).unwrap_or_default();
    let mut line = format!("{}  {}", told("name"), told("state"));
    for (name, word) in [("changed_at", "since"), ("by", "by")] {
        if item[name].is_string() {
            line += &format!(" {word} {}", told(name));
        }
    }
    line
}
