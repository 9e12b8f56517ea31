//! `tidegate fleet`: what servers took in advance of a policy.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::{Map, Value, json};

use super::capacity::{billionths, places, text};
use super::exit::{DOES, Exit, Outcome};
use super::listing::{each_page, printable};
use super::options::Options;
use super::print::print_line;
use super::server::{Client, runtime};
use super::words::amount;
use crate::command::Progress;

/// How many grants are asked for at a time.
const PAGE: &str = "1000";

/// Show which servers hold what of a policy in advance, and by how much they may exceed its limits
///
/// Of a policy with a tier that takes units in advance. A line for each limit says by how much all servers
/// together may exceed it at most, and how much of a key may be out; then a line for each node (a server, or
/// a process that uses the store itself): of how many keys it holds something, until when the store keeps
/// that, and how much it took. What is spent of it, only the node knows. A node that was killed is listed
/// until the store's time for it is over.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
pub struct Fleet {
    /// The policy
    #[arg(long, short, value_name = "NAME", env = "TIDEGATE_POLICY")]
    policy: String,

    /// Of this key alone
    #[arg(long, short, value_name = "KEY", conflicts_with = "prefix")]
    key: Option<String>,

    /// Only of keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Print one JSON object
    #[arg(long, help_heading = "The answer")]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// What a node holds.
#[derive(Default)]
struct Node {
    keys: BTreeSet<String>,
    grants: u64,
    until: String,
    taken: BTreeMap<String, Sum>,
}

/// An amount, added up in billionths.
#[derive(Default)]
struct Sum {
    amount: u128,
    places: Option<usize>,
}

/// What all pages say.
#[derive(Default)]
struct All {
    here: String,
    limits: Map<String, Value>,
    nodes: BTreeMap<String, Node>,
}

impl Fleet {
    /// Adds page after page up, and prints what all come to.
    pub fn perform(&self) -> Outcome<Exit> {
        let client = self.options.connect()?;
        let all = runtime()?.block_on(self.all(&client))?;
        if self.json {
            print_line(&all.json().to_string())?;
            return Ok(Exit::Done);
        }
        if all.limits.is_empty() {
            print_line(
                "servers take nothing of this policy in advance: its store decides each request",
            )?;
            return Ok(Exit::Done);
        }
        for (name, bound) in &all.limits {
            print_line(&bound_line(name, bound))?;
        }
        if all.nodes.is_empty() {
            print_line("no node holds anything now")?;
        }
        for (name, node) in &all.nodes {
            print_line(&node.line(name, *name == all.here))?;
        }
        Ok(Exit::Done)
    }

    async fn all(&self, client: &Client) -> Outcome<All> {
        let mut progress = Progress::counting("adding up grants:", true);
        let said = [
            ("policy", Some(&*self.policy)),
            ("key", self.key.as_deref()),
            ("prefix", self.prefix.as_deref()),
        ];
        let mut all = All::default();
        let add = |page: Value| {
            for grant in page["grants"].as_array().into_iter().flatten() {
                progress.tick();
                all.add(grant);
            }
            all.here = page["node"].as_str().unwrap_or_default().to_owned();
            let limits = page["limits"].as_object().into_iter().flatten();
            for (name, bound) in limits {
                all.limits.insert(name.clone(), bound.clone());
            }
        };
        each_page(client, "/v1/fleet", &said, PAGE, add).await?;
        Ok(all)
    }
}

impl All {
    fn add(&mut self, grant: &Value) {
        let name = grant["node"].as_str().unwrap_or_default();
        let node = self.nodes.entry(name.to_owned()).or_default();
        let key = grant["key"]
            .as_str()
            .or_else(|| grant["key_base64"].as_str());
        node.keys.insert(key.unwrap_or_default().to_owned());
        node.grants += 1;
        let until = grant["expires_at"].as_str().unwrap_or_default();
        if *until > *node.until {
            until.clone_into(&mut node.until);
        }
        for (limit, taken) in grant["amounts"].as_object().into_iter().flatten() {
            let sum = node.taken.entry(limit.clone()).or_default();
            sum.amount += billionths(taken);
            sum.places = sum.places.max(taken.as_str().map(places));
        }
    }

    fn json(&self) -> Value {
        let nodes = self.nodes.iter().map(|(name, node)| {
            let taken = node.taken.iter();
            let taken: Map<_, _> = taken
                .map(|(limit, sum)| (limit.clone(), json!(sum.text())))
                .collect();
            json!({
                "node": name, "answered": *name == self.here, "keys": node.keys.len(),
                "grants": node.grants, "until": node.until, "taken": taken,
            })
        });
        json!({"limits": self.limits, "nodes": nodes.collect::<Vec<_>>()})
    }
}

impl Node {
    fn line(&self, name: &str, is_here: bool) -> String {
        let mark = if is_here { " (this server)" } else { "" };
        let keys = if self.keys.len() == 1 { "key" } else { "keys" };
        let taken = self.taken.iter();
        let taken: Vec<_> = taken
            .map(|(limit, sum)| format!("{} {}", printable(limit), sum.text()))
            .collect();
        format!(
            "node {name}{mark}  {} {keys} until {}  {}",
            self.keys.len(),
            self.until,
            taken.join("  ")
        )
    }
}

impl Sum {
    fn text(&self) -> String {
        text(self.amount, self.places.unwrap_or_default())
    }
}

/// By how much a limit may be exceeded.
fn bound_line(name: &str, bound: &Value) -> String {
    let name = printable(name);
    let beyond = match &*amount(&bound["beyond"]) {
        "0" => "kept exactly".to_owned(),
        most => format!("exceeded by {most} at most"),
    };
    match &bound["outstanding"] {
        Value::Null => format!("{name}  {beyond}"),
        out => format!("{name}  {beyond}; {} of a key out at most", amount(out)),
    }
}
