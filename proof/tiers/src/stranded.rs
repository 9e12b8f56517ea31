//! What nodes that die take along: units of a window that nobody else can have until it ends.

use crate::ledger::{Capacity, Kind, SECOND, Terms};
use crate::limits::{Planned, Shape};
use crate::scale::{Demand, HOLD, STEP, fleet};
use crate::world::START;

/// The length of the window.
const WINDOW: u64 = 10 * SECOND;

/// A quarter of the nodes is killed at this second.
const KILL_AT: u64 = 3;

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Stranded {
    /// What the window admits.
    pub capacity: u64,
    /// What of it was admitted to nobody.
    pub stranded: u64,
    /// What the next window admitted.
    pub next: u64,
    /// The most that the nodes which were killed can have held: each a batch, and what was left
    /// of the one before.
    pub held: u64,
}

/// Runs it: a window of 10 seconds that has 100 units for each node, of which each takes a quarter
/// at a time, under half as much demand again.
///
/// # Panics
/// If a window admits more than its capacity.
#[must_use]
pub fn run(nodes: usize) -> Stranded {
    let (capacity, batch) = (100 * nodes as u64, 25);
    let planned = Planned {
        shape: Shape::Fixed(WINDOW),
        capacity,
        is_of_root: false,
    };
    let mut world = fleet(nodes, planned, batch);
    let mut demand = Demand::new(nodes, false);
    let asked = capacity as f64 * 1.5 / 10.0;
    let killed = |node: usize| node % 4 == 1;
    for step in 0..2 * WINDOW / STEP {
        if step * STEP == KILL_AT * SECOND {
            (0..nodes)
                .filter(|&node| killed(node))
                .for_each(|node| world.kill(node));
            demand.only(|node| !killed(node));
        }
        demand.step(&mut world, asked, step);
    }
    let kind = Kind::Fixed(WINDOW);
    let nearest = world
        .ledger
        .nearest(|_| true, kind, &Capacity::of(capacity), Terms::held(HOLD));
    assert!(nearest.holds(), "{nearest:?}");
    let end = START + WINDOW as i64;
    let dead = (0..nodes).filter(|&node| killed(node)).count() as u64;
    Stranded {
        capacity,
        stranded: capacity - world.ledger.between(START, end),
        next: world.ledger.between(end, end + WINDOW as i64),
        held: dead * (batch + batch / 5),
    }
}
