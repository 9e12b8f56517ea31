//! The instances that `cargo xtask model` explores, the short ones first.

use crate::instance::{Instance, Limit, Off};

/// Each with its name.
#[must_use]
pub fn all() -> Vec<(&'static str, Instance)> {
    let without = without().into_iter();
    let without = without.map(|(name, instance, _)| (name, instance));
    without.chain(whole()).collect()
}

/// A window of `capacity` in two ticks.
const fn window(capacity: u64) -> Limit {
    Limit::Window { capacity, ticks: 2 }
}

/// Everything that goes wrong goes wrong here.
const fn troubled() -> Instance {
    Instance {
        drifts: true,
        doubles: true,
        fails: true,
        ..Instance::small()
    }
}

/// Those that keep the bound. Cut, since they do not end within minutes: doubled messages on a bucket,
/// where each return may come late and change what others give back; three requests on the wire of
/// which some are doubled.
#[must_use]
pub fn whole() -> [(&'static str, Instance); 5] {
    let three = Instance {
        limit: window(8),
        nodes: 3,
        batch: 4,
        costs: &[1, 2, 3],
        ..troubled()
    };
    [
        ("window: 2 nodes, 4 units, batches of 2", troubled()),
        (
            "bucket: 2 nodes, burst of 3, 1 a tick, none doubled",
            Instance {
                limit: Limit::Bucket { rate: 1, burst: 3 },
                hold: 2,
                returns: 1,
                doubles: false,
                ..troubled()
            },
        ),
        (
            "window: 3 nodes, 8 units, batches of 4, 3 requests on the wire, none doubled",
            Instance {
                in_flight: 3,
                doubles: false,
                ..three.clone()
            },
        ),
        (
            "bucket: 3 nodes, burst of 3, 1 a tick, none doubled",
            Instance {
                limit: Limit::Bucket { rate: 1, burst: 3 },
                nodes: 3,
                hold: 2,
                returns: 1,
                doubles: false,
                ..troubled()
            },
        ),
        (
            "window: 3 nodes, 8 units, batches of 4, 2 requests on the wire",
            three,
        ),
    ]
}

/// Those with a safeguard off, and where every history is gone through the most that is admitted: in
/// the others until one is found that goes beyond the bound.
#[must_use]
pub fn without() -> Vec<(&'static str, Instance, Option<u64>)> {
    let calm = |nodes, batch, capacity| Instance {
        limit: window(capacity),
        nodes,
        batch,
        costs: &[1],
        hold: 2,
        in_flight: 1,
        is_calm: true,
        off: Some(Off::Window),
        ..Instance::small()
    };
    let small = |off| Instance {
        off: Some(off),
        ..Instance::small()
    };
    let alone = |costs| Instance {
        costs,
        ticks: Some(3),
        off: Some(Off::OneByOne),
        ..calm(1, 10, 10)
    };
    let bucket = Instance {
        limit: Limit::Bucket { rate: 1, burst: 2 },
        nodes: 1,
        hold: 1,
        in_flight: 1,
        returns: 1,
        off: Some(Off::Hold),
        ..Instance::small()
    };
    let calm = [
        (
            "calm, no window in grants: 2 nodes, 4 units, batches of 2",
            calm(2, 2, 4),
            6,
        ),
        (
            "calm, no window in grants: 3 nodes, 6 units, batches of 3",
            calm(3, 3, 6),
            10,
        ),
        (
            "calm, no window in grants: 4 nodes, 8 units, batches of 2",
            calm(4, 2, 8),
            12,
        ),
        (
            "calm, no window in grants: 4 nodes, 8 units, batches of 4",
            calm(4, 4, 8),
            14,
        ),
        (
            "calm, leftovers are added up: a request takes 5 of 10",
            alone(&[5]),
            15,
        ),
        (
            "calm, leftovers are added up: a request takes 1 or 5 of 10",
            alone(&[1, 5]),
            19,
        ),
    ];
    let troubled = [
        ("no window in grants", small(Off::Window)),
        (
            "a late grant serves the request that waits for it",
            small(Off::Late),
        ),
        ("a bucket's grants are held beyond their end", bucket),
        ("time is counted from the answer", small(Off::FromRequest)),
        (
            "a grant is spent for the last thousandth, too",
            small(Off::Thousandth),
        ),
    ];
    let calm = calm
        .into_iter()
        .map(|(name, one, most)| (name, one, Some(most)));
    let troubled = troubled.into_iter().map(|(name, one)| (name, one, None));
    calm.chain(troubled).collect()
}
