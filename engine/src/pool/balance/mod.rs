//! Who is tried first: one file for each way.
//!
//! A balancer puts members in order and takes nothing; the pool tries them in
//! that order, and the first that admits serves. Whoever cools down is not
//! among them.

mod least_loaded;
mod random;
mod round_robin;
mod weighted;

use super::Member;
use least_loaded::LeastLoaded;
use random::Random;
use round_robin::RoundRobin;
use weighted::Weighted;

/// Puts a pool's members in the order in which they are tried.
///
/// It is called once for every ask that takes anything, from any thread, and
/// must neither block nor ask a member for anything: it orders, and the sets
/// decide.
///
/// ```
/// use tidegate::{Balancer, Member};
///
/// /// The longest name first.
/// struct Longest;
///
/// impl Balancer for Longest {
///     fn order(&self, members: &mut [&Member], _turn: u64) {
///         members.sort_by_key(|member| std::cmp::Reverse(member.name().len()));
///     }
/// }
/// ```
pub trait Balancer: Send + Sync {
    /// Reorders `members`: those of the pool that do not cool down, at first as
    /// they were added; at least one. A member that is written over is not
    /// tried for this ask.
    ///
    /// `turn` counts the asks of one handle of the pool, from its
    /// [offset](super::LimitPool::with_offset) (0 if it was given none).
    fn order(&self, members: &mut [&Member], turn: u64);
}

/// The balancers there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Balance {
    /// Each in turn. Weights do not matter.
    #[default]
    RoundRobin,
    /// In an order drawn anew for each ask, every order as likely as another;
    /// the same again for the same [seed](super::LimitPoolBuilder::seed).
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
    /// The balancer for `members` members.
    pub(super) fn balancer(self, members: usize, seed: u64) -> Box<dyn Balancer> {
        match self {
            Self::RoundRobin => Box::new(RoundRobin),
            Self::Random => Box::new(Random::new(seed)),
            Self::LeastLoaded => Box::new(LeastLoaded),
            Self::FirstAvailable => Box::new(FirstAvailable),
            Self::Weighted => Box::new(Weighted::new(members)),
        }
    }
}

/// They stand as they were added already.
struct FirstAvailable;

impl Balancer for FirstAvailable {
    fn order(&self, _: &mut [&Member], _: u64) {}
}
