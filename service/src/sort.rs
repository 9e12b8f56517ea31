//! What happens to a thing when policies are exchanged.

/// What happens to a thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    /// It was not there.
    Added,
    /// It is no longer there.
    Removed,
    /// More is granted.
    Raised,
    /// Less is granted.
    Lowered,
    /// It is another.
    Changed,
}

impl Sort {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::Added,
        Self::Removed,
        Self::Raised,
        Self::Lowered,
        Self::Changed,
    ];

    /// A word for it that never changes: for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Raised => "raised",
            Self::Lowered => "lowered",
            Self::Changed => "changed",
        }
    }

    /// A sign for it, as in a diff.
    #[must_use]
    pub const fn sign(self) -> char {
        match self {
            Self::Added => '+',
            Self::Removed => '-',
            Self::Raised | Self::Lowered | Self::Changed => '~',
        }
    }
}
