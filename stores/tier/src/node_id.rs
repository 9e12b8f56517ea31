//! Which process holds what was taken in advance: it stands in the ids of its leases.

use std::fmt;
use std::sync::OnceLock;

/// The upper half of the id of each lease that is a grant: no other has it, but once in 2^64.
const MARK: u64 = 0x6772_616e_742e_7467;

/// That of the id of each that holds slots, which leases of a node's callers are of.
const SLOTS_MARK: u64 = 0x736c_6f74_732e_7467;

/// How many bits of an id tell one lease of a node from another.
const OWN_BITS: u32 = 40;

/// What tells a process from others that take units in advance of the same store: 24 bits, drawn
/// when it begins. Of 100 processes two have the same once in 3,400 fleets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// That of this process.
    #[must_use]
    pub fn here() -> Self {
        static HERE: OnceLock<NodeId> = OnceLock::new();
        *HERE.get_or_init(|| Self(fastrand::u32(..) >> 8))
    }

    /// That of the node whose lease this is; `None`: it is no lease of what a node took in advance.
    #[must_use]
    pub const fn of_lease(id: u128) -> Option<Self> {
        match (id >> 64) as u64 {
            MARK | SLOTS_MARK => Some(Self((id as u64 >> OWN_BITS) as u32)),
            _ => None,
        }
    }
}

/// As six hexadecimal digits.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

/// Whether a lease of this id is a grant of some node, without slots.
#[must_use]
pub const fn is_grant(id: u128) -> bool {
    (id >> 64) as u64 == MARK
}

/// The id of a new lease of this node.
pub(crate) fn fresh(has_slots: bool) -> u128 {
    let mark = if has_slots { SLOTS_MARK } else { MARK };
    let own = fastrand::u64(..) >> (u64::BITS - OWN_BITS);
    let low = u64::from(NodeId::here().0) << OWN_BITS | own;
    (u128::from(mark) << 64) | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_tells_its_node_and_whether_it_is_a_grant() {
        for has_slots in [false, true] {
            let (one, other) = (fresh(has_slots), fresh(has_slots));
            assert_ne!(one, other);
            assert_eq!(NodeId::of_lease(one), Some(NodeId::here()));
            assert_eq!(is_grant(one), !has_slots);
        }
        assert_eq!(NodeId::of_lease(7), None);
        assert_eq!(NodeId(0x1f).to_string(), "00001f");
    }
}
