//! The balancers there are.

use super::balancer::Balancer;
use super::first_available::FirstAvailable;
use super::least_loaded::LeastLoaded;
use super::random::Random;
use super::round_robin::RoundRobin;
use super::weighted::Weighted;

/// The balancers there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Balance {
    /// Each in turn. Weights do not matter.
    #[default]
    RoundRobin,
    /// In an order drawn anew for each request, every order as likely as another;
    /// the same again for the same [seed](crate::LimitPoolBuilder::seed).
    Random,
    /// By the leases that the pool has outstanding at a member, the one to come
    /// included, for each unit of its weight: `(load + 1) / weight`, compared
    /// exactly, the smaller first; equals in turn.
    LeastLoaded,
    /// As they were added: the second only if the first does not admit.
    FirstAvailable,
    /// In proportion to the weights and evenly spread: of weights 5, 1 and 1
    /// the turns are `a a b a c a a`. This is nginx's smooth weighted round
    /// robin: every turn, each member's credit grows by its weight; the largest
    /// goes first and pays the sum of all weights.
    Weighted,
}

impl Balance {
    /// What a pool of members with these weights has if it does not say: in turn, or, if
    /// they differ, by weight.
    #[must_use]
    pub fn of_weights(weights: impl IntoIterator<Item = u32>) -> Self {
        let mut weights = weights.into_iter();
        let first = weights.next();
        match weights.all(|weight| Some(weight) == first) {
            true => Self::RoundRobin,
            false => Self::Weighted,
        }
    }

    /// The balancer for `members` members.
    pub(in crate::pool) fn balancer(self, members: usize, seed: u64) -> Box<dyn Balancer> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin),
            Self::Random => Box::new(Random::new(seed)),
            Self::LeastLoaded => Box::new(LeastLoaded),
            Self::FirstAvailable => Box::new(FirstAvailable),
            Self::Weighted => Box::new(Weighted::new(members)),
        }
    }
}
