//! A name that no member of a pool has.

use super::kind::ErrorKind;

/// The pool has no member of that name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
#[error("there is no member `{name}` here; there is {known}")]
pub struct UnknownMember {
    /// The name asked for.
    pub name: String,
    /// The names there are.
    pub known: String,
}

impl UnknownMember {
    pub(crate) const fn new(name: String, known: String) -> Self {
        Self { name, known }
    }

    /// What it means for its caller: [`ErrorKind::Invalid`].
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}
