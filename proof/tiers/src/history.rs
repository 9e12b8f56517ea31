//! Seeded histories: whatever happens to a fleet.

use std::time::Duration;

use tidegate::Tier;

use crate::dice::Dice;
use crate::ledger::{Capacity, Kind, Nearest, SECOND, Terms};
use crate::limits::{DAY, Planned, Shape};
use crate::wire::Wire;
use crate::world::{Going, Limits, World};

/// Within this time each node has heard of what was changed at another.
const TOLD: u64 = SECOND;

/// So much happens in a history.
const STEPS: usize = 220;

/// Sets the dice of what a tier promises apart from the others.
const PROMISES: u64 = 0x7072_6f6d_6973_6573;

const HOUR: u64 = 3_600 * SECOND;

/// What a history came to.
#[derive(Clone, Debug)]
pub struct Told {
    /// How many nodes there were at first.
    pub nodes: usize,
    /// What was admitted in all.
    pub admitted: u64,
    /// How often a limit was changed, and nodes killed.
    pub changes: u64,
    /// See there.
    pub kills: u64,
    /// By which terms its nodes held units.
    pub terms: Terms,
    /// How near each limit came to its bound.
    pub nearest: Vec<(Shape, Nearest)>,
}

struct History {
    world: World,
    limits: Limits,
    dice: Dice,
    terms: Terms,
    /// By row and limit: its capacity over time.
    capacities: Vec<((&'static str, usize), Capacity)>,
    /// Which nodes hear when of a change.
    hears: Vec<(i64, usize)>,
    changes: u64,
    kills: u64,
    is_of_days: bool,
}

/// Runs the history of this seed.
#[must_use]
pub fn run(seed: u64) -> Told {
    let mut history = History::new(seed);
    let nodes = history.world.len();
    for _ in 0..STEPS {
        history.step();
    }
    history.told(nodes)
}

/// Limits of one kind or of several, at one level or at two.
fn limits(dice: &mut Dice) -> Limits {
    let shape = |dice: &mut Dice, capacity: u64| dice.one_of(&Shape::all(capacity));
    let planned = |dice: &mut Dice, is_of_root: bool| {
        let capacity = dice.within(10, 80) * if is_of_root { 2 } else { 1 };
        Planned {
            shape: shape(dice, capacity),
            capacity,
            is_of_root,
        }
    };
    let has_levels = dice.below(3) == 0;
    let count = dice.one_of(&[1, 1, 1, 2, 3]);
    let mut all: Vec<_> = (0..count).map(|_| planned(dice, false)).collect();
    if has_levels {
        all.push(planned(dice, true));
    }
    Limits {
        planned: all,
        has_levels,
        keys: match has_levels {
            true => &["a/x", "a/y", "b/x"],
            false => &["x", "y"],
        },
    }
}

/// What a tier promises beside how long it holds.
fn promise(dice: &mut Dice, limits: &Limits, hold: u64) -> Terms {
    let has_bucket = |one: &Planned| matches!(one.shape.kind(), Kind::Bucket(_));
    let is_exact = dice.below(3) == 0;
    // A row may be given a burst of 5, of which more than 4 must not be out.
    let is_narrow = is_exact && limits.planned.iter().any(has_bucket);
    let most = if is_narrow { 4 } else { 40 };
    let is_bounded = is_narrow || dice.below(2) == 0;
    Terms {
        hold,
        outstanding: is_bounded.then(|| dice.within(1, most)),
        is_exact,
    }
}

fn in_tier(mut tier: Tier, terms: Terms) -> Tier {
    if let Some(units) = terms.outstanding {
        tier = tier.outstanding(units);
    }
    match terms.is_exact {
        true => tier.exact(),
        false => tier,
    }
}

fn tier(dice: &mut Dice) -> (Tier, u64) {
    let hold = dice.one_of(&[50_000, 300_000, SECOND, 3 * SECOND]);
    let idle = dice.one_of(&[20_000, 400_000, SECOND]);
    let tier = Tier::leased(dice.within(1, 20))
        .hold(Duration::from_micros(hold))
        .idle(Duration::from_micros(idle))
        .low_water(dice.one_of(&[0, 20, 100]));
    (tier, hold)
}

/// How a wire may be.
fn wire(dice: &mut Dice) -> Wire {
    match dice.below(8) {
        0..2 => Wire::Prompt,
        2..5 => Wire::Late(500, 20_000),
        5 => Wire::Late(100_000, 2 * SECOND),
        6 => Wire::LosesAnswers,
        _ => Wire::Cut,
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let limits = limits(&mut dice);
        let is_of_days = limits.planned.iter().any(|one| one.shape == Shape::Day);
        let (tier, hold) = tier(&mut dice);
        let terms = promise(&mut Dice::new(seed ^ PROMISES), &limits, hold);
        let tier = in_tier(tier, terms);
        let mut world = World::new(limits.clone());
        for _ in 0..dice.within(1, 32) {
            let slow = dice.below(100);
            // Whoever is ahead of the store over midnight asks by tomorrow's calendar.
            let behind = match is_of_days {
                true => dice.below(HOUR) as i64,
                false => dice.below(2 * HOUR) as i64 - HOUR as i64,
            };
            let (wire, own) = (wire(&mut dice), Dice::new(dice.roll()));
            world.add(tier.clone(), Going { behind, slow }, wire, own);
        }
        let rows = (0..limits.planned.len())
            .flat_map(|limit| (0..limits.keys.len()).map(move |key| (limit, key)));
        let mut capacities = Vec::<((&'static str, usize), Capacity)>::new();
        for (limit, key) in rows {
            let of = (limits.row(limit, key), limit);
            if capacities.iter().all(|(other, _)| *other != of) {
                capacities.push((of, Capacity::of(limits.planned[limit].capacity)));
            }
        }
        Self {
            world,
            limits,
            dice,
            terms,
            capacities,
            hears: Vec::new(),
            changes: 0,
            kills: 0,
            is_of_days,
        }
    }

    fn step(&mut self) {
        let node = self.dice.below(self.world.len() as u64) as usize;
        match self.dice.below(100) {
            0..22 => self.pass(),
            22..28 => {
                let wire = wire(&mut self.dice);
                self.world.rewire(node, wire);
            }
            28 => _ = self.world.give_up(node),
            29 => self.kill(node),
            30..32 => self.change(node),
            32..36 => {
                let items: Vec<_> = (0..3).map(|_| (self.key(), self.units())).collect();
                self.world.request_many(node, &items);
            }
            _ => {
                let (key, units) = (self.key(), self.units());
                self.world.request(node, key, units);
            }
        }
    }

    fn key(&mut self) -> usize {
        self.dice.below(self.limits.keys.len() as u64) as usize
    }

    /// Mostly few; now and then more than a batch.
    fn units(&mut self) -> u64 {
        match self.dice.below(40) {
            0 => self.dice.within(10, 60),
            1..10 => self.dice.within(2, 5),
            _ => 1,
        }
    }

    fn pass(&mut self) {
        let micros = match self.dice.below(20) {
            0 => self.dice.below(3 * SECOND),
            1 if self.is_of_days => self.dice.below(DAY),
            1..8 => self.dice.below(400_000),
            _ => self.dice.below(20_000),
        };
        let until = self.world.now() + micros as i64;
        self.hears.sort_unstable();
        let due = self.hears.partition_point(|(at, _)| *at <= until);
        let due: Vec<_> = self.hears.drain(..due).collect();
        for (at, node) in due {
            self.pass_until(at);
            self.world.hear(node);
        }
        self.pass_until(until);
    }

    fn pass_until(&mut self, until: i64) {
        let left = until - self.world.now();
        self.world.pass(left.max(0) as u64);
        self.world.ring();
    }

    /// One lives on.
    fn kill(&mut self, node: usize) {
        let living = (0..self.world.len()).filter(|&node| self.world.is_alive(node));
        if living.count() > 1 && self.world.is_alive(node) {
            self.world.kill(node);
            self.kills += 1;
        }
    }

    /// A row is given another capacity of a limit, or what it had at first.
    fn change(&mut self, node: usize) {
        if !self.world.is_alive(node) {
            return;
        }
        let at = self.dice.below(self.capacities.len() as u64) as usize;
        let (row, limit) = self.capacities[at].0;
        let given = (self.dice.below(3) > 0).then(|| self.dice.within(5, 120));
        self.world.give(node, (row, limit), given);
        self.changes += 1;
        let now = self.world.now();
        // By the store's clock: a hold is measured by clocks that are a thousandth apart.
        let known = now + (TOLD + self.terms.hold + self.terms.hold / 500) as i64;
        for (of, capacity) in &mut self.capacities {
            // What is given replaces all that the row was given before.
            if of.0 == row {
                let own = given.filter(|_| of.1 == limit);
                let now_is = own.unwrap_or(self.limits.planned[of.1].capacity);
                capacity.becomes(now_is, now, known);
            }
        }
        for node in 0..self.world.len() {
            self.hears.push((now + self.dice.below(TOLD) as i64, node));
        }
    }

    fn told(self, nodes: usize) -> Told {
        let limits = &self.limits;
        let nearest = self.capacities.iter().map(|((row, limit), capacity)| {
            let shape = limits.planned[*limit].shape;
            let of = |key: usize| limits.row(*limit, key) == *row;
            let ledger = &self.world.ledger;
            (
                shape,
                ledger.nearest(of, shape.kind(), capacity, self.terms),
            )
        });
        Told {
            nodes,
            admitted: self.world.ledger.total(),
            changes: self.changes,
            kills: self.kills,
            terms: self.terms,
            nearest: nearest.collect(),
        }
    }
}
