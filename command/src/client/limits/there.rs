//! What a server keeps of what a file names.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;
use tidegate_client::{Exchange, Reply};
use tidegate_policy::{DesiredKey, DesiredOverride, DesiredState};
use tokio::task::JoinSet;

use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::server::{Client, exit, stop};
use crate::command::Progress;

/// Where entities are.
pub const ENTITIES: &str = "/v1/entities";
/// Where overrides are.
pub const OVERRIDES: &str = "/v1/overrides";

/// So many questions are under way at once.
const AT_ONCE: usize = 16;

/// What a server keeps of what a file names.
#[derive(Debug, Default)]
pub struct There {
    /// Entities that the file names, by their ids; those that are not there are missing.
    pub entities: HashMap<String, Value>,
    /// The override of each entry of the file, in its order.
    pub overrides: Vec<Option<Value>>,
    /// The policies that the token may see.
    pub policies: Vec<Value>,
}

impl There {
    /// Asks the server for everything that the file at `path` names.
    pub async fn read(client: &Client, desired: &DesiredState, path: &Path) -> Outcome<Self> {
        let ids = named(desired);
        let total = ids.len() + desired.overrides.len();
        let mut progress = Progress::of_requests(total as u64, "reading");
        let asked = ids.iter().map(|id| Exchange::get(ENTITIES).of(id));
        let answers = all(client, asked, &mut progress).await?;
        let mut entities = HashMap::new();
        for (id, reply) in ids.iter().zip(answers) {
            match exit(&reply) {
                Exit::Done => _ = entities.insert((*id).to_owned(), reply.body),
                Exit::Gone => {}
                _ => return Err(stop(&reply)),
            }
        }
        let is_there = |said: &&DesiredOverride| match &said.key {
            Some(DesiredKey::Entity(id)) => entities.contains_key(id),
            _ => true,
        };
        let asked = desired.overrides.iter().filter(is_there).map(exact);
        let mut answers = all(client, asked, &mut progress).await?.into_iter();
        let mut overrides = Vec::with_capacity(desired.overrides.len());
        for said in &desired.overrides {
            let reply = if is_there(&said) {
                answers.next()
            } else {
                None
            };
            let found = reply.map(|reply| match reply.is_success() {
                true => Ok(reply.body["overrides"].get(0).cloned()),
                false => Err(at(&stop(&reply), path, said.line)),
            });
            overrides.push(found.transpose()?.flatten());
        }
        let mut policies = client.done(Exchange::get("/v1/policies")).await?.body;
        let policies = match policies["policies"].take() {
            Value::Array(policies) => policies,
            _ => Vec::new(),
        };
        Ok(Self {
            entities,
            overrides,
            policies,
        })
    }
}

/// That something went wrong with what stands on this line.
pub fn at(stop: &Stop, path: &Path, line: usize) -> Stop {
    Stop::new(stop.exit, format!("{stop}\n --> {}:{line}", path.display()))
}

/// The ids of all entities that a file names.
fn named(desired: &DesiredState) -> BTreeSet<&str> {
    let own = desired.entities.iter().map(|entity| &*entity.id);
    let parents = desired
        .entities
        .iter()
        .filter_map(|one| one.parent.as_deref());
    let limited = desired.overrides.iter().filter_map(|one| match &one.key {
        Some(DesiredKey::Entity(id)) => Some(&**id),
        _ => None,
    });
    own.chain(parents).chain(limited).collect()
}

/// The one of exactly this place.
fn exact(said: &DesiredOverride) -> Exchange {
    let mut query = place(said);
    query.push(("exact", "true"));
    Exchange::get(OVERRIDES).query(&query)
}

/// What it is for, as the server is told.
pub fn place(said: &DesiredOverride) -> Vec<(&str, &str)> {
    let policy = said.policy.as_deref().map(|policy| ("policy", policy));
    let key = said.key.as_ref().map(|key| match key {
        DesiredKey::Text(key) => ("key", &**key),
        DesiredKey::Base64(key) => ("key_base64", &**key),
        DesiredKey::Entity(id) => ("entity", &**id),
    });
    policy.into_iter().chain(key).collect()
}

/// Asks all of this, a few at once; the answers are in the order of the questions.
async fn all(
    client: &Client,
    asked: impl Iterator<Item = Exchange>,
    progress: &mut Progress,
) -> Outcome<Vec<Reply>> {
    let (mut asked, mut under_way) = (asked.enumerate(), JoinSet::new());
    let mut answers = Vec::new();
    loop {
        while under_way.len() < AT_ONCE
            && let Some((nth, exchange)) = asked.next()
        {
            let client = client.clone();
            under_way.spawn(async move { (nth, client.ask(exchange).await) });
        }
        let Some(answered) = under_way.join_next().await else {
            break;
        };
        let (nth, reply) = answered.map_err(Stop::failed)?;
        answers.push((nth, reply?));
        progress.tick();
    }
    answers.sort_by_key(|(nth, _)| *nth);
    Ok(answers.into_iter().map(|(_, reply)| reply).collect())
}
