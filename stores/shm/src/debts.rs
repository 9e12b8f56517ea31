//! A lease, or a place in a queue, that this process [owes](crate::owed).

use std::sync::Arc;

use tidegate_store::core::Timestamp;
use tidegate_store::{Ending, KeyCommand, KeyPath, OwnedPath, Plan, StoreError, Verb};

use crate::decide::Inner;
use crate::keys::Spot;
use crate::owed::Debt;

/// If the limits change meanwhile, a lease is ended so often at once.
const MOST_STALE: usize = 64;

/// What is to be given back, and where.
pub(crate) struct Unpaid {
    table: Arc<Inner>,
    shard: usize,
    what: What,
}

enum What {
    /// A lease.
    Lease {
        path: OwnedPath,
        plan: Arc<Plan>,
        now: Timestamp,
        id: u128,
        ending: Unseen,
    },
    /// A place in the queue of a root.
    Place {
        root: Box<[u8]>,
        levels: usize,
        turn: u128,
    },
}

/// How a lease ends of which nobody says what was used.
enum Unseen {
    Release,
    Cancel,
    /// For each limit of its plan, whether its amount is given back.
    Fail(Box<[bool]>),
}

impl Unpaid {
    /// The end of a lease that nobody asks for again, if `command` is one.
    pub(crate) fn of(table: &Arc<Inner>, command: &KeyCommand<'_>) -> Option<Self> {
        let Verb::End {
            id,
            ending,
            remember: false,
        } = command.verb
        else {
            return None;
        };
        let ending = match ending {
            Ending::Release => Unseen::Release,
            Ending::Cancel => Unseen::Cancel,
            Ending::Fail(refunds) => Unseen::Fail(refunds.into()),
            Ending::Settle(_) => return None,
        };
        Some(Self {
            table: Arc::clone(table),
            shard: shard_of(table, command.key.root()),
            what: What::Lease {
                path: OwnedPath::of(&command.key),
                plan: Arc::clone(command.plan),
                now: command.now,
                id,
                ending,
            },
        })
    }

    /// The place of a turn in the queue of `root`.
    pub(crate) fn place(table: &Arc<Inner>, root: &[u8], levels: usize, turn: u128) -> Self {
        Self {
            table: Arc::clone(table),
            shard: shard_of(table, root),
            what: What::Place {
                root: root.into(),
                levels,
                turn,
            },
        }
    }

    /// Ends a lease by the limits of now.
    fn end(
        &self,
        (path, plan, now): (&KeyPath<'_>, &Arc<Plan>, Timestamp),
        id: u128,
        ending: &Unseen,
    ) -> Result<(), StoreError> {
        let mut ended = Err(StoreError::StalePlan);
        for _ in 0..MOST_STALE {
            let newest = self.table.revisions.newest_plan();
            let newest = newest.as_ref().unwrap_or(plan);
            let refunds = match ending {
                Unseen::Fail(refunds) => moved(refunds, plan, newest),
                Unseen::Release | Unseen::Cancel => Vec::new(),
            };
            let ending = match ending {
                Unseen::Release => Ending::Release,
                Unseen::Cancel => Ending::Cancel,
                Unseen::Fail(_) => Ending::Fail(&refunds),
            };
            let command = KeyCommand {
                plan: newest,
                key: *path,
                now,
                // What is given back needs none: it goes where it was charged.
                calendars: &[],
                verb: Verb::End {
                    id,
                    ending,
                    remember: false,
                },
            };
            ended = self.table.execute(&command).map(drop);
            if ended != Err(StoreError::StalePlan) {
                break;
            }
        }
        ended
    }
}

impl Debt for Unpaid {
    fn shard(&self) -> usize {
        self.shard
    }

    fn pay(&self) -> Result<(), StoreError> {
        match &self.what {
            What::Lease {
                path,
                plan,
                now,
                id,
                ending,
            } => self.end((&path.lend(), plan, *now), *id, ending),
            What::Place { root, levels, turn } => self.table.give_up(root, *levels, *turn),
        }
    }
}

/// The shard of a root.
pub(crate) fn shard_of(table: &Inner, root: &[u8]) -> usize {
    Spot::new(table.shared.steps.segment.seed(), table.number, root).shard
}

/// What is said of each limit of `from`, for those of `to`.
fn moved(said: &[bool], from: &Plan, to: &Plan) -> Vec<bool> {
    let of = |uid| from.position(uid).and_then(|at| said.get(at).copied());
    let limits = to.limits().iter();
    limits.map(|limit| of(limit.uid) == Some(true)).collect()
}
