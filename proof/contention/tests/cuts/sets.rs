//! Limits at a server, and where a key of theirs stands.

use std::time::Duration;

use tidegate::Select;
use tidegate::{
    Algorithm, Decision, LONGEST_PAGE, LeaseId, Limit, LimitSet, ListedLease, PageOf, Request,
};

/// Half of it is longer than any test; what was renewed has more left than all of it.
pub const LONG: Duration = Duration::from_secs(600);

const HOUR: Duration = Duration::from_secs(3_600);

/// What is asked for.
pub const TEN: &[(&str, u64)] = &[("tokens", 10), ("gpu", 0)];
pub const TEN_AND_A_SLOT: &[(&str, u64)] = &[("tokens", 10), ("gpu", 1)];
pub const TEN_OF_THE_RATE_AND_A_SLOT: &[(&str, u64)] = &[("rate", 10), ("gpu", 1)];

/// The limits at a server, by one way to it.
pub struct Sets {
    /// A budget and slots.
    pub both: LimitSet,
    /// A rate and slots, a rate alone, and slots alone, for which stores have shorter ways.
    pub plain: LimitSet,
    pub rate: LimitSet,
    pub slots: LimitSet,
}

/// A lease of both, one of the rate and slots, and one of slots alone.
#[derive(Clone, Copy)]
pub struct Leases {
    pub both: LeaseId,
    pub plain: LeaseId,
    pub slot: LeaseId,
}

impl Sets {
    pub fn at(url: &str) -> Self {
        let store = tidegate_url::open(url).expect("a server").store;
        let tokens = Limit::budget("tokens", 100, HOUR).algorithm(Algorithm::FirstUseWindow);
        let gpu = Limit::concurrency("gpu", 3).ttl(LONG / 2);
        let rate = Limit::rate("rate", 1, HOUR).burst(100);
        let set = |name, limits: &[Limit]| {
            let set = LimitSet::builder().name(name).store(store.clone());
            set.limits(limits.to_vec()).build().expect("sound limits")
        };
        Self {
            slots: set("slots", std::slice::from_ref(&gpu)),
            both: set("both", &[tokens, gpu.clone()]),
            rate: set("rate", std::slice::from_ref(&rate)),
            plain: set("plain", &[rate, gpu]),
        }
    }

    /// A lease of ten tokens and a slot, one of ten of the rate and a slot, and one of a slot,
    /// each beside another.
    pub fn prepare(&self, key: &str) -> Leases {
        let lease = |set: &LimitSet, ask: &[(&str, u64)]| {
            let lease = set
                .try_acquire(key, Request::named(ask))
                .wait()
                .expect("an answer");
            lease.granted().expect("it is free").detach()
        };
        lease(&self.both, &[("tokens", 1), ("gpu", 1)]);
        lease(&self.plain, &[("rate", 1), ("gpu", 1)]);
        lease(&self.slots, &[("gpu", 1)]);
        Leases {
            plain: lease(&self.plain, TEN_OF_THE_RATE_AND_A_SLOT),
            both: lease(&self.both, TEN_AND_A_SLOT),
            slot: lease(&self.slots, &[("gpu", 1)]),
        }
    }

    pub fn seen(&self, key: &str) -> Seen {
        let peek = |set: &LimitSet| set.peek(key, 1).wait().expect("an answer");
        let left = |peeked: &Decision, name| peeked.standing(name).expect("a standing").remaining;
        let (both, plain) = (peek(&self.both), peek(&self.plain));
        let mut leases = [
            Self::leases(&self.both, key),
            Self::leases(&self.plain, key),
        ];
        leases.iter_mut().for_each(|leases| leases.sort_unstable());
        Seen {
            left: [
                left(&both, "tokens"),
                left(&both, "gpu"),
                left(&plain, "rate"),
                left(&plain, "gpu"),
                left(&peek(&self.rate), "rate"),
                left(&peek(&self.slots), "gpu"),
            ],
            fences: leases.each_ref().map(|leases| {
                let fences = leases.iter().map(|(fence, _)| *fence);
                fences.collect()
            }),
            are_long: leases.map(|leases| leases.into_iter().map(|(_, is_long)| is_long).collect()),
        }
    }

    /// The fence of each, and whether it lasts for long.
    fn leases(set: &LimitSet, key: &str) -> Vec<(u64, bool)> {
        let page = set.list_leases(PageOf {
            select: Select::Key(key.as_bytes()),
            after: None,
            most: LONGEST_PAGE,
        });
        let leases = page.wait().expect("a list").items;
        let lease = |lease: &ListedLease| {
            let left = lease.expires_at.since(set.now()).as_duration();
            (lease.fence.expect("of a slot"), left > LONG)
        };
        leases.iter().map(lease).collect()
    }
}

/// Where a key stands.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What is left: tokens and slots, of the rate and slots, and of those that are alone.
    pub left: [u64; 6],
    /// Of its leases of both and of those of the rate and slots, in their order; and whether
    /// each lasts for long.
    pub fences: [Vec<u64>; 2],
    pub are_long: [Vec<bool>; 2],
}

impl Seen {
    /// As another key, whose leases have other fences.
    pub fn is_like(&self, other: &Self) -> bool {
        self.left == other.left && self.are_long == other.are_long
    }

    /// The leases of one of the two are all the other's, too.
    pub fn keeps_fences_of(&self, other: &Self) -> bool {
        let all = |some: &[u64], of: &[u64]| some.iter().all(|fence| of.contains(fence));
        let mut both = self.fences.iter().zip(&other.fences);
        both.all(|(these, those)| all(these, those) || all(those, these))
    }
}
