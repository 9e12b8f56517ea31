//! Nodes around one store, in virtual time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tidegate::{BuildError, DecisionError, LimitSet, ManualClock, Tier, Timestamp};

use crate::central::Central;
use crate::dice::Dice;
use crate::ledger::Ledger;
use crate::limits::{LEAF, Planned, ROOT};
use crate::wire::{NodeStore, Wire};

/// Ten seconds before a midnight of UTC, at which windows of any length that a day has whole
/// ones of begin.
pub const START: i64 = (19_700 * 86_400 - 10) * 1_000_000;

/// Clocks run alike to a thousandth, of these.
const PARTS: u64 = 100_000;

/// What a fleet decides by.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The limits, each called by its place here.
    pub planned: Vec<Planned>,
    /// Whether keys have two segments.
    pub has_levels: bool,
    /// What requests are about.
    pub keys: &'static [&'static str],
}

/// How one node's clock goes.
#[derive(Clone, Copy, Default, Debug)]
pub struct Going {
    /// By so many microseconds it is behind the store's; ahead, where that is negative.
    pub behind: i64,
    /// By so many hundred thousandths it is slow: 99 at most.
    pub slow: u64,
}

/// How long requests waited, and how they ended.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Requests that were decided.
    pub decided: u64,
    /// Of those, admitted.
    pub admitted: u64,
    /// Requests that met an error.
    pub failed: u64,
    /// How many waited for so many tenths of a millisecond.
    waits: Vec<u64>,
}

/// What came of requests: bit by bit, which were admitted.
type Outcome = Pin<Box<dyn Future<Output = Result<u64, DecisionError>> + Send>>;

struct Waiting {
    since: i64,
    items: Vec<(usize, u64)>,
    outcome: Outcome,
}

struct Node {
    set: LimitSet,
    store: NodeStore,
    clock: ManualClock,
    going: Going,
    waiting: Vec<Waiting>,
}

/// See the [module](self).
pub struct World {
    /// The store.
    pub central: Arc<Central>,
    /// What was admitted.
    pub ledger: Ledger,
    /// How requests ended.
    pub tally: Tally,
    limits: Limits,
    /// `None`: it was killed.
    nodes: Vec<Option<Node>>,
}

impl Limits {
    /// One limit, and one key.
    #[must_use]
    pub fn one(planned: Planned) -> Self {
        Self {
            planned: vec![planned],
            has_levels: false,
            keys: &["k"],
        }
    }

    /// The keys of the row that a limit counts for `key`.
    #[must_use]
    pub fn row(&self, limit: usize, key: usize) -> &'static str {
        let name = self.keys[key];
        match self.planned[limit].is_of_root && self.has_levels {
            true => name.split('/').next().unwrap_or(name),
            false => name,
        }
    }

    /// Builds the set of one node.
    fn set(
        &self,
        store: NodeStore,
        clock: &ManualClock,
        tier: Tier,
    ) -> Result<LimitSet, BuildError> {
        let limits = self.planned.iter().enumerate();
        let limits = limits.map(|(at, one)| one.limit(&name(at), self.has_levels));
        let builder = LimitSet::builder()
            .name("fleet")
            .limits(limits)
            .clock(clock.clock())
            .store(Arc::new(store))
            .tier(tier);
        match self.has_levels {
            true => builder.levels([ROOT, LEAF]).build(),
            false => builder.build(),
        }
    }
}

/// What the limit of this place is called.
#[must_use]
pub fn name(place: usize) -> String {
    format!("limit {place}")
}

impl Tally {
    fn ended(&mut self, waited: i64, outcome: &Result<u64, DecisionError>, items: usize) {
        let Ok(admitted) = outcome else {
            self.failed += items as u64;
            return;
        };
        self.decided += items as u64;
        self.admitted += u64::from(admitted.count_ones());
        let wait = (waited.max(0) as usize).div_ceil(100);
        if self.waits.len() <= wait {
            self.waits.resize(wait + 1, 0);
        }
        self.waits[wait] += items as u64;
    }

    /// How long so many hundredths of the requests that were decided waited at most, in
    /// milliseconds of virtual time.
    #[must_use]
    pub fn wait(&self, hundredths: u64) -> f64 {
        let wanted = (self.decided * hundredths).div_ceil(100);
        let mut seen = 0;
        let longest = self.waits.iter().position(|waited| {
            seen += waited;
            seen >= wanted
        });
        longest.unwrap_or(0) as f64 / 10.0
    }
}

impl Node {
    /// Its clock goes on to where it is when the store's says `now`, and rings what is due.
    fn sync(&self, now: i64) {
        let passed = (now - START) as u64;
        let lost = u128::from(passed) * u128::from(self.going.slow) / u128::from(PARTS);
        let shown = now - self.going.behind - lost as i64;
        self.clock.set(Timestamp::from_micros(shown));
    }
}

impl World {
    /// A store without nodes.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            central: Central::starting_at(START),
            ledger: Ledger::default(),
            tally: Tally::default(),
            limits,
            nodes: Vec::new(),
        }
    }

    /// Adds a node.
    ///
    /// # Panics
    /// If the limits or the tier make no sense.
    pub fn add(&mut self, tier: Tier, going: Going, wire: Wire, dice: Dice) {
        let store = NodeStore::new(&self.central, self.nodes.len(), wire, dice);
        let start = Timestamp::from_micros(self.central.now() - going.behind);
        let clock = ManualClock::starting_at(start);
        let set = self.limits.set(store.share(), &clock, tier);
        self.nodes.push(Some(Node {
            set: set.expect("limits of which units can be taken in advance"),
            store,
            clock,
            going,
            waiting: Vec::new(),
        }));
    }

    /// How many nodes there are, the killed ones included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether it has not been killed.
    #[must_use]
    pub fn is_alive(&self, node: usize) -> bool {
        self.nodes[node].is_some()
    }

    /// What the store says now.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.central.now()
    }

    /// From here on this becomes of a node's commands.
    pub fn rewire(&self, node: usize, wire: Wire) {
        if let Some(node) = &self.nodes[node] {
            node.store.set(wire);
        }
    }

    /// The process is gone: it gives nothing back, and is told nothing.
    pub fn kill(&mut self, node: usize) {
        if let Some(killed) = self.nodes[node].take() {
            killed.store.set(Wire::Cut);
        }
    }

    /// The node hears of what others have changed.
    pub fn hear(&self, node: usize) {
        if let Some(node) = &self.nodes[node] {
            node.store.hear();
        }
    }

    /// Gives a row another capacity of one limit, or what it had at first, at one node: others
    /// [hear](Self::hear) of it.
    ///
    /// # Panics
    /// If the store cannot keep it.
    pub fn give(&self, node: usize, (row, limit): (&str, usize), capacity: Option<u64>) {
        let Some(node) = &self.nodes[node] else {
            return;
        };
        let planned = capacity.map(|capacity| Planned {
            capacity,
            ..self.limits.planned[limit]
        });
        match planned {
            Some(planned) => {
                let limit = planned.limit(&name(limit), self.limits.has_levels);
                let given = node.set.set_override(row, &[limit]).wait();
                given.expect("a sound limit");
            }
            None => {
                let removed = node.set.remove_override(row).wait();
                removed.expect("the store keeps it");
            }
        }
    }

    /// A request at a node, for so many units of every limit.
    pub fn request(&mut self, node: usize, key: usize, units: u64) {
        let Some(there) = &self.nodes[node] else {
            return;
        };
        let (set, name) = (there.set.clone(), self.limits.keys[key]);
        let outcome = async move {
            let decision = set.check(name, units).await?;
            Ok(u64::from(decision.admitted()))
        };
        self.begin(node, vec![(key, units)], Box::pin(outcome));
    }

    /// Several requests at once, as a batch.
    pub fn request_many(&mut self, node: usize, items: &[(usize, u64)]) {
        let Some(there) = &self.nodes[node] else {
            return;
        };
        let keys = self.limits.keys;
        let named: Vec<_> = items
            .iter()
            .map(|&(key, units)| (keys[key], units))
            .collect();
        let set = there.set.clone();
        let outcome = async move {
            let answers = set.check_many(named).await?;
            let bits = answers.iter().enumerate().map(|(at, answer)| {
                let is_admitted = answer.as_ref().is_ok_and(|decision| decision.admitted());
                u64::from(is_admitted) << at
            });
            Ok(bits.sum())
        };
        self.begin(node, items.to_vec(), Box::pin(outcome));
    }

    fn begin(&mut self, node: usize, items: Vec<(usize, u64)>, outcome: Outcome) {
        let now = self.now();
        let Some(there) = &mut self.nodes[node] else {
            return;
        };
        there.sync(now);
        let mut waiting = Waiting {
            since: now,
            items,
            outcome,
        };
        match is_told(&mut self.ledger, &mut self.tally, &mut waiting, now) {
            true => {}
            false => there.waiting.push(waiting),
        }
    }

    /// Gives up a request that waits, if one does.
    pub fn give_up(&mut self, node: usize) -> bool {
        let node = self.nodes[node].as_mut();
        node.is_some_and(|node| node.waiting.pop().is_some())
    }

    /// Time passes: what is under way arrives, each at its instant.
    pub fn pass(&mut self, micros: u64) {
        let until = self.now() + micros as i64;
        while let Some((at, letter)) = self.central.next(until) {
            self.central.set(at);
            let node = letter.node;
            // Where nobody is any more, a command that was sent is done all the same.
            if let Some(there) = &self.nodes[node] {
                there.sync(at);
            }
            drop(self.central.deliver(letter));
            self.collect(node);
        }
        self.central.set(until);
    }

    /// Every node's clock goes on to now.
    pub fn ring(&mut self) {
        let now = self.now();
        for node in 0..self.nodes.len() {
            if let Some(node) = &self.nodes[node] {
                node.sync(now);
            }
            self.collect(node);
        }
    }

    /// Takes down what was told since.
    fn collect(&mut self, node: usize) {
        let now = self.central.now();
        let (ledger, tally) = (&mut self.ledger, &mut self.tally);
        if let Some(node) = &mut self.nodes[node] {
            node.waiting
                .retain_mut(|waiting| !is_told(ledger, tally, waiting, now));
        }
    }

    /// What the tiers of all nodes have counted, summed by `of`.
    pub fn sum(&self, of: impl Fn(&tidegate::TierStatistics) -> u64) -> u64 {
        let nodes = self.nodes.iter().flatten();
        let statistics = nodes.filter_map(|node| node.set.tier_statistics());
        statistics.map(|statistics| of(&statistics)).sum()
    }
}

/// A letter holds who waits for it, and so the node and this store: nobody is left of them.
impl Drop for World {
    fn drop(&mut self) {
        (0..self.nodes.len()).for_each(|node| self.kill(node));
        self.central.lose_all();
    }
}

/// Whether it has been answered; what was admitted is taken down.
fn is_told(ledger: &mut Ledger, tally: &mut Tally, waiting: &mut Waiting, now: i64) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(outcome) = waiting.outcome.as_mut().poll(&mut context) else {
        return false;
    };
    tally.ended(now - waiting.since, &outcome, waiting.items.len());
    let admitted = outcome.unwrap_or(0);
    for (at, &(key, units)) in waiting.items.iter().enumerate() {
        if admitted >> at & 1 == 1 {
            ledger.admit(now, key, units);
        }
    }
    true
}
