//! What a file says, as programs read it.

use serde_json::Value;
use tidegate_policy::Shape;

/// What a file says, as JSON.
pub fn json_of(shape: &Shape) -> Value {
    match shape {
        Shape::Text(text) => text.as_str().into(),
        Shape::Integer(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
        Shape::Flag(flag) => (*flag).into(),
        Shape::List(items) => items.iter().map(json_of).collect(),
        Shape::Table(entries) => {
            let entries = entries
                .iter()
                .map(|(name, shape)| (name.clone(), json_of(shape)));
            Value::Object(entries.collect())
        }
        _ => Value::Null,
    }
}
