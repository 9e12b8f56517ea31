//! Through the library, before an upstream with a queue, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use tidegate::adaptive::{AdaptiveLimit, Estimator};
use tidegate::{Limit, LimitSet, ManualClock, Timestamp};

use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::upstream::Upstream;

const MINUTE: Duration = Duration::from_secs(60);
const TENTH: f64 = 100_000.0;

type Work = fn(&mut Chance) -> f64;

fn alike(_: &mut Chance) -> f64 {
    TENTH
}

fn exponential(chance: &mut Chance) -> f64 {
    -TENTH * (1.0 - chance.uniform()).ln()
}

/// One in a hundred takes six times the mean.
fn heavy_tailed(chance: &mut Chance) -> f64 {
    TENTH * (chance.normal() - 0.5).exp()
}

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000))
}

fn program(clock: &ManualClock, store: Arc<Fleet>) -> AdaptiveLimit {
    let limit = Limit::concurrency("upstream", 20).adaptive();
    let set = LimitSet::builder().name("shared").limit(limit).store(store);
    let set = set.clock(clock.clock()).build().expect("a sensible set");
    AdaptiveLimit::new(set, "upstream", Estimator::default()).expect("an adaptive limit")
}

/// 50 slots of 100 ms are 500 a second.
fn serves_most_with_a_short_queue(work: Work) {
    let clock = clock();
    let limit = program(&clock, Arc::default());
    let mut upstream = Upstream::new(clock, vec![limit], 50);
    upstream.run(2 * MINUTE, work);
    let (before, _) = (upstream.served[0], std::mem::take(&mut upstream.most_held));
    upstream.run(2 * MINUTE, work);
    let rate = (upstream.served[0] - before) / 120;
    assert!(rate >= 460, "{rate} a second");
    assert!(upstream.most_held <= 75, "{}", upstream.most_held);
    upstream.slots(25);
    upstream.run(MINUTE, work);
    upstream.most_held = 0;
    let before = upstream.served[0];
    upstream.run(2 * MINUTE, work);
    let rate = (upstream.served[0] - before) / 120;
    assert!(rate >= 225, "{rate} a second of 250");
    assert!(upstream.most_held <= 45, "{}", upstream.most_held);
}

#[test]
fn work_that_is_all_alike_is_served_with_a_short_queue() {
    serves_most_with_a_short_queue(alike);
}

#[test]
fn work_of_random_length_is_served_with_a_short_queue() {
    serves_most_with_a_short_queue(exponential);
}

#[test]
fn work_with_a_heavy_tail_is_served_with_a_short_queue() {
    serves_most_with_a_short_queue(heavy_tailed);
}

/// Each estimates by itself. What is in flight never exceeds the largest of their limits (that
/// is asserted at each grant), and three have no more of it than one.
#[test]
fn programs_on_one_store_share_one_limit() {
    let (clock, store) = (clock(), Arc::<Fleet>::default());
    let programs = (0..3)
        .map(|_| program(&clock, Arc::clone(&store)))
        .collect();
    let mut upstream = Upstream::new(clock, programs, 50);
    upstream.run(4 * MINUTE, exponential);
    upstream.most_held = 0;
    let before = upstream.served.clone();
    upstream.run(4 * MINUTE, exponential);
    let rates = upstream
        .served
        .iter()
        .zip(&before)
        .map(|(now, then)| (now - then) / 240);
    let rates: Vec<u64> = rates.collect();
    let all: u64 = rates.iter().sum();
    assert!(all >= 450, "{rates:?} a second of 500");
    assert!(rates.iter().all(|rate| *rate >= 30), "{rates:?} a second");
    assert!(upstream.most_held <= 90, "{}", upstream.most_held);
}
