//! One fleet through a step of demand, dead nodes and an outage of its store: how long until
//! all that there is is used again.

use crate::ledger::{Capacity, Nearest, SECOND, Terms};
use crate::limits::{Planned, Shape};
use crate::scale::{Demand, HOLD, STEP, WIRE, fleet};
use crate::wire::Wire;
use crate::world::START;

/// What is looked at at once, in microseconds.
pub const BIN: u64 = 50_000;

/// At this second all demand goes to the other half of the nodes.
pub const STEP_AT: u64 = 3;

/// At this one a quarter of those are killed, and the rest has all demand.
pub const KILL_AT: u64 = 6;

/// From here the store is away.
pub const AWAY_AT: u64 = 9;

/// And here it is back.
pub const BACK_AT: u64 = 11;

/// It ends here.
pub const END_AT: u64 = 14;

/// Used again is what so many bins together use 95 hundredths of.
const TOGETHER: usize = 10;

/// A bin of time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Bin {
    /// Units that were admitted.
    pub admitted: u64,
    /// Requests for a grant that came to the store.
    pub grants: u64,
    /// Requests that met an error.
    pub failed: u64,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Course {
    /// How many nodes.
    pub nodes: usize,
    /// What comes back in a bin.
    pub rate: u64,
    /// Bin by bin.
    pub bins: Vec<Bin>,
    /// How near it came to the stated bound.
    pub nearest: Nearest,
}

/// Runs it: a bucket of 100 units a second for each node, with a tenth of a second's at once,
/// under half as much demand again.
#[must_use]
pub fn run(nodes: usize) -> Course {
    let rate = 100 * nodes as u64;
    let planned = Planned {
        shape: Shape::Bucket(rate),
        capacity: (rate / 10).max(25),
        is_of_root: false,
    };
    let mut world = fleet(nodes, planned, 25);
    let mut demand = Demand::new(nodes, false);
    let half = nodes / 2;
    demand.only(|node| node < half.max(1));
    let asked = rate as f64 * 1.5;
    let mut bins = vec![Bin::default(); (END_AT * SECOND / BIN) as usize];
    let (mut grants, mut failed) = (0, 0);
    for step in 0..END_AT * SECOND / STEP {
        match step * STEP {
            at if at == STEP_AT * SECOND => demand.only(|node| node >= half),
            at if at == KILL_AT * SECOND => {
                let killed = |node: usize| node >= half && (node - half) % 4 == 3;
                (0..nodes)
                    .filter(|&node| killed(node))
                    .for_each(|node| world.kill(node));
                demand.only(|node| node >= half && !killed(node));
            }
            at if at == AWAY_AT * SECOND => (0..nodes).for_each(|n| world.rewire(n, Wire::Cut)),
            at if at == BACK_AT * SECOND => (0..nodes).for_each(|n| world.rewire(n, WIRE)),
            _ => {}
        }
        demand.step(&mut world, asked, step);
        let bin = &mut bins[(step * STEP / BIN) as usize];
        bin.grants += world.central.grants() - grants;
        bin.failed += world.tally.failed - failed;
        (grants, failed) = (world.central.grants(), world.tally.failed);
    }
    for (at, bin) in bins.iter_mut().enumerate() {
        let from = START + (at as u64 * BIN) as i64;
        bin.admitted = world.ledger.between(from, from + BIN as i64);
    }
    let capacity = Capacity::of(planned.capacity);
    Course {
        nodes,
        rate: rate * BIN / SECOND,
        nearest: world
            .ledger
            .nearest(|_| true, planned.shape.kind(), &capacity, Terms::held(HOLD)),
        bins,
    }
}

impl Course {
    /// How long after `second` the next half a second admits 95 in 100 of what comes back, in
    /// milliseconds; `None`: not before the end.
    #[must_use]
    pub fn settles(&self, second: u64) -> Option<u64> {
        let from = (second * SECOND / BIN) as usize;
        let is_used = |bins: &[Bin]| {
            let admitted: u64 = bins.iter().map(|bin| bin.admitted).sum();
            admitted * 100 >= self.rate * TOGETHER as u64 * 95
        };
        let settled = self.bins[from..].windows(TOGETHER).position(is_used);
        settled.map(|bins| bins as u64 * BIN / 1_000)
    }

    /// For how long after `second` something was admitted still, in milliseconds.
    #[must_use]
    pub fn lasts(&self, second: u64) -> u64 {
        let from = (second * SECOND / BIN) as usize;
        let lasting = self.bins[from..].iter().take_while(|bin| bin.admitted > 0);
        lasting.count() as u64 * BIN / 1_000
    }
}
