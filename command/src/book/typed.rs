//! Commands, as their own program reads them.

use clap::Parser;
use serde_json::Value;

use super::page::repository;
use super::shell::commands;
use crate::args::Cli;

/// Programs of others, whose words nobody here can judge.
const OTHERS: [&str; 22] = [
    "[",
    "./.ci/run",
    "apt-get",
    "cd",
    "cp",
    "createdb",
    "date",
    "echo",
    "exit",
    "export",
    "git",
    "grep",
    "kill",
    "mdbook",
    "pip",
    "psql",
    "redis-server",
    "seq",
    "sleep",
    "systemctl",
    "tar",
    "wait",
];

/// Reads every command of a script.
pub fn script(text: &str) -> Result<(), String> {
    commands(text).iter().try_for_each(|words| command(words))
}

fn command(words: &[String]) -> Result<(), String> {
    match words[0].as_str() {
        "tidegate" => ours(words),
        "cargo" => cargo(words),
        "curl" => curl(words),
        "redis-cli" => redis(words),
        other if OTHERS.contains(&other) => Ok(()),
        other => Err(format!("nobody knows the program `{other}`")),
    }
    .map_err(|error| format!("{}: {error}", words.join(" ")))
}

fn ours(words: &[String]) -> Result<(), String> {
    match Cli::try_parse_from(words) {
        Ok(_) => Ok(()),
        Err(error) if !error.use_stderr() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Our program behind `cargo run`, commands of the project, and packages that there are.
fn cargo(words: &[String]) -> Result<(), String> {
    if words[1] == "xtask" {
        let name = format!("\"{}\"", words[2]);
        let known = repository("xtask/src/main.rs").contains(&name);
        return known
            .then_some(())
            .ok_or_else(|| format!("xtask has no {name}"));
    }
    let after = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1);
    for package in [after("-p"), after("--package")].into_iter().flatten() {
        is_package(package)?;
    }
    match words.iter().position(|word| word == "--") {
        Some(end) if words[1] == "run" => {
            let mut given = vec!["tidegate".to_owned()];
            given.extend_from_slice(&words[end + 1..]);
            ours(&given)
        }
        _ => Ok(()),
    }
}

fn is_package(name: &str) -> Result<(), String> {
    let named = format!("name = \"{name}\"\n");
    let found = repository("Cargo.lock").contains(&named);
    found
        .then_some(())
        .ok_or_else(|| format!("there is no package `{name}`"))
}

/// Whether a path is one of those that the document writes so: `{id}` stands for any segment.
fn is_of(known: &str, path: &str) -> bool {
    let (known, path) = (known.split('/'), path.split('/'));
    let fits = |(known, said): (&str, &str)| known == said || known.starts_with('{');
    known.clone().count() == path.clone().count() && known.zip(path).all(fits)
}

/// A path and a method that the server has, and a body whose members it knows.
fn curl(words: &[String]) -> Result<(), String> {
    let document: Value =
        serde_json::from_str(&repository("protocols/http/openapi.json")).expect("a document");
    let after = |flag: &str| words.iter().skip_while(|word| *word != flag).nth(1);
    let Some((_, path)) = words.iter().find_map(|word| word.split_once(":7400")) else {
        return Err("it asks no server of ours".to_owned());
    };
    let path = path.split('?').next().unwrap_or_default();
    let body = after("-d").or(after("--data"));
    let method = match (after("-X"), body) {
        (Some(method), _) => method.to_lowercase(),
        (None, Some(_)) => "post".to_owned(),
        (None, None) => "get".to_owned(),
    };
    let mut paths = document["paths"].as_object().into_iter().flatten();
    let operation = paths.find(|(known, _)| is_of(known, path));
    let operation = operation.map_or(&Value::Null, |(_, operations)| &operations[&method]);
    if operation.is_null() {
        return Err(format!("the server has no {method} of {path}"));
    }
    let Some(body) = body.filter(|body| body.starts_with('{')) else {
        return Ok(());
    };
    let body: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    let schema = schema.as_str().unwrap_or_default().trim_start_matches('#');
    let known = document.pointer(schema).map(|schema| &schema["properties"]);
    let known = known.expect("a schema");
    let members = body.as_object().expect("an object");
    match members.keys().find(|name| known.get(name).is_none()) {
        Some(name) => Err(format!("{path} has no `{name}`")),
        None => Ok(()),
    }
}

/// A command that the manual of RESP has; a test there holds it against the server's table.
fn redis(words: &[String]) -> Result<(), String> {
    let is_option = |word: &&String| word.starts_with('-') || word.parse::<u16>().is_ok();
    let Some(name) = words[1..].iter().find(|word| !is_option(word)) else {
        return Ok(());
    };
    let manual = repository("docs/reference/resp.md");
    let shown = [format!("`{name} "), format!("`{name}`")];
    let known = shown.iter().any(|shown| manual.contains(shown));
    known
        .then_some(())
        .ok_or_else(|| format!("there is no command {name}"))
}
