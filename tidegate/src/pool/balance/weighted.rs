//! Smooth weighted round robin, as nginx does it
//! (`ngx_http_upstream_get_peer` in `ngx_http_upstream_round_robin.c`).

use std::cmp::Reverse;

use tidegate_store::sync::Mutex;

use super::balancer::Balancer;
use crate::pool::Member;

/// Each member's credit, by position. They add up to 0, so that none drifts
/// away; those who are absent neither gain nor pay.
pub(super) struct Weighted(Mutex<Box<[i64]>>);

impl Weighted {
    pub(super) fn new(members: usize) -> Self {
        Self(Mutex::new(vec![0; members].into()))
    }
}

impl Balancer for Weighted {
    fn order(&self, members: &mut [&Member], _: u64) {
        let mut credits = self.0.lock();
        let mut total = 0;
        for member in members.iter() {
            let weight = i64::from(member.weight());
            credits[member.position()] += weight;
            total += weight;
        }
        members.sort_by_key(|member| Reverse(credits[member.position()]));
        // The first pays even if another serves in its place: a full member
        // would else save up for a burst.
        if let Some(first) = members.first() {
            credits[first.position()] -= total;
        }
    }
}
