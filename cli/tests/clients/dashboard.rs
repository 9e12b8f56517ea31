//! The dashboard of deploy/grafana asks for what `/metrics` has, and for nothing
//! else: a series that is not there is an empty panel, and nobody is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::server::{Server, folder};

const DASHBOARD: &str = include_str!("../../../deploy/grafana/tidegate.json");

const POLICIES: &str = "
[policy.chat.limits]
calls = { calls = 1, per = '400d', algorithm = 'first_use_window' }
";

/// What one has to be asked for at least.
const WANTED: [&str; 7] = [
    "tidegate_decisions_total",
    "tidegate_refusals_total",
    "tidegate_decision_seconds_bucket",
    "tidegate_wait_seconds_bucket",
    "tidegate_waiting",
    "tidegate_leases",
    "tidegate_denied_keys",
];

/// By name: which labels its series have.
type Series = BTreeMap<String, BTreeSet<String>>;

/// What the server answers, head and all.
fn request(at: SocketAddr, request: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let head = "Host: x\r\nConnection: close\r\nContent-Type: application/json";
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

/// What a server exposes that has admitted, refused and given a lease.
fn exposed() -> Series {
    let folder = folder(POLICIES);
    let server = Server::start(folder.path(), &["--store", "memory:"]);
    let body = |key| format!("{{\"policy\":\"chat\",\"key\":\"{key}\"}}");
    for (verb, key, status) in [
        ("check", "a", " 200 "),
        ("check", "a", " 429 "),
        ("acquire", "b", " 200 "),
    ] {
        let answer = request(server.http, &format!("POST /v1/{verb}"), &body(key));
        assert!(answer.starts_with(&format!("HTTP/1.1{status}")), "{answer}");
    }
    let text = request(server.http, "GET /metrics", "");
    let (_, text) = text.split_once("\r\n\r\n").expect("a body");
    let mut series = Series::new();
    for line in text.lines().filter(|line| line.starts_with("tidegate_")) {
        let name = words(line).next().expect("a name").0;
        let labels = words(&line[name.len()..]).filter(|(_, rest)| rest.starts_with("=\""));
        let known = series.entry(name.to_owned()).or_default();
        known.extend(labels.map(|(label, _)| label.to_owned()));
    }
    series
}

/// The words of a text, each with what comes after it.
fn words(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = &rest[rest.find(is_of_word)?..];
        let end = word.find(|c| !is_of_word(c)).unwrap_or(word.len());
        rest = &word[end..];
        Some((&word[..end], rest))
    })
}

/// The labels that an expression selects or groups by.
fn labels(expression: &str) -> BTreeSet<&str> {
    let selected = words(expression).filter(|(_, rest)| rest.starts_with('='));
    let selected = selected.map(|(word, _)| word);
    let groups = expression.split(" by (").skip(1);
    let groups = groups.filter_map(|rest| rest.split(')').next());
    let grouped = groups.flat_map(|group| group.split(", "));
    selected.chain(grouped).collect()
}

/// Every text that is called `expr` or `definition`.
fn expressions(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let is_one = |name: &str| name == "expr" || name == "definition";
            let of = |(name, value): (&String, &'_ Value)| is_one(name) && value.is_string();
            let here = fields.iter().filter(|&field| of(field));
            let here = here.filter_map(|(_, value)| value.as_str());
            here.chain(fields.values().flat_map(expressions)).collect()
        }
        Value::Array(values) => values.iter().flat_map(expressions).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_dashboard_asks_for_what_the_server_exposes() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let (series, mut asked) = (exposed(), BTreeSet::new());
    for expression in expressions(&dashboard) {
        let names = words(expression).filter(|(word, _)| word.starts_with("tidegate_"));
        let names: Vec<_> = names.map(|(word, _)| word).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            let known = series.get(name);
            let known = known.unwrap_or_else(|| panic!("{name} is not exposed: {expression}"));
            let unknown: Vec<_> = labels(expression)
                .into_iter()
                .filter(|label| !known.contains(*label))
                .collect();
            assert!(
                unknown.is_empty(),
                "{name} has no {unknown:?}: {expression}"
            );
            asked.insert(name);
        }
    }
    for name in WANTED {
        assert!(asked.contains(name), "no panel shows {name}");
    }
}

#[test]
fn the_labels_of_an_expression_are_found() {
    let expression = "sum by (policy, le) (rate(a{outcome=\"refused\",key=~\"$policy\"}[1m]))";
    let found: Vec<_> = labels(expression).into_iter().collect();
    assert_eq!(found, ["key", "le", "outcome", "policy"]);
}
