//! As they were added.

use super::balancer::Balancer;
use crate::pool::Member;

/// They stand as they were added already.
pub(super) struct FirstAvailable;

impl Balancer for FirstAvailable {
    fn order(&self, _: &mut [&Member], _: u64) {}
}
