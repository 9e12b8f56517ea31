//! What a text says, whichever language it is written in; every part knows
//! where it stands. The readers see nothing else, so that there is one rule for
//! all languages.

use std::ops::Range;

/// A value with its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

/// A value.
#[derive(Debug)]
pub(super) enum Value {
    /// Nothing at all, which only YAML knows.
    #[cfg_attr(not(feature = "yaml"), expect(dead_code))]
    Nothing,
    Text(String),
    /// A whole number, also as it was written.
    Integer {
        number: i128,
        written: String,
    },
    /// A number with a point, as it was written.
    Float(String),
    Flag(bool),
    /// A date or an instant without quotes, which only TOML knows.
    Date(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A name in a table, and what it stands for.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Node,
}

impl Value {
    /// What it is, in words.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Nothing => "empty",
            Self::Text(_) => "a string",
            Self::Integer { .. } => "a whole number",
            Self::Float(_) => "a number with a point",
            Self::Flag(_) => "true or false",
            Self::Date(_) => "a date",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}
