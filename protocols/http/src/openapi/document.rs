//! The document: what stands in it once, and every operation.

use serde_json::{Map, Value, json};
use tidegate_policy::LONGEST_NAMESPACE;

use crate::openapi::operation::Operation;
use crate::openapi::schema::Schemas;
use crate::openapi::{headers, problems};

const DESCRIPTION: &str = "\
Limits for everything that runs out (calls, tokens, money, connections, slots), taken together, \
all or nothing.

Three things are kept apart: *not now* (429, with the exact instant), *not ever* (422), *cannot \
tell* (503). An error is `application/problem+json` with a `code` that never changes. A member \
that is unknown, or null, is an error, and so is an unknown query parameter of a path that has \
any.

Amounts are whole numbers from 0 to 2^53 - 1, in the limit's own unit.";

/// The document of these operations, as it is served and kept in `openapi.json`.
pub(crate) fn document(operations: &[Operation]) -> String {
    let mut schemas = Schemas::new();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let (path, method, described) = operation.describe(&mut schemas);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method] = described;
    }
    let responses = problems::all(&mut schemas);
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "May this work start now, and how much may it use?",
            "description": DESCRIPTION,
            "license": {
                "name": "MIT OR Apache-2.0",
                "identifier": "MIT OR Apache-2.0",
            },
        },
        "servers": [{"url": "/", "description": "This server."}],
        "security": [{"token": []}, {}],
        "tags": [
            {"name": "decide", "description": "May it start?"},
            {"name": "lease", "description": "What is held, and what becomes of it."},
            {"name": "observe", "description": "Look; nothing changes."},
            {"name": "administer", "description": "Change what is kept."},
            {"name": "operate", "description": "For operators."},
        ],
        "paths": paths,
        "components": {
            "schemas": schemas.named(),
            "responses": responses,
            "headers": headers::all(),
            "parameters": {"Headers": {
                "name": "headers",
                "in": "query",
                "description": "Which rate-limit header fields to answer with: the IETF's, or \
                    `X-RateLimit-*` too.",
                "schema": {"type": "string", "enum": ["standard", "legacy"]},
            }, "Namespace": {
                "name": "Tidegate-Namespace",
                "in": "header",
                "description": "The namespace in which the request is answered. A token for one \
                    namespace is in that one anyway, and in no other (403).",
                "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAMESPACE},
                "example": "acme",
            }},
            "securitySchemes": {"token": {
                "type": "http",
                "scheme": "bearer",
                "description": "A token with scopes (`decide`, `observe`, `administer`), for \
                    some policies or all. Without tokens in its configuration, the server lets \
                    everyone in.",
            }},
        },
    });
    let mut text = String::new();
    write(&document, 0, 0, &mut text);
    text.push('\n');
    text
}

/// How long a line may be.
const WIDTH: usize = 100;

/// Writes a value on one line if it fits behind `before`, else its members on one each.
fn write(value: &Value, depth: usize, before: usize, text: &mut String) {
    let line = line(value);
    let is_short = before + line.len() <= WIDTH;
    match value {
        Value::Object(members) if !is_short => {
            let members = members
                .iter()
                .map(|(name, value)| (format!("\"{name}\": "), value));
            write_all(['{', '}'], members, depth, text);
        }
        Value::Array(items) if !is_short => {
            let items = items.iter().map(|item| (String::new(), item));
            write_all(['[', ']'], items, depth, text);
        }
        _ => text.push_str(&line),
    }
}

fn line(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| format!("\"{name}\": {}", line(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!(
                "[{}]",
                items.iter().map(line).collect::<Vec<_>>().join(", ")
            )
        }
        value => value.to_string(),
    }
}

fn write_all<'v>(
    [begin, end]: [char; 2],
    parts: impl Iterator<Item = (String, &'v Value)>,
    depth: usize,
    text: &mut String,
) {
    text.push(begin);
    let inside = "  ".repeat(depth + 1);
    for (nth, (name, value)) in parts.enumerate() {
        text.push_str(if nth > 0 { ",\n" } else { "\n" });
        text.push_str(&inside);
        text.push_str(&name);
        // And a comma.
        write(value, depth + 1, inside.len() + name.len() + 1, text);
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(end);
}

#[cfg(test)]
mod tests {
    use super::document;
    use crate::router::operations;

    /// Set, the file is written anew: `cargo xtask openapi`.
    const WRITE: &str = "TIDEGATE_WRITE_OPENAPI";

    #[test]
    fn the_file_is_the_document_of_the_types() {
        let made = document(&operations().collect::<Vec<_>>());
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(file, &made).expect("the file is written");
        }
        let kept = std::fs::read_to_string(file).expect("the file is there");
        let differs = made.lines().zip(kept.lines()).position(|(a, b)| a != b);
        assert!(
            made == kept,
            "openapi.json is of older types (line {:?}); `cargo xtask openapi` writes it",
            differs.map(|line| line + 1)
        );
    }
}
