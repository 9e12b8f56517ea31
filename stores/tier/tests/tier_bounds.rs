//! The bounds of `docs/reference/tiers.md`, over random histories: nodes whose clocks stand hours
//! apart and run a thousandth slow, answers that are held up, lost or delivered in any order,
//! nodes that are killed. What was admitted is counted here, by the store's clock, in a
//! ledger that asks none of the code under test. `TIER_HISTORIES=100000` looks harder.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use support::{Central, Node, SECOND, START, Wire, bucket, log, plan_in, ring, told, window};
use tidegate_store::core::{Amount, Rule};
use tidegate_store::{StoreFuture, Timer};
use tidegate_tier::Tier;

/// Random numbers by a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

const CAPACITY: u64 = 40;

/// What was admitted, by the store's clock.
#[derive(Default)]
struct Ledger(Vec<(u64, Amount)>);

impl Ledger {
    /// The most that was admitted in any run of `length`, which begins with an admission.
    fn most_within(&self, length: u64) -> u64 {
        let from = |first: usize| {
            let until = self.0[first].0 + length;
            let within = self.0[first..].iter().take_while(|(at, _)| *at < until);
            within.map(|(_, amount)| amount).sum()
        };
        (0..self.0.len()).map(from).max().unwrap_or(0)
    }

    /// The most in any window of `length` since the epoch.
    fn most_in_windows(&self, length: u64) -> u64 {
        let mut windows = std::collections::BTreeMap::<u64, u64>::new();
        for (at, amount) in &self.0 {
            *windows.entry((START as u64 + at) / length).or_default() += amount;
        }
        windows.into_values().max().unwrap_or(0)
    }
}

struct Fleet {
    central: Arc<Central>,
    nodes: Vec<Member>,
    ledger: Ledger,
    dice: Dice,
}

struct Member {
    node: Node,
    /// By how many hundred thousandths its clock runs slow: 99 at most.
    slow: u64,
    /// The rest of its clock's steps.
    behind: u64,
    waiting: Vec<(Amount, StoreFuture)>,
}

impl Fleet {
    fn new(rule: Rule, promise: fn(Tier) -> Tier, seed: u64) -> Self {
        let mut dice = Dice(seed);
        let limits = plan_in(&promise(Tier::leased(1)), 0, 1, &[(0, rule)]);
        let central = Central::new(&limits);
        let members = (0..dice.below(6) + 1).map(|_| {
            let ahead = dice.below(7_200_000_000) as i64 - 3_600_000_000;
            // No request is larger than a batch: those are the store's, whose answers may be
            // held up until a later window.
            let tier = Tier::leased(dice.below(12) + 5).low_water(dice.below(101) as u8);
            let node = Node::new(&central, &limits, promise(tier), ahead);
            node.link.is_strict_at_once.store(true, Ordering::SeqCst);
            Member {
                node,
                slow: dice.below(100),
                behind: 0,
                waiting: Vec::new(),
            }
        });
        Self {
            nodes: members.collect(),
            central,
            ledger: Ledger::default(),
            dice,
        }
    }

    fn run(mut self, steps: usize) -> (Ledger, u64) {
        for _ in 0..steps {
            self.step();
        }
        let admitted = self.ledger.0.iter().map(|(_, amount)| amount).sum();
        (self.ledger, admitted)
    }

    fn step(&mut self) {
        let at = self.dice.below(self.nodes.len() as u64) as usize;
        match self.dice.below(100) {
            0..25 => self.pass(),
            25..34 => {
                let wires = [
                    Wire::Open,
                    Wire::HoldsAnswers,
                    Wire::HoldsCommands,
                    Wire::LosesAnswers,
                    Wire::Cut,
                ];
                let wire = wires[self.dice.below(5) as usize];
                self.nodes[at].node.link.set(wire);
            }
            34..50 => {
                let link = Arc::clone(&self.nodes[at].node.link);
                if link.held() > 0 {
                    link.deliver_at(self.dice.below(link.held() as u64) as usize);
                }
            }
            50..52 if self.nodes[at].waiting.pop().is_some() => {}
            52 if self.nodes.len() > 1 => {
                // Killed: nothing of it is sent any more.
                let killed = self.nodes.swap_remove(at);
                killed.node.link.set(Wire::Cut);
            }
            _ => {
                let amount = self.dice.below(5) + 1;
                let later = self.nodes[at].node.begin(b"k", &[amount]);
                self.nodes[at].waiting.push((amount, later));
            }
        }
        self.count();
    }

    fn pass(&mut self) {
        let micros = match self.dice.below(10) {
            0 => self.dice.below(3 * SECOND),
            // To where a window ends: a clock that runs slow shows that there is some of it left.
            1 => 2 * SECOND - self.central.clock.now().as_micros() as u64 % (2 * SECOND),
            2..4 => self.dice.below(400_000),
            _ => self.dice.below(30_000),
        };
        self.central.clock.pass(micros);
        for member in &mut self.nodes {
            // It runs slow by so much, and never fast: the worst for the limits.
            let lag = micros * member.slow + member.behind;
            member.behind = lag % 100_000;
            member.node.clock.pass(micros - lag / 100_000);
            // Its own alarms may have answered.
        }
        self.count();
    }

    /// Counts what was answered since.
    fn count(&mut self) {
        let now = (self.central.clock.now().as_micros() - START) as u64;
        for member in &mut self.nodes {
            let mut waiting = std::mem::take(&mut member.waiting);
            waiting.retain_mut(|(amount, later)| {
                let Some(answer) = told(later) else {
                    return true;
                };
                let verdict = answer.ok().and_then(|reply| reply.verdict());
                if verdict.is_some_and(|verdict| verdict.admitted()) {
                    self.ledger.0.push((now, *amount));
                }
                false
            });
            member.waiting = waiting;
        }
    }
}

/// Runs histories of `rule` in a tier of which `promise` says the rest: `check` is told each
/// ledger.
fn histories(rule: Rule, promise: fn(Tier) -> Tier, mut check: impl FnMut(u64, &Ledger)) {
    let count = std::env::var("TIER_HISTORIES").ok();
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(300);
    let mut all = 0;
    for seed in 0..count {
        let (ledger, admitted) = Fleet::new(rule, promise, seed).run(400);
        check(seed, &ledger);
        all += admitted;
    }
    assert!(
        all > count * CAPACITY,
        "the histories admit something: {all}"
    );
}

#[test]
fn no_window_admits_more_than_its_capacity() {
    let mut most = 0;
    histories(window(CAPACITY, 2 * SECOND), none, |seed, ledger| {
        let admitted = ledger.most_in_windows(2 * SECOND);
        assert!(
            admitted <= CAPACITY,
            "{admitted} of {CAPACITY}, seed {seed}"
        );
        most = most.max(admitted);
    });
    assert_eq!(most, CAPACITY, "some history uses all of it");
}

/// Nothing beside how long units are held.
fn none(tier: Tier) -> Tier {
    tier
}

/// No more than so many are out.
const FEW: u64 = 9;

fn few(tier: Tier) -> Tier {
    tier.outstanding(FEW)
}

/// Checks what a bucket of 20 units a second admits: so much `beside` its own at most, which is
/// all but reached where it `is_reached`.
fn check_bucket(promise: fn(Tier) -> Tier, beside: u64, is_reached: bool) {
    let (rate, mut over) = (20, 0);
    histories(bucket(rate, CAPACITY), promise, |seed, ledger| {
        for length in [1, 100_000, SECOND, 3 * SECOND, 10 * SECOND] {
            let strict = CAPACITY + (rate * length).div_ceil(SECOND);
            let admitted = ledger.most_within(length);
            let bound = strict + beside;
            assert!(
                admitted <= bound,
                "{admitted} of {bound} in {length} us, seed {seed}"
            );
            over = over.max(admitted.saturating_sub(strict));
        }
    });
    assert_eq!(over > 0, is_reached, "{over} beside its own");
}

#[test]
fn a_bucket_admits_at_most_what_it_could_grant_while_a_grant_is_held_longer() {
    check_bucket(none, 20, true);
}

#[test]
fn a_bucket_admits_no_more_beside_its_own_than_may_be_out() {
    check_bucket(few, FEW, true);
}

#[test]
fn an_exact_bucket_admits_what_one_without_a_tier_does() {
    check_bucket(|tier| tier.exact(), 0, false);
    check_bucket(|tier| few(tier).exact(), 0, false);
}

/// Checks what rolling windows admit: so much `beside` their capacity at most.
fn check_rolling(promise: fn(Tier) -> Tier, beside: u64) {
    for rule in [ring(CAPACITY, 2 * SECOND), log(CAPACITY, 2 * SECOND)] {
        histories(rule, promise, |seed, ledger| {
            let admitted = ledger.most_within(2 * SECOND);
            assert!(admitted <= CAPACITY + beside, "{admitted}, seed {seed}");
        });
    }
}

#[test]
fn rolling_windows_admit_at_most_what_a_window_and_a_hold_could_be_granted() {
    check_rolling(none, CAPACITY);
}

#[test]
fn rolling_windows_admit_no_more_beside_their_own_than_may_be_out() {
    check_rolling(few, FEW);
}

#[test]
fn exact_rolling_windows_admit_what_those_without_a_tier_do() {
    check_rolling(|tier| tier.exact(), 0);
    check_rolling(|tier| few(tier).exact(), 0);
}
