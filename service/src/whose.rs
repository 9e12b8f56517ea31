//! Whose limits a request is about.

use tidegate::Key;

/// Whose limits are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose<'a> {
    /// Those of a key.
    Key(&'a [u8]),
    /// Those of an entity, by its id: the store knows its ancestors.
    Entity(&'a str),
}

impl Default for Whose<'_> {
    fn default() -> Self {
        Self::Key(&[])
    }
}

impl<'a> From<&'a [u8]> for Whose<'a> {
    fn from(key: &'a [u8]) -> Self {
        Self::Key(key)
    }
}

impl<'a> From<Key<'a>> for Whose<'a> {
    fn from(key: Key<'a>) -> Self {
        Self::Key(key.bytes())
    }
}
