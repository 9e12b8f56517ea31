//! Seeded histories of nodes that give out slots which they hold at the store. At every step those
//! who are sure of a slot, by the clock of their node, are counted: also of nodes that are killed,
//! whose holders know nothing of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Admission, LeaseId, Limit, LimitSet, ManualClock, Request, Tier, Timestamp};

use crate::central::Central;
use crate::dice::Dice;
use crate::ledger::SECOND;
use crate::wire::{NodeStore, Wire};
use crate::world::{Going, START};

/// So much happens in a history.
const STEPS: usize = 400;

/// Of what slots are held.
const KEY: &str = "k";

/// What a history came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Told {
    /// How many nodes there were at first.
    pub nodes: usize,
    /// How many slots there are.
    pub capacity: u64,
    /// The most that were held at once, by holders who were sure.
    pub most: u64,
    /// Leases that nodes gave, and that the store gave.
    pub by_nodes: u64,
    /// See there.
    pub by_store: u64,
    /// How many nodes were killed.
    pub kills: u64,
    /// What is free at the store when all has ended.
    pub free: u64,
}

impl Told {
    /// Whether no more were held than there are, and all are free at last.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.most <= self.capacity && self.free == self.capacity
    }
}

/// A slot that somebody holds, and is sure of until then, by the clock of its node.
struct Held {
    id: LeaseId,
    slots: u64,
    sure_until: Timestamp,
}

/// What came of a request for a lease, or of a renewal.
enum News {
    Granted(Held, bool),
    Renewed(LeaseId, Timestamp),
    Lost(LeaseId),
    None,
}

type Pending = Pin<Box<dyn Future<Output = News> + Send>>;

struct Node {
    set: LimitSet,
    store: NodeStore,
    clock: ManualClock,
    going: Going,
    /// Those who hold slots live on.
    is_killed: bool,
    pending: Vec<Pending>,
    held: Vec<Held>,
}

struct History {
    central: Arc<Central>,
    nodes: Vec<Node>,
    dice: Dice,
    told: Told,
}

/// Runs the history of this seed, of 1 to 8 nodes.
#[must_use]
pub fn run(seed: u64) -> Told {
    let mut history = History::new(seed);
    for _ in 0..STEPS {
        history.step();
    }
    history.end()
}

/// Less than `until` by a thousandth of what is between.
fn sure(until: Timestamp, asked: Timestamp) -> Timestamp {
    let length = until.since(asked).as_micros();
    Timestamp::from_micros(until.as_micros() - (length / 1_000) as i64)
}

impl Node {
    fn new(
        (central, number): (&Arc<Central>, usize),
        (capacity, tier): (u64, Tier),
        dice: &mut Dice,
    ) -> Self {
        let store = NodeStore::new(central, number, Wire::Prompt, Dice::new(dice.roll()));
        let going = Going {
            behind: dice.below(7_200 * SECOND) as i64 - (3_600 * SECOND) as i64,
            slow: dice.below(100),
        };
        let start = Timestamp::from_micros(central.now() - going.behind);
        let clock = ManualClock::starting_at(start);
        let set = LimitSet::builder()
            .name("slots")
            .limit(Limit::concurrency("slots", capacity))
            .clock(clock.clock())
            .store(Arc::new(store.share()))
            .tier(tier)
            .build();
        Self {
            set: set.expect("slots that nodes give out"),
            store,
            clock,
            going,
            is_killed: false,
            pending: Vec::new(),
            held: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.clock().now()
    }

    /// Its clock goes on to where it is when the store's says `now`.
    fn sync(&self, now: i64) {
        let passed = (now - START) as u64;
        let lost = passed * self.going.slow / 100_000;
        let shown = now - self.going.behind - lost as i64;
        self.clock.set(Timestamp::from_micros(shown));
    }

    fn acquire(&mut self, slots: u64, ttl: u64) {
        let (set, asked) = (self.set.clone(), self.now());
        let amounts = [("slots", slots)];
        self.pending.push(Box::pin(async move {
            let request = Request::from(&amounts).ttl(Duration::from_micros(ttl));
            let Ok(Admission::Granted(lease)) = set.try_acquire(KEY, request).await else {
                return News::None;
            };
            let is_nodes = lease.fence().is_none();
            let sure_until = sure(lease.expires_at(), asked).min(lease.sure_until());
            let id = lease.detach();
            let held = Held {
                id,
                slots,
                sure_until,
            };
            News::Granted(held, is_nodes)
        }));
    }

    fn renew(&mut self, at: usize, ttl: u64) {
        let (set, asked, id) = (self.set.clone(), self.now(), self.held[at].id);
        // Whoever asks for less believes in less from here on.
        let least = asked.as_micros() + (ttl - ttl / 1_000) as i64;
        let held = &mut self.held[at];
        held.sure_until = held.sure_until.min(Timestamp::from_micros(least));
        self.pending.push(Box::pin(async move {
            match set.renew(KEY, id, Duration::from_micros(ttl)).await {
                Ok(until) => News::Renewed(id, sure(until, asked)),
                Err(tidegate::LeaseError::Ended(_) | tidegate::LeaseError::Unknown) => {
                    News::Lost(id)
                }
                Err(_) => News::None,
            }
        }));
    }

    fn release(&mut self, at: usize) {
        let held = self.held.swap_remove(at);
        let set = self.set.clone();
        self.pending.push(Box::pin(async move {
            drop(set.release(KEY, held.id).await);
            News::None
        }));
    }

    /// Takes down what was told since.
    fn collect(&mut self, told: &mut Told) {
        let mut context = Context::from_waker(Waker::noop());
        let mut news = Vec::new();
        self.pending.retain_mut(|pending| {
            let Poll::Ready(one) = pending.as_mut().poll(&mut context) else {
                return true;
            };
            news.push(one);
            false
        });
        for one in news {
            match one {
                News::Granted(held, is_nodes) => {
                    told.by_nodes += u64::from(is_nodes);
                    told.by_store += u64::from(!is_nodes);
                    self.held.push(held);
                }
                News::Renewed(id, until) => {
                    // One whose holder was sure no more stays lost.
                    let now = self.now();
                    let held = self.held.iter_mut().find(|held| held.id == id);
                    if let Some(held) = held.filter(|held| now < held.sure_until) {
                        held.sure_until = until;
                    }
                }
                News::Lost(id) => self.held.retain(|held| held.id != id),
                News::None => {}
            }
        }
    }

    /// How many slots are held of it for sure.
    fn sure(&self) -> u64 {
        let now = self.now();
        let held = self.held.iter().filter(|held| now < held.sure_until);
        held.map(|held| held.slots).sum()
    }
}

impl History {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let central = Central::starting_at(START);
        let capacity = dice.within(2, 16);
        let hold = dice.one_of(&[50_000, SECOND, 5 * SECOND]);
        let tier = Tier::leased(1)
            .batch_of("slots", dice.within(2, capacity))
            .hold(Duration::from_micros(hold))
            .idle(Duration::from_micros(
                dice.one_of(&[20_000, 400_000, SECOND]),
            ))
            .low_water(dice.one_of(&[0, 20, 100]));
        let count = dice.within(1, 8) as usize;
        let nodes = (0..count)
            .map(|number| Node::new((&central, number), (capacity, tier.clone()), &mut dice));
        let nodes = nodes.collect();
        let told = Told {
            nodes: count,
            capacity,
            ..Told::default()
        };
        Self {
            central,
            nodes,
            dice,
            told,
        }
    }

    fn step(&mut self) {
        let node = self.dice.below(self.nodes.len() as u64) as usize;
        let ttl = self.dice.within(1, 15) * SECOND;
        let is_killed = self.nodes[node].is_killed;
        match self.dice.below(100) {
            0..40 if !is_killed => {
                let slots = self.dice.within(1, 2);
                self.nodes[node].acquire(slots, ttl);
            }
            40..60 if !is_killed && !self.nodes[node].held.is_empty() => {
                let at = self.dice.below(self.nodes[node].held.len() as u64) as usize;
                self.nodes[node].release(at);
            }
            60..72 if !is_killed && !self.nodes[node].held.is_empty() => {
                let at = self.dice.below(self.nodes[node].held.len() as u64) as usize;
                self.nodes[node].renew(at, ttl);
            }
            72..77 if !is_killed => {
                let wire = match self.dice.below(8) {
                    0..3 => Wire::Prompt,
                    3..5 => Wire::Late(500, 20_000),
                    5 => Wire::Late(100_000, 2 * SECOND),
                    6 => Wire::LosesAnswers,
                    _ => Wire::Cut,
                };
                self.nodes[node].store.set(wire);
            }
            77 if !is_killed => {
                self.nodes[node].store.set(Wire::Cut);
                self.nodes[node].is_killed = true;
                self.nodes[node].pending.clear();
                self.told.kills += 1;
            }
            78..100 => {
                let most = self.dice.one_of(&[20_000, 400_000, 3 * SECOND]);
                let micros = self.dice.below(most);
                self.pass(micros);
            }
            _ => {}
        }
        self.count();
    }

    /// Time passes: what is under way arrives, each at its instant.
    fn pass(&mut self, micros: u64) {
        let until = self.central.now() + micros as i64;
        while let Some((at, letter)) = self.central.next(until) {
            self.central.set(at);
            self.nodes[letter.node].sync(at);
            drop(self.central.deliver(letter));
            self.count();
        }
        self.central.set(until);
        self.nodes.iter().for_each(|node| node.sync(until));
    }

    /// Those who are sure now.
    fn count(&mut self) {
        let now = self.central.now();
        let mut held = 0;
        for node in &mut self.nodes {
            node.sync(now);
            if !node.is_killed {
                node.collect(&mut self.told);
            }
            held += node.sure();
        }
        self.told.most = self.told.most.max(held);
    }

    /// Nobody asks any more: whatever was held is free when its time is over.
    fn end(mut self) -> Told {
        for node in self.nodes.iter().filter(|node| !node.is_killed) {
            node.store.set(Wire::Prompt);
        }
        for _ in 0..60 {
            self.pass(SECOND);
            self.count();
        }
        let node = Node::new(
            (&self.central, self.nodes.len()),
            (self.told.capacity, Tier::leased(1)),
            &mut self.dice,
        );
        let peeked = node.set.peek(KEY, 1).wait();
        let free = peeked.ok().and_then(|peeked| peeked.remaining("slots"));
        self.told.free = free.unwrap_or(0);
        // A letter holds who waits for it, and so the node and this store.
        self.nodes.iter().for_each(|node| node.store.set(Wire::Cut));
        self.nodes.clear();
        self.central.lose_all();
        self.told
    }
}
