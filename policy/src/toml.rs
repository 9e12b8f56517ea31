//! TOML as a tree.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue, Error};

use super::fault::Faults;
use super::tree::{Entry, Node, Value};

/// The whole text; nothing if it is no TOML, with every reason why.
pub(super) fn read(text: &str, faults: &mut Faults<'_>) -> Option<Node> {
    let (document, broken) = DeTable::parse_recoverable(text);
    // What a broken text means is a guess, and guesses make false faults.
    broken.iter().for_each(|error| not_toml(error, faults));
    broken.is_empty().then(|| Node {
        span: document.span(),
        value: table(document.get_ref()),
    })
}

fn not_toml(error: &Error, faults: &mut Faults<'_>) {
    let help = match error.message() {
        "duplicate key" => "two of one name: rename one, or remove it",
        _ => "a limit is written `name = { calls = 300, per = \"1m\" }`, with texts in quotes",
    };
    let message = format!("this is not TOML: {}", error.message());
    faults.add(&error.span().unwrap_or(0..0), message, help);
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
        DeValue::Float(_) => Value::Float,
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => Value::List(items.iter().map(node).collect()),
        DeValue::Table(inner) => table(inner),
    };
    Node {
        span: spanned.span(),
        value,
    }
}
