//! What can happen next, as `stateright` asks for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stateright::{Model, Property};
use tidegate_store::Plan;
use tidegate_store::core::Amount;

use crate::instance::Instance;
use crate::state::{Said, State};

/// The property that no history admits more than it may.
pub const BOUND: &str = "nothing is admitted beyond the bound";

/// The property that the store keeps to its own limit.
pub const STORE: &str = "the store grants what its limit has";

/// Something that happens. Nodes and messages are numbered from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// A tick passes; the clocks of nodes whose bits are set lose a thousandth of it.
    Pass {
        /// Those nodes.
        slow: u8,
    },
    /// A node admits a request that takes so much.
    Admit {
        /// The node.
        node: usize,
        /// What the request takes.
        cost: Amount,
    },
    /// A node asks for a grant.
    Ask {
        /// The node.
        node: usize,
        /// What the request takes that needs it.
        cost: Amount,
        /// What all take that wait for it.
        waiting: Amount,
    },
    /// A message is delivered, and may come again.
    Deliver {
        /// The message.
        message: usize,
        /// It stays on the wire, to be delivered once more.
        again: bool,
    },
    /// A request for a grant, or a return, is lost on the wire.
    Lose {
        /// The message.
        message: usize,
    },
    /// A node gives up on an answer.
    Fail {
        /// The node.
        node: usize,
    },
    /// A node gives back all that it holds.
    GiveBack {
        /// The node.
        node: usize,
    },
    /// A node is killed, and begins anew.
    Crash {
        /// The node.
        node: usize,
    },
}

/// Every history of an instance.
#[derive(Debug)]
pub struct Fleet {
    instance: Instance,
    plan: Arc<Plan>,
    most: AtomicU64,
}

impl Fleet {
    /// Every history of `instance`.
    #[must_use]
    pub fn new(instance: Instance) -> Self {
        Self {
            plan: instance.limit.plan(),
            instance,
            most: AtomicU64::new(0),
        }
    }

    /// The most that any history has admitted so far: see [`Instance::bound`].
    #[must_use]
    pub fn most(&self) -> Amount {
        self.most.load(Ordering::Relaxed)
    }

    fn of_nodes(&self, state: &State, actions: &mut Vec<Action>) {
        let instance = &self.instance;
        let may_ask = state.in_flight() < instance.in_flight;
        for (node, member) in state.nodes.iter().enumerate() {
            let covered = instance.costs.iter().filter(|&&cost| member.covers(cost));
            actions.extend(covered.map(|&cost| Action::Admit { node, cost }));
            if may_ask && member.asked.is_none() {
                for &cost in instance.costs {
                    if instance.is_calm && member.covers(cost) {
                        continue;
                    }
                    let all = instance.waiting.iter();
                    actions.extend(all.map(|&waiting| Action::Ask {
                        node,
                        cost,
                        waiting,
                    }));
                }
            }
            if member.asked.is_some() && instance.fails {
                actions.push(Action::Fail { node });
            }
            if !instance.is_calm && !member.ids().is_empty() {
                if member
                    .grants
                    .kept()
                    .iter()
                    .any(|grant| !grant.units.is_spent())
                {
                    actions.push(Action::GiveBack { node });
                }
                if instance.fails {
                    actions.push(Action::Crash { node });
                }
            }
        }
    }

    fn of_wire(&self, state: &State, actions: &mut Vec<Action>) {
        for (message, one) in state.wire.iter().enumerate() {
            actions.push(Action::Deliver {
                message,
                again: false,
            });
            let is_to_store = matches!(one.said, Said::Ask(_) | Said::Return(_));
            // What is doubled may be on the wire for long, beside all else.
            let has_room =
                matches!(one.said, Said::Return(_)) || state.in_flight() < self.instance.in_flight;
            if self.instance.doubles && is_to_store && !one.again && has_room {
                actions.push(Action::Deliver {
                    message,
                    again: true,
                });
            }
            // While its node waits, a request that is lost is one that is not delivered.
            if is_to_store && state.asker(one.id).is_none() {
                actions.push(Action::Lose { message });
            }
        }
    }

    fn deliver(&self, state: &mut State, message: usize, again: bool) {
        let one = match again {
            true => {
                state.wire[message].again = true;
                state.wire[message].clone()
            }
            false => state.wire.remove(message),
        };
        match one.said {
            Said::Ask(wish) => {
                let said = state.decide(&self.instance, &self.plan, (one.id, &wish));
                if let Some(said) = said {
                    state.send(one.id, said);
                }
            }
            Said::Return(spent) => state.end(&self.plan, one.id, spent),
            Said::Grant(partial) => {
                let Some(node) = state.asker(one.id) else {
                    return;
                };
                let partial = Arc::unwrap_or_clone(partial);
                let deeds = state.nodes[node].granted(&self.instance, &self.plan, partial);
                state.ledger.admit(deeds.admits);
                state.give_back(&self.instance, deeds.back);
            }
            Said::Refuse(decision) => {
                let Some(node) = state.asker(one.id) else {
                    return;
                };
                let back = state.nodes[node].refused(Arc::unwrap_or_clone(decision));
                state.give_back(&self.instance, back);
            }
        }
    }

    fn pass(&self, state: &mut State, slow: u8) {
        state.tick += 1;
        state.ledger.pass(&self.instance, state.tick);
        let now = state.now();
        state.central.pass(&self.plan, now);
        for node in 0..state.nodes.len() {
            let over = state.nodes[node].pass(&self.instance, slow & (1 << node) != 0);
            state.give_back(&self.instance, over);
        }
    }

    /// Which clocks may lose time in a tick: of nodes that measure nothing none.
    fn slownesses(&self, state: &State) -> impl Iterator<Item = u8> {
        let measures = state.nodes.iter().enumerate();
        let measures = measures.filter(|(_, node)| node.measures());
        let all = measures.fold(0, |all, (node, _)| all | 1_u8 << node);
        let drifts = self.instance.drifts;
        (0..1_u8 << state.nodes.len()).filter(move |&slow| {
            if drifts {
                slow & !all == 0
            } else {
                slow == all
            }
        })
    }

    fn act(&self, state: &mut State, action: &Action) -> Option<()> {
        match *action {
            Action::Pass { slow } => self.pass(state, slow),
            Action::Admit { node, cost } => {
                state.nodes[node].admit(cost).then_some(())?;
                state.ledger.admit(cost);
            }
            Action::Ask {
                node,
                cost,
                waiting,
            } => {
                let id = u128::from(state.asks);
                let member = &mut state.nodes[node];
                let wish = member.ask(&self.instance, id, (cost, waiting))?;
                state.asks += 1;
                state.send(id, Said::Ask(Arc::new(wish)));
            }
            Action::Deliver { message, again } => self.deliver(state, message, again),
            Action::Lose { message } => drop(state.wire.remove(message)),
            Action::Fail { node } => {
                let id = state.nodes[node].fail()?;
                state.send_return(&self.instance, id, None);
            }
            Action::GiveBack { node } => {
                let all = state.nodes[node].grants.take_all();
                state.give_back(&self.instance, all);
            }
            Action::Crash { node } => state.nodes[node].crash(),
        }
        Some(())
    }
}

impl Model for Fleet {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(&self.instance, &self.plan)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !self.instance.is_calm && state.counted() > self.instance.bound() {
            return;
        }
        self.of_wire(state, actions);
        self.of_nodes(state, actions);
        let goes_on = self.instance.ticks.is_none_or(|ticks| state.tick < ticks);
        if goes_on && (!self.instance.is_calm || state.wire.is_empty()) {
            actions.extend(self.slownesses(state).map(|slow| Action::Pass { slow }));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.act(&mut state, &action)?;
        state.tidy(&self.instance, &self.plan);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(BOUND, |fleet: &Self, state: &State| {
                fleet.most.fetch_max(state.counted(), Ordering::Relaxed);
                state.counted() <= fleet.instance.bound()
            }),
            Property::always(STORE, |fleet: &Self, state: &State| {
                state.debt(&fleet.plan) == 0
            }),
        ]
    }
}
