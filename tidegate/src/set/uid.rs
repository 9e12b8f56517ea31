//! What tells one limit of a set from another, across changes and processes.

use tidegate_store::PlanLimit;

use crate::limit::Limit;

/// No uid is greater, so that a store may keep one in a signed number of 32 bits.
const MOST: u32 = i32::MAX as u32;

/// FNV-1a of 32 bits (G. Fowler, L. C. Noll, K.-P. Vo): its basis and its prime.
const FNV: (u32, u32) = (0x811c_9dc5, 0x0100_0193);

/// Gives `limits` their uids: those whose names are `known` keep theirs.
///
/// A new one is a function of the limit's name, and of nothing that this process has
/// seen before: processes number alike, whatever their age, also where the store has
/// forgotten by what limits it was asked. So a limit that was removed and comes back by
/// its old name is the same limit; what was used of it is gone with its rows.
pub(super) fn numbered(
    limits: Vec<Limit>,
    known: impl Fn(&str) -> Option<u32>,
) -> Vec<(u32, Limit)> {
    let mut taken: Vec<u32> = limits.iter().filter_map(|l| known(l.name())).collect();
    let number = |limit: Limit| {
        let uid = known(limit.name()).unwrap_or_else(|| {
            let uid = free_from(hash(limit.name()), &taken);
            taken.push(uid);
            uid
        });
        (uid, limit)
    };
    limits.into_iter().map(number).collect()
}

/// The uid that the limit called `name` has among these.
pub(super) fn uid_in(limits: &[PlanLimit], name: &str) -> Option<u32> {
    let found = limits.iter().find(|limit| *limit.name == *name);
    found.map(|limit| limit.uid)
}

/// The first that is not taken, from `uid` on.
fn free_from(mut uid: u32, taken: &[u32]) -> u32 {
    while taken.contains(&uid) {
        uid = if uid == MOST { 0 } else { uid + 1 };
    }
    uid
}

fn hash(name: &str) -> u32 {
    let (basis, prime) = FNV;
    let hash = name.bytes().fold(basis, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(prime)
    });
    hash & MOST
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn uids(names: &[&str], known: &[(&str, u32)]) -> Vec<u32> {
        let limit = |name: &&str| Limit::calls(*name, 1, Duration::from_secs(1));
        let limits = names.iter().map(limit).collect();
        let known = |name: &str| known.iter().find(|(n, _)| *n == name).map(|(_, uid)| *uid);
        let numbered = numbered(limits, known);
        numbered.into_iter().map(|(uid, _)| uid).collect()
    }

    #[test]
    fn a_limit_has_the_same_uid_whatever_stands_beside_it() {
        let [rate, gpu] = uids(&["rate", "gpu"], &[])[..] else {
            panic!("two")
        };
        assert_eq!(uids(&["gpu"], &[]), [gpu]);
        assert_eq!(uids(&["gpu", "other", "rate"], &[])[2], rate);
        assert_eq!(uids(&["gpu"], &[("gpu", 7)]), [7]);
    }

    #[test]
    fn no_two_limits_have_one_uid() {
        let [rate] = uids(&["rate"], &[])[..] else {
            panic!("one")
        };
        assert_eq!(uids(&["rate", "gpu"], &[("gpu", rate)]), [rate + 1, rate]);
        assert_eq!(free_from(MOST, &[MOST, 0]), 1);
        // Published test values of FNV-1a.
        assert_eq!(hash(""), 0x811c_9dc5 & MOST);
        assert_eq!(hash("a"), 0xe40c_292c & MOST);
        assert_eq!(hash("foobar"), 0xbf9c_f968 & MOST);
    }
}
