//! Fleets of 2 to 5,000 nodes under more demand than there is: how much of a limit they use,
//! and what that asks of the store.

use std::time::Duration;

use tidegate::Tier;

use crate::dice::Dice;
use crate::ledger::{Capacity, Kind, Nearest, SECOND, Terms};
use crate::limits::{Planned, Shape};
use crate::wire::Wire;
use crate::world::{Going, Limits, World};

/// Each way to the store takes so long: 0.2 to 1 ms.
pub const WIRE: Wire = Wire::Late(200, 1_000);

/// Requests come each millisecond.
pub const STEP: u64 = 1_000;

/// How long a grant is held.
pub const HOLD: u64 = SECOND;

/// Every so many steps each node's clock rings what is due.
const RINGS: u64 = 10;

/// A fleet, and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many nodes.
    pub nodes: usize,
    /// The limit, for all of them.
    pub shape: Shape,
    /// Each node's share of what the limit admits in a second.
    pub share: u64,
    /// What a node takes at a time.
    pub batch: u64,
    /// Demand beside what the limit admits, in hundredths.
    pub demand: u64,
    /// The nth node has an nth of the first one's demand.
    pub is_skewed: bool,
    /// For so long.
    pub seconds: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Used {
    /// How near it came to the stated bound.
    pub nearest: Nearest,
    /// Hundredths of what the limit admits that were admitted.
    pub utilisation: f64,
    /// Requests for a grant that the store was asked in a second.
    pub grants: f64,
    /// Requests decided for each of them.
    pub decisions: f64,
    /// Half of the requests waited for no longer, in ms of virtual time; and 99 in 100.
    pub waits: (f64, f64),
}

impl Load {
    /// `nodes` nodes that share 100 units a second each, of which each takes a quarter at a
    /// time, under half as much demand again.
    #[must_use]
    pub const fn of(nodes: usize) -> Self {
        Self {
            nodes,
            shape: Shape::Fixed(SECOND),
            share: 100,
            batch: 25,
            demand: 150,
            is_skewed: false,
            seconds: 6,
        }
    }

    /// The same, skewed.
    #[must_use]
    pub const fn skewed(mut self) -> Self {
        self.is_skewed = true;
        self
    }

    /// The same for a limit of another kind.
    #[must_use]
    pub fn counting(mut self, shape: Shape) -> Self {
        self.shape = match shape {
            Shape::Bucket(_) => Shape::Bucket(self.rate()),
            shape => shape,
        };
        self
    }

    /// What the limit admits in a second.
    #[must_use]
    pub const fn rate(&self) -> u64 {
        self.share * self.nodes as u64
    }

    fn planned(&self) -> Planned {
        let rate = self.rate();
        let capacity = match self.shape.kind() {
            // At once a tenth of a second's.
            Kind::Bucket(_) => rate.div_ceil(10).max(self.batch),
            Kind::Fixed(length) | Kind::FirstUse(length) | Kind::Rolling(length) => {
                rate * length / SECOND
            }
        };
        Planned {
            shape: self.shape,
            capacity,
            is_of_root: false,
        }
    }

    /// What may be admitted in all, where a window of any kind is used up in each of its
    /// lengths.
    fn most(&self) -> u64 {
        let all = self.rate() * self.seconds;
        match self.shape {
            Shape::Bucket(_) => all + self.planned().capacity,
            _ => all,
        }
    }

    /// Runs it.
    #[must_use]
    pub fn run(&self) -> Used {
        let planned = self.planned();
        let mut world = fleet(self.nodes, planned, self.batch);
        let mut demand = Demand::new(self.nodes, self.is_skewed);
        let asked = self.rate() as f64 * self.demand as f64 / 100.0;
        for step in 0..self.seconds * SECOND / STEP {
            demand.step(&mut world, asked, step);
        }
        let nearest = world.ledger.nearest(
            |_| true,
            planned.shape.kind(),
            &Capacity::of(planned.capacity),
            Terms::held(HOLD),
        );
        let grants = world.central.grants() as f64;
        Used {
            nearest,
            utilisation: 100.0 * world.ledger.total() as f64 / self.most() as f64,
            grants: grants / self.seconds as f64,
            decisions: world.tally.decided as f64 / grants.max(1.0),
            waits: (world.tally.wait(50), world.tally.wait(99)),
        }
    }
}

/// A fleet whose nodes take `batch` at a time, with clocks that are up to an hour behind.
///
/// # Panics
/// If the limit makes no sense.
#[must_use]
pub fn fleet(nodes: usize, planned: Planned, batch: u64) -> World {
    let mut dice = Dice::new(nodes as u64);
    let mut world = World::new(Limits::one(planned));
    let tier = Tier::leased(batch).hold(Duration::from_micros(HOLD));
    for _ in 0..nodes {
        let going = Going {
            behind: dice.below(3_600 * SECOND) as i64,
            slow: dice.below(100),
        };
        world.add(tier.clone(), going, WIRE, Dice::new(dice.roll()));
    }
    world
}

/// Who asks how much.
#[derive(Clone, Debug)]
pub struct Demand {
    weights: Vec<f64>,
    /// What each node is to ask for still, below one.
    rests: Vec<f64>,
}

impl Demand {
    /// Of all nodes alike, or skewed.
    #[must_use]
    pub fn new(nodes: usize, is_skewed: bool) -> Self {
        let weight = |node: usize| match is_skewed {
            true => 1.0 / (node + 1) as f64,
            false => 1.0,
        };
        let mut dice = Dice::new(1);
        Self {
            weights: (0..nodes).map(weight).collect(),
            rests: (0..nodes)
                .map(|_| dice.below(1_000) as f64 / 1_000.0)
                .collect(),
        }
    }

    /// From here on the nodes that are `of` it alone.
    pub fn only(&mut self, of: impl Fn(usize) -> bool) {
        for (node, weight) in self.weights.iter_mut().enumerate() {
            *weight = f64::from(u8::from(of(node)));
        }
    }

    /// A step of time in which `asked` units a second are asked for.
    pub fn step(&mut self, world: &mut World, asked: f64, step: u64) {
        let all: f64 = self.weights.iter().sum();
        let each = asked * STEP as f64 / SECOND as f64 / all.max(1e-9);
        for (node, (weight, rest)) in self.weights.iter().zip(&mut self.rests).enumerate() {
            *rest += each * weight;
            while *rest >= 1.0 {
                *rest -= 1.0;
                world.request(node, 0, 1);
            }
        }
        world.pass(STEP);
        if step.is_multiple_of(RINGS) {
            world.ring();
        }
    }
}
