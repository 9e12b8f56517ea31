//! How much is spent.

use crate::named::Named;
use crate::quantity::Quantity;
use crate::request::Request;

/// How much of which limits: by name, and a cost of every rate and budget that is not named, as
/// in a [`Request`]. A limit of calls that is not named is taken at 1.
///
/// `()` is one call; a number is a cost; amounts by limit are one, too: `[("tpm", 1_200)]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Amounts {
    pub(super) named: Named<Quantity>,
    pub(super) cost: Option<Quantity>,
}

impl Amounts {
    /// One call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// So much of the limit of this name.
    #[must_use]
    pub fn amount(mut self, limit: impl Into<String>, amount: impl Into<Quantity>) -> Self {
        self.named.insert(limit, amount.into());
        self
    }

    /// So much of every rate and budget that is not named.
    #[must_use]
    pub fn cost(mut self, cost: impl Into<Quantity>) -> Self {
        self.cost = Some(cost.into());
        self
    }

    /// As a request of its own.
    pub(super) fn of(&self, mut request: Request) -> Request {
        for (name, amount) in self.named.iter() {
            request = request.amount(name, amount.clone());
        }
        match &self.cost {
            Some(cost) => request.cost(cost.clone()),
            None => request,
        }
    }
}

impl From<()> for Amounts {
    fn from((): ()) -> Self {
        Self::new()
    }
}

impl From<u64> for Amounts {
    fn from(cost: u64) -> Self {
        Self::new().cost(cost)
    }
}

impl<N: Into<String>, A: Into<Quantity>, const M: usize> From<[(N, A); M]> for Amounts {
    fn from(amounts: [(N, A); M]) -> Self {
        let amounts = amounts.into_iter();
        Self {
            named: amounts
                .map(|(name, amount)| (name, amount.into()))
                .collect(),
            cost: None,
        }
    }
}
