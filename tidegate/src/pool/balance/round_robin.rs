//! Each in turn.

use super::balancer::Balancer;
use crate::pool::Member;

pub(super) struct RoundRobin;

impl Balancer for RoundRobin {
    fn order(&self, members: &mut [&Member], turn: u64) {
        let first = turn % members.len().max(1) as u64;
        members.rotate_left(first as usize);
    }
}
