//! A store, nodes, and what is on the wire between them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_store::core::{Amount, Span, Timestamp};
use tidegate_store::optimistic::moved;
use tidegate_store::{Decision, Detail, Ending, Partial, Plan, Reply, Terms, Verb};
use tidegate_tier::{Grant, Wish};

use crate::central::Central;
use crate::instance::{Instance, Limit, TICK};
use crate::ledger::Ledger;
use crate::member::Member;

/// When the store's clock stands at tick 0: where a window of any length begins.
const START: i64 = 1_700_000_640_000_000;

/// So far apart are the clocks of nodes.
const APART: i64 = 3_600_000_000;

/// What is on the wire. Each is delivered whenever it pleases, or never.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) id: u128,
    pub(crate) said: Said,
    /// It was delivered before.
    pub(crate) again: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// A node asks for a grant.
    Ask(Arc<Wish>),
    /// The store grants.
    Grant(Arc<Partial>),
    /// The store refuses.
    Refuse(Arc<Decision>),
    /// A node gives back what it has not spent; with `None` all, if it was granted.
    Return(Option<Amount>),
}

/// A store, nodes, what is on the wire between them, and what was admitted.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) tick: u32,
    /// How many grants were asked for.
    pub(crate) asks: u32,
    pub(crate) central: Central,
    pub(crate) nodes: SmallVec<[Member; 3]>,
    pub(crate) wire: Vec<Message>,
    pub(crate) ledger: Ledger,
    essence: Vec<i64>,
}

impl State {
    pub(crate) fn new(instance: &Instance, plan: &Arc<Plan>) -> Self {
        let node = |number: usize| Timestamp::from_micros(START + APART * (number as i64 - 1));
        let mut state = Self {
            tick: 0,
            asks: 0,
            central: Central::new(plan),
            nodes: (0..instance.nodes)
                .map(|at| Member::new(node(at)))
                .collect(),
            wire: Vec::new(),
            ledger: Ledger::new(),
            essence: Vec::new(),
        };
        state.tidy(instance, plan);
        state
    }

    /// The store's clock.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(START) + Span::from_micros(u64::from(self.tick) * TICK)
    }

    /// What counts as admitted: see [`Instance::bound`].
    #[must_use]
    pub const fn counted(&self) -> Amount {
        self.ledger.counted()
    }

    /// What the store has granted beyond its limit.
    pub(crate) fn debt(&self, plan: &Plan) -> Amount {
        self.central.debt(plan, self.now())
    }

    /// So many requests for grants and answers are on the wire.
    pub(crate) fn in_flight(&self) -> usize {
        let is_counted = |message: &&Message| !matches!(message.said, Said::Return(_));
        self.wire.iter().filter(is_counted).count()
    }

    /// The node that waits for the grant `id`.
    pub(crate) fn asker(&self, id: u128) -> Option<usize> {
        let asks = |node: &Member| node.asked.as_ref().is_some_and(|asked| asked.id == id);
        self.nodes.iter().position(asks)
    }

    pub(crate) fn send(&mut self, id: u128, said: Said) {
        self.wire.push(Message {
            id,
            said,
            again: false,
        });
    }

    /// Sends a return, if there is room for one: else it is lost.
    pub(crate) fn send_return(&mut self, instance: &Instance, id: u128, spent: Option<Amount>) {
        if self.wire.len() - self.in_flight() < instance.returns {
            self.send(id, Said::Return(spent));
        }
    }

    pub(crate) fn give_back(&mut self, instance: &Instance, grants: Vec<Grant>) {
        // As the node does: of a grant that was spent whole nothing comes back.
        for grant in grants.into_iter().filter(|grant| !grant.units.is_spent()) {
            self.send_return(instance, grant.id, Some(grant.units.spent()[0]));
        }
    }

    /// A request for a grant has come to the store: what it says.
    pub(crate) fn decide(
        &mut self,
        instance: &Instance,
        plan: &Arc<Plan>,
        (id, wish): (u128, &Wish),
    ) -> Option<Said> {
        let now = self.now();
        // The node speaks by its clock, and is answered by it.
        let asked = self
            .asker(id)
            .map_or(now, |node| self.nodes[node].asked_at());
        let terms = Terms {
            id,
            expires_at: asked + Span::from_micros(u64::from(instance.hold) * TICK),
            idempotency: None,
            least: Some(&wish.least),
        };
        let verb = Verb::Take {
            amounts: &wish.amounts,
            lease: Some(terms),
            detail: Detail::Always,
        };
        let verb = verb.translated(|at| moved(at, asked, now));
        match self.central.execute(plan, now, verb).ok()? {
            Reply::Partial(mut partial) => {
                partial.good_until = moved(partial.good_until, now, asked);
                if let Some(lease) = &mut partial.decision.lease {
                    lease.expires_at = moved(lease.expires_at, now, asked);
                }
                Some(Said::Grant(Arc::new(*partial)))
            }
            Reply::Decision(decision) => Some(Said::Refuse(Arc::new(decision))),
            other => panic!("no answer to a request for a grant: {other:?}"),
        }
    }

    /// A return has come to the store.
    pub(crate) fn end(&mut self, plan: &Arc<Plan>, id: u128, spent: Option<Amount>) {
        let used = [spent];
        let ending = match spent {
            Some(_) => Ending::Settle(&used),
            None => Ending::Cancel,
        };
        let verb = Verb::End {
            id,
            ending,
            remember: false,
        };
        // One that is unknown changes nothing, and neither does the answer.
        let _ = self.central.execute(plan, self.now(), verb);
    }

    /// Drops what can change nothing any more, and notes what the rest amounts to.
    pub(crate) fn tidy(&mut self, instance: &Instance, plan: &Arc<Plan>) {
        let now = self.now();
        let (nodes, central) = (&self.nodes, &self.central);
        let asked: SmallVec<[u128; 3]> = nodes
            .iter()
            .filter_map(|node| node.asked.as_ref().map(|asked| asked.id))
            .collect();
        self.wire.retain(|message| match message.said {
            Said::Grant(_) | Said::Refuse(_) => asked.contains(&message.id),
            _ => true,
        });
        let to_come: SmallVec<[u128; 4]> = self
            .wire
            .iter()
            .filter(|message| matches!(message.said, Said::Ask(_)))
            .map(|message| message.id)
            .collect();
        self.wire.retain(|message| match message.said {
            Said::Return(spent) => {
                let spent = spent.unwrap_or(0);
                to_come.contains(&message.id) || central.gives_back(plan, now, (message.id, spent))
            }
            _ => true,
        });
        let mut wanted: SmallVec<[u128; 8]> = self.wire.iter().map(|one| one.id).collect();
        wanted.extend(self.nodes.iter().flat_map(Member::ids));
        self.central.keep(|id| wanted.contains(&id));
        self.essence = self.amount_to(instance, plan, &wanted);
    }

    /// What says how all goes on. Nodes are alike, and a lease is known by who holds it.
    /// All time is counted from now on, so that histories of any length come to the same.
    fn amount_to(&self, instance: &Instance, plan: &Arc<Plan>, ids: &[u128]) -> Vec<i64> {
        let phase = match instance.limit {
            _ if instance.ticks.is_some() => self.tick,
            Limit::Window { ticks, .. } => self.tick % ticks,
            Limit::Bucket { .. } => 0,
        };
        let mut out = vec![i64::from(phase), self.ledger.counted() as i64];
        self.central.essence(plan, self.now(), &mut out);
        let mut parts: SmallVec<[Vec<i64>; 8]> = SmallVec::new();
        let mut known: SmallVec<[u128; 8]> = SmallVec::new();
        for node in &self.nodes {
            known.extend(node.ids());
            parts.push(node.essence(instance, |grant, out| {
                self.essence_of(instance, plan, grant, out);
            }));
        }
        parts.sort_unstable();
        let nodes = parts.len();
        for &id in ids {
            if !known.contains(&id) {
                known.push(id);
                let mut part = vec![-3];
                self.essence_of(instance, plan, (id, 0), &mut part);
                parts.push(part);
            }
        }
        parts[nodes..].sort_unstable();
        for part in parts {
            out.push(-9);
            out.extend(part);
        }
        out
    }

    /// What there is of a lease, of which so much is spent, at the store and on the wire.
    fn essence_of(
        &self,
        instance: &Instance,
        plan: &Arc<Plan>,
        (id, spent): (u128, Amount),
        out: &mut Vec<i64>,
    ) {
        out.push(-4);
        let own = || self.wire.iter().filter(move |message| message.id == id);
        let returned = own().find_map(|message| match message.said {
            Said::Return(spent) => Some(spent.unwrap_or(0)),
            _ => None,
        });
        let of = (id, returned.unwrap_or(spent));
        self.central.essence_of_lease(plan, self.now(), of, out);
        // A lease may be made anew by a request that comes once more, unless it is there: then it
        // counts how much was said to be spent of the first.
        let may_come = own().any(|message| matches!(message.said, Said::Ask(_)));
        if may_come {
            out.extend([of.1 as i64, i64::from(self.central.has(id))]);
        }
        let mut messages: SmallVec<[(i64, i64, i64, i64); 4]> = SmallVec::new();
        for message in own() {
            let (kind, one, two) = match &message.said {
                Said::Ask(wish) => {
                    let wished = (wish.amounts[0] * 1_000 + wish.least[0]) as i64;
                    let node = self.asker(id).map(|asker| &self.nodes[asker]);
                    (1, wished, node.map_or(0, |node| node.waits_for(instance)))
                }
                Said::Grant(partial) => {
                    let asker = self.asker(id).expect("others are dropped");
                    let left = self.nodes[asker].left_of(instance, plan, partial);
                    let amount = partial.amounts[0] as i64;
                    // What comes too late is given back whatever it was.
                    let is_late = left == 0 && instance.off.is_none();
                    (2, if is_late { 0 } else { amount }, left)
                }
                Said::Refuse(_) => (3, 0, 0),
                Said::Return(_) => (4, 0, 0),
            };
            messages.push((kind, one, two, i64::from(message.again)));
        }
        messages.sort_unstable();
        for (kind, one, two, again) in messages {
            out.extend([-5, kind, one, two, again]);
        }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.essence == other.essence
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.essence.hash(state);
    }
}
