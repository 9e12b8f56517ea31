//! What puts members in order.

use crate::pool::Member;

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
    /// tried for this request.
    ///
    /// `turn` counts the requests of one handle of the pool, from its
    /// [offset](crate::LimitPool::with_offset) (0 if it was given none).
    fn order(&self, members: &mut [&Member], turn: u64);
}
