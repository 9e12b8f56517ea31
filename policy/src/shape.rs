//! What a policy says, as plain values in the shape of its file: to be shown,
//! sent and read again.

use std::fmt;

use super::tree::{Node, Value};

/// A value of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Shape {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i128),
    /// `true` or `false`.
    Flag(bool),
    /// Values in order.
    List(Vec<Self>),
    /// Named values, in the order of the file.
    Table(Vec<(String, Self)>),
}

impl Shape {
    /// The value of a sound file. (What no setting accepts is no part of one.)
    pub(super) fn of(node: &Node) -> Self {
        match &node.value {
            Value::Text(text) => Self::Text(text.clone()),
            Value::Integer { number, .. } => Self::Integer(*number),
            Value::Flag(flag) => Self::Flag(*flag),
            Value::List(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Table(entries) => {
                let named = entries.iter();
                Self::Table(
                    named
                        .map(|entry| (entry.name.clone(), Self::of(&entry.node)))
                        .collect(),
                )
            }
            Value::Nothing | Value::Float(_) | Value::Date(_) => Self::Text(String::new()),
        }
    }

    /// The names of a table, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let entries = match self {
            Self::Table(entries) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().map(|(name, _)| name.as_str())
    }

    /// The value called `name`, of a table.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Table(entries) => {
                let found = entries.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value)
            }
            _ => None,
        }
    }
}

/// As it is written, more or less: for people.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                write!(f, "[{}]", items.join(", "))
            }
            Self::Table(entries) => {
                let entries = entries.iter();
                let entries: Vec<String> = entries
                    .map(|(name, value)| format!("{name} = {value}"))
                    .collect();
                write!(f, "{{ {} }}", entries.join(", "))
            }
        }
    }
}
