//! The store as one node reaches it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate_store::{
    Abilities, Change, Command, Defined, Definition, Definitions, Execution, Follower, Out,
    OwnedCommand, Plan, Store, StoreError, StoreFuture, Table, response_channel,
};

use crate::central::{Central, Content, Letter, is_nodes_own};
use crate::dice::Dice;

/// What becomes of a command and its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wire {
    /// It is answered at once.
    Prompt,
    /// Each way takes at random from one to the other, in microseconds: of a request for a
    /// grant, and of units that go back. All else is answered at once, since what the store
    /// itself has admitted counts when it did, not when it is told.
    Late(u64, u64),
    /// It is done, and the answer is lost.
    LosesAnswers,
    /// Nothing gets through.
    Cut,
}

/// A node's own way to the store.
pub struct NodeStore(Arc<Link>);

struct Link {
    central: Arc<Central>,
    node: usize,
    wire: Mutex<Wire>,
    dice: Mutex<Dice>,
    follower: Mutex<Option<(String, Weak<dyn Follower>)>>,
    /// The newest version of limits that the node has gone over to.
    newest: AtomicU64,
}

impl NodeStore {
    /// Of the node of this number.
    #[must_use]
    pub fn new(central: &Arc<Central>, node: usize, wire: Wire, dice: Dice) -> Self {
        Self(Arc::new(Link {
            central: Arc::clone(central),
            node,
            wire: Mutex::new(wire),
            dice: Mutex::new(dice),
            follower: Mutex::default(),
            newest: AtomicU64::new(0),
        }))
    }

    /// The same, for another to hold.
    #[must_use]
    pub fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    /// From here on this becomes of commands.
    pub fn set(&self, wire: Wire) {
        *self.0.wire.lock() = wire;
    }

    /// The node hears of what others have defined.
    pub fn hear(&self) {
        let follower = self.0.follower.lock().clone();
        let Some((owner, follower)) = follower else {
            return;
        };
        if let Some(follower) = follower.upgrade() {
            let newer_than = follower.version();
            let definitions = self.0.central.memory.definitions(&owner, newer_than);
            let definitions = definitions.wait();
            definitions
                .iter()
                .for_each(|definitions| follower.follow(definitions));
        }
    }
}

impl Store for NodeStore {
    fn abilities(&self) -> Abilities {
        Abilities {
            shared: true,
            own_clock: true,
            answers_can_be_lost: true,
            counts_usage: false,
            ..self.0.central.memory.abilities()
        }
    }

    fn last_plan(&self, _: &str) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(self.0.central.last_plan())
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.0.central.memory.definitions(owner, newer_than)
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.0.central.memory.definition(owner, key)
    }

    /// The node itself has heard of it before it is told.
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        let changed = self.0.central.memory.change(owner, change);
        self.hear();
        changed
    }

    /// It hears when it is [told to](NodeStore::hear).
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        *self.0.follower.lock() = Some((owner.to_owned(), follower));
    }

    fn open(&self, _: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        self.0.central.open(plan)?;
        Ok(Arc::clone(&self.0) as Arc<dyn Table>)
    }
}

impl Link {
    fn lost() -> StoreError {
        StoreError::Unavailable("the wire is cut".to_owned())
    }

    /// Puts a command on its way.
    fn send(&self, command: &Command<'_>, (least, most): (u64, u64)) -> StoreFuture {
        let mut dice = self.dice.lock();
        let (there, back) = (dice.within(least, most), dice.within(least, most));
        drop(dice);
        let (responder, later) = response_channel(drop);
        let letter = Letter {
            node: self.node,
            content: Content::Command(OwnedCommand::of(command), back),
            responder,
        };
        self.central.send(letter, there);
        later
    }
}

impl Table for Link {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        // As stores beyond a network do: a node asks by no limits that it has gone over from.
        let version = command.plan.version();
        if self.newest.fetch_max(version, Ordering::Relaxed) > version {
            return out.ready(Err(StoreError::StalePlan));
        }
        let wire = *self.wire.lock();
        match wire {
            Wire::Cut => out.ready(Err(Self::lost())),
            Wire::LosesAnswers => {
                drop(self.central.decide(command));
                out.ready(Err(Self::lost()))
            }
            Wire::Late(least, most) if is_nodes_own(command) => {
                self.send(command, (least, most)).into()
            }
            Wire::Late(..) | Wire::Prompt => out.ready(self.central.decide(command)),
        }
    }
}
