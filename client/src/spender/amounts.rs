//! How much is spent.

use crate::named::Named;
use crate::quantity::Quantity;
use crate::request::Request;

/// How much of which limits: by name, and a cost of every rate and budget that is not named, as
/// in a [`Request`]. A limit of calls that is not named is taken at 1.
///
/// `()` is one call, of a policy that limits calls alone; a number is a cost; amounts by limit are
/// one, too: `[("tpm", 1_200)]`.
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

    /// Whether it may take of this limit, for all that is known of it.
    pub(super) fn may_take(&self, name: &str) -> bool {
        let names_all = !self.named.is_empty() && self.cost.is_none();
        !names_all || self.named.get(name).is_some()
    }

    /// Whether it takes as much as `least` of each limit, or more.
    pub(super) fn is_at_least(&self, least: &Self) -> bool {
        let is_at_least = |amount: Option<&Quantity>, least: &Quantity| match (amount, least) {
            (Some(Quantity::Whole(amount)), Quantity::Whole(least)) => amount >= least,
            (amount, least) => amount == Some(least),
        };
        let mut named = least.named.iter();
        let cost = least.cost.as_ref();
        named.all(|(name, least)| is_at_least(self.named.get(name), least))
            && cost.is_none_or(|cost| is_at_least(self.cost.as_ref(), cost))
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
