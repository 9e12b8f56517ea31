//! How a namespace is, and how many there are.

/// So many namespaces are kept at most, those that are deleted among them.
pub(super) const MOST: usize = 1_000;

/// How a namespace is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamespaceState {
    /// It is in use.
    Active,
    /// It answers nobody, and keeps what it has.
    Deleted,
    /// What it has is being removed.
    Purging,
}

impl NamespaceState {
    /// A word for it that never changes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deleted => "deleted",
            Self::Purging => "purging",
        }
    }

    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Active => 1,
            Self::Deleted => 2,
            Self::Purging => 3,
        }
    }

    pub(super) const fn of_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Active),
            2 => Some(Self::Deleted),
            3 => Some(Self::Purging),
            _ => None,
        }
    }
}
