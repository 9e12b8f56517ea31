//! The one with the least outstanding for its weight.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::balancer::Balancer;
use super::round_robin::RoundRobin;
use crate::pool::Member;

pub(super) struct LeastLoaded;

impl Balancer for LeastLoaded {
    fn order(&self, members: &mut [&Member], turn: u64) {
        // Equals in turn, or work that is done at once would all go to the first.
        RoundRobin.order(members, turn);
        // Read once each: a sort needs loads that stand still.
        let loads = members.iter().map(|member| (*member, member.load()));
        let mut loaded: SmallVec<[(&Member, u64); 8]> = loads.collect();
        loaded.sort_by(lighter);
        for (place, (member, _)) in members.iter_mut().zip(loaded) {
            *place = member;
        }
    }
}

/// `(load + 1) / weight`, compared by multiplying crosswise: exact.
fn lighter((a, load_a): &(&Member, u64), (b, load_b): &(&Member, u64)) -> Ordering {
    let after = |load: &u64, other: &Member| (u128::from(*load) + 1) * u128::from(other.weight());
    after(load_a, b).cmp(&after(load_b, a))
}
