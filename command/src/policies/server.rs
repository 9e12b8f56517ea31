//! A server's policies, and others sent to it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, json};
use tidegate_client::{Exchange, Reply};
use tidegate_policy::{Language, PolicyFile, parse};

use super::files::Sent;
use super::table::Row;
use crate::client::{Client, stop};
use tidegate_server::trouble::{Outcome, Trouble};

const PATH: &str = "/v1/policies";

/// What a server has now, as far as the token may see it.
pub async fn policies(client: &Client) -> Outcome<PolicyFile> {
    let reply = client.done(Exchange::get(PATH)).await?;
    let strange =
        || Trouble::failure("the server's policies cannot be read: it is another version");
    let shown = reply.body["policies"].as_array().ok_or_else(strange)?;
    let mut written = Map::new();
    for policy in shown {
        let name = policy["name"].as_str().ok_or_else(strange)?;
        written.insert(name.to_owned(), policy["written"].clone());
    }
    if written.is_empty() {
        return Err(Trouble::failure(
            "this token may see no policy of the server: those that it is for are not there",
        ));
    }
    // JSON is YAML: the server's answer is read as any other file.
    let text = json!({"policy": written}).to_string();
    parse("the server.json", &text).map_err(Trouble::failure)
}

/// Sends the policies of `file`; answers what was changed.
pub async fn apply(client: &Client, file: &Path, sent: Sent) -> Outcome<Vec<Row>> {
    let kind = match Language::of(&sent.name) {
        Language::Yaml => "application/yaml",
        _ => "application/toml",
    };
    let reply = client.ask(Exchange::put(PATH, kind, sent.text)).await?;
    if !reply.is_success() {
        return Err(refused(file, &reply));
    }
    let changes = reply.body["changes"].as_array();
    Ok(changes.into_iter().flatten().map(Row::from).collect())
}

/// The server's faults, each at its place in our file.
fn refused(file: &Path, reply: &Reply) -> Trouble {
    let faults = reply.body["faults"].as_array();
    let mut words = stop(reply).to_string();
    for fault in faults.into_iter().flatten() {
        let text = |name: &str| fault[name].as_str().unwrap_or_default();
        let (message, help) = (text("message"), text("help"));
        let (line, column) = (&fault["line"], &fault["column"]);
        let at = file.display();
        // Writing to a string does not fail.
        let _ = write!(
            words,
            "\n\n{message}\n --> {at}:{line}:{column}\n  = {help}"
        );
    }
    Trouble::failure(words)
}
