//! How a lease ends.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tidegate::Outcome;

use crate::named::Named;
use crate::quantity::Quantity;
use crate::request::as_millis;

/// What is reported at the end of a lease: what was used, and how the work went.
///
/// Amounts by limit are one, too: `[("tpm", 3_120)]`. A limit that is not named was used as
/// taken.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    #[serde(skip_serializing_if = "Named::is_empty")]
    used: Named<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Quantity>,
    #[serde(serialize_with = "word", skip_serializing_if = "has_succeeded")]
    outcome: Outcome,
    #[serde(
        rename = "cool_down_ms",
        serialize_with = "as_millis",
        skip_serializing_if = "Option::is_none"
    )]
    cool_down: Option<Duration>,
}

impl Report {
    /// The work succeeded, and used what was taken.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So much of this limit was used.
    #[must_use]
    pub fn used(mut self, limit: impl Into<String>, used: impl Into<Quantity>) -> Self {
        self.used.insert(limit, used.into());
        self
    }

    /// What was used of this limit, if that was said.
    pub(crate) fn of(&self, limit: &str) -> Option<&Quantity> {
        self.used.get(limit)
    }

    /// So much was used of every rate and budget that is not named.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Quantity>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    /// How the work went. After [`Outcome::Dropped`] (its provider has refused) a pool passes
    /// over the member that gave the lease, for as long as its policy says.
    #[must_use]
    pub const fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = outcome;
        self
    }

    /// The provider has refused: the pool passes over that member for so long.
    #[must_use]
    pub const fn cool_down(mut self, length: Duration) -> Self {
        self.cool_down = Some(length);
        self
    }
}

impl<N: Into<String>, A: Into<Quantity>, const M: usize> From<[(N, A); M]> for Report {
    fn from(used: [(N, A); M]) -> Self {
        let used = used.into_iter();
        Self {
            used: used.map(|(name, used)| (name, used.into())).collect(),
            ..Self::default()
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's")]
fn has_succeeded(outcome: &Outcome) -> bool {
    *outcome == Outcome::Succeeded
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's")]
fn word<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match outcome {
        Outcome::Succeeded => "succeeded",
        Outcome::Ignored => "ignored",
        Outcome::Dropped => "dropped",
    })
}
