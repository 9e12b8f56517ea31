//! In an order drawn anew for each request.

use super::balancer::Balancer;
use crate::pool::Member;
use crate::random::SplitMix;

pub(super) struct Random(SplitMix);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }
}

/// Fisher and Yates: each order is as likely as another.
impl Balancer for Random {
    fn order(&self, members: &mut [&Member], _: u64) {
        for last in (1..members.len()).rev() {
            let drawn = self.0.below(last as u64 + 1);
            members.swap(last, drawn as usize);
        }
    }
}
