//! What a token is good for.

use std::fmt;

/// What a token is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Asking, settling, releasing: whatever takes or gives back.
    Decide,
    /// Changing policies and overrides, resetting keys, revoking leases.
    Administer,
    /// Looking: peeks, forecasts, policies, metrics.
    Observe,
    /// Using the store that a server offers as one's own (`offers_store`): whatever is kept
    /// there for others, and nothing of the server's own policies.
    Store,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Decide, Self::Administer, Self::Observe, Self::Store];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Administer => "administer",
            Self::Observe => "observe",
            Self::Store => "store",
        }
    }

    /// The scope of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
