//! How much a lease is to have taken.

use serde::Serialize;

use crate::named::Named;
use crate::quantity::Quantity;

/// How much a lease is to have taken in all. What is not named stays as it is; 0 gives all of
/// it back. Amounts by limit are one, too: `[("tpm", 6_000)]`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Adjustment {
    #[serde(skip_serializing_if = "Named::is_empty")]
    amounts: Named<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Quantity>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    overdraw: bool,
}

impl Adjustment {
    /// Nothing changes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So much of this limit in all.
    #[must_use]
    pub fn amount(mut self, limit: impl Into<String>, amount: impl Into<Quantity>) -> Self {
        self.amounts.insert(limit, amount.into());
        self
    }

    /// So much in all of every rate and budget that is not named.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Quantity>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    /// It was used already: more is charged even where it does not fit, and is debt.
    #[must_use]
    pub const fn overdraw(mut self) -> Self {
        self.overdraw = true;
        self
    }
}

impl<N: Into<String>, A: Into<Quantity>, const M: usize> From<[(N, A); M]> for Adjustment {
    fn from(amounts: [(N, A); M]) -> Self {
        let amounts = amounts.into_iter();
        Self {
            amounts: amounts
                .map(|(name, amount)| (name, amount.into()))
                .collect(),
            ..Self::default()
        }
    }
}
