//! Server-sent events.

use serde_json::Value;

/// An event without a name.
pub fn plain(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An event with one.
pub fn named(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
