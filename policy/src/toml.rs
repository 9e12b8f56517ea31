//! TOML as a tree.

use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue, Error};

use super::fault::Faults;
use super::tree::{Entry, Node, Value};

/// The whole text; nothing if it is no TOML, with every reason why.
pub(super) fn read(text: &str, faults: &mut Faults<'_>) -> Option<Node> {
    let (document, broken) = DeTable::parse_recoverable(text);
    // What a broken text means is a guess, and guesses make false faults.
    match unclosed(text, &broken) {
        Some(place) => faults.add(
            &place,
            format!("this is not TOML: `{}` is not closed", &text[place.clone()]),
            "write what closes it, `}` or `]`, at the end of the limit",
        ),
        None => broken
            .iter()
            .for_each(|error| not_toml(text, error, faults)),
    }
    broken.is_empty().then(|| Node {
        span: document.span(),
        value: table(document.get_ref()),
    })
}

/// The bracket that is not closed, if one is: then what else the reader says is of lines that it took
/// to stand within.
fn unclosed(text: &str, broken: &[Error]) -> Option<Range<usize>> {
    let is_open = |error: &Error| error.message().starts_with("unclosed");
    broken.iter().find(|error| is_open(error))?;
    let first = broken.iter().filter_map(Error::span).map(|span| span.start);
    let before = text.get(..first.min()?)?;
    let at = before.rfind(['{', '['])?;
    Some(at..at + 1)
}

fn not_toml(text: &str, error: &Error, faults: &mut Faults<'_>) {
    let span = error.span().unwrap_or(0..0);
    if let Some((name, place)) = starred(text, span.start) {
        let message = format!("`{name}` has a `*`, and is not in quotes");
        let help = format!("write a name with `*` in quotes: `\"{name}\" = {{ ... }}`");
        return faults.add(&place, message, help);
    }
    let help = match error.message() {
        "duplicate key" => "two of one name: rename one, or remove it",
        _ => "a limit is written `name = { calls = 300, per = \"1m\" }`, with texts in quotes",
    };
    let message = format!("this is not TOML: {}", error.message());
    faults.add(&span, message, help);
}

/// The name with a `*` and without quotes that the line of `at` begins with, and its place.
fn starred(text: &str, at: usize) -> Option<(&str, Range<usize>)> {
    let (before, after) = text.split_at_checked(at)?;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let end = at + after.find('\n').unwrap_or(after.len());
    let (key, _) = text[start..end].split_once('=')?;
    let name = key.trim();
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "-_.*:".contains(letter);
    if !name.contains('*') || !name.chars().all(is_bare) {
        return None;
    }
    let start = start + key.len() - key.trim_start().len();
    Some((name, start..start + name.len()))
}

/// The entries in the order of the file.
fn table(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            name: key.get_ref().to_string(),
            key_span: key.span(),
            node: node(value),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Value::Table(entries)
}

fn node(spanned: &Spanned<DeValue<'_>>) -> Node {
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => Value::Integer {
            number: i128::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(i128::MAX),
            written: integer.to_string(),
        },
        DeValue::Float(float) => Value::Float(float.as_str().to_owned()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(node).collect()),
        DeValue::Table(inner) => table(inner),
    };
    Node {
        span: spanned.span(),
        value,
    }
}
