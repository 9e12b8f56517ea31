//! An upstream with a queue, and programs that ask it for as much as they are let, through
//! the library and in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tidegate::adaptive::{AdaptiveLimit, AdaptivePermit};
use tidegate::{ManualClock, Timestamp};

use super::chance::Chance;

/// An upstream and those who ask it.
pub struct Upstream {
    clock: ManualClock,
    programs: Vec<AdaptiveLimit>,
    chance: Chance,
    now: i64,
    /// When each slot is free.
    free: BinaryHeap<Reverse<i64>>,
    /// Those in flight, by when they end.
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    permits: Vec<Option<AdaptivePermit>>,
    /// Who has been served how often.
    pub served: Vec<u64>,
    pub most_held: u64,
    /// Who asked last.
    turn: usize,
}

impl Upstream {
    pub fn new(clock: ManualClock, programs: Vec<AdaptiveLimit>, slots: usize) -> Self {
        let mut upstream = Self {
            clock,
            served: vec![0; programs.len()],
            programs,
            chance: Chance::new(7),
            now: 1_800_000_000_000_000,
            free: BinaryHeap::new(),
            ends: BinaryHeap::new(),
            permits: Vec::new(),
            most_held: 0,
            turn: 0,
        };
        upstream.slots(slots);
        upstream
    }

    /// It has so many slots from now on.
    pub fn slots(&mut self, slots: usize) {
        while self.free.len() > slots {
            self.free.pop();
        }
        while self.free.len() < slots {
            self.free.push(Reverse(self.now));
        }
    }

    /// Lets `duration` pass; each request takes `work` by chance.
    pub fn run(&mut self, duration: Duration, work: impl Fn(&mut Chance) -> f64) {
        let until = self.now + duration.as_micros() as i64;
        loop {
            self.ask(&work);
            let Some(Reverse((at, nth))) = self.ends.pop() else {
                panic!("nothing is in flight");
            };
            if at > until {
                self.ends.push(Reverse((at, nth)));
                return;
            }
            self.now = at;
            self.clock.set(Timestamp::from_micros(at));
            self.permits[nth]
                .take()
                .expect("it is in flight")
                .succeeded();
        }
    }

    /// Each program in turn asks for one, until all are refused. No more is in flight than
    /// the largest of their limits.
    fn ask(&mut self, work: &impl Fn(&mut Chance) -> f64) {
        let mut refused = 0;
        loop {
            self.turn = (self.turn + 1) % self.programs.len();
            let at = self.turn;
            let program = &self.programs[at];
            let admission = program.try_acquire("k", ()).wait().expect("an answer");
            match admission.granted() {
                Some(permit) => {
                    refused = 0;
                    self.served[at] += 1;
                    self.begin(permit, work);
                    let largest = self.programs.iter().map(AdaptiveLimit::limit).max();
                    assert!(Some(self.ends.len() as u64) <= largest);
                }
                None => refused += 1,
            }
            if refused == self.programs.len() {
                return;
            }
        }
    }

    fn begin(&mut self, permit: AdaptivePermit, work: &impl Fn(&mut Chance) -> f64) {
        let Reverse(free) = self.free.pop().expect("a slot");
        let micros = work(&mut self.chance).max(1.0) as i64;
        let end = free.max(self.now) + micros;
        self.free.push(Reverse(end));
        let place = self.permits.iter().position(Option::is_none);
        let nth = place.unwrap_or(self.permits.len());
        if nth == self.permits.len() {
            self.permits.push(None);
        }
        self.permits[nth] = Some(permit);
        self.ends.push(Reverse((end, nth)));
        self.most_held = self.most_held.max(self.ends.len() as u64);
    }
}
