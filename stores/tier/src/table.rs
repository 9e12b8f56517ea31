//! The table around a table.

use std::sync::Arc;

use tidegate_store::core::Amount;
use tidegate_store::{
    Answer, Command, Detail, Execution, Item, KeyPath, Op, Out, Plan, Reply, StoreFuture, Table,
    Timer, Verb, response_channel,
};

use crate::batch;
use crate::counters::TierStatistics;
use crate::key::{Key, Waiter};
use crate::node::{Asking, Node, is_grant};
use crate::pinned::PinnedKey;
use crate::settings::{Tier, can_lease};

/// The most requests of a key that wait for a grant. Others are the store's.
const MOST_WAITERS: usize = 1_024;

/// Decides what it can by grants of the table that it wraps: takes without a lease, of limits
/// of which units can be taken in advance. All else is that table's.
pub struct TierTable {
    node: Arc<Node>,
}

/// A take that may be decided here.
#[derive(Clone, Copy)]
struct Take<'c> {
    path: KeyPath<'c>,
    amounts: &'c [Amount],
    detail: Detail,
}

impl Take<'_> {
    /// What it takes of the limits that `key` reaches.
    fn of(self, key: &Key) -> Self {
        Self {
            amounts: key.reached(self.amounts),
            ..self
        }
    }
}

impl TierTable {
    /// `table`, opened by `plan`, in a tier. `timer` is the clock by which it is asked, and
    /// never steps back; `has_own_clock` says whether the store goes by another one.
    #[must_use]
    pub fn new(
        table: Arc<dyn Table>,
        tier: Tier,
        timer: Arc<dyn Timer>,
        has_own_clock: bool,
        plan: &Arc<Plan>,
    ) -> Self {
        Self {
            node: Node::new(table, tier, timer, has_own_clock, plan),
        }
    }

    /// What it has counted, and holds.
    #[must_use]
    pub fn statistics(&self) -> TierStatistics {
        self.node.statistics()
    }

    /// Gives back all that is held now, and from here on what is taken, as soon as its requests
    /// are served. What this returns ends when the store has answered all that it was sent: each
    /// within the store's deadline.
    pub fn give_back(&self) -> impl Future<Output = ()> + Send + use<> {
        self.node.close();
        self.node.answered()
    }

    /// The key of `path`, of which its caller spends without look-up; `None` where units of some
    /// limit of `plan` cannot be taken in advance, or there is no room for another key.
    #[must_use]
    pub fn pin(&self, path: &KeyPath<'_>, plan: &Arc<Plan>) -> Option<PinnedKey> {
        if !can_lease(plan) {
            return None;
        }
        let key = self.node.key(path, plan)?;
        Some(PinnedKey::new(&self.node, key))
    }

    fn take(&self, command: &Command<'_>, take: Take<'_>, out: Out<'_>) -> Execution {
        let (node, plan) = (&self.node, command.plan);
        let Some(key) = node.key(&take.path, plan) else {
            return node.table.execute(command, out);
        };
        let mut key = key.lock();
        let old = match key.follow(plan, &node.tier) {
            Ok(old) => old,
            Err(error) => return out.ready(Err(error)),
        };
        if !old.is_empty() {
            let path = key.path.clone();
            drop(key);
            node.note(plan);
            node.give_back(&path, old);
            return self.take(command, take, out);
        }
        let take = take.of(&key);
        if !key.fits(take.amounts) || key.waiters.len() >= MOST_WAITERS {
            drop(key);
            return node.table.execute(command, out);
        }
        let decided = key.decide(take.amounts, take.detail, command.now, &node.counters);
        if let Some(reply) = decided {
            let refill = refill(&mut key, &take, command, &node.tier);
            drop(key);
            let execution = out.ready(Ok(reply));
            refill.into_iter().for_each(|asking| node.ask(asking));
            return execution;
        }
        if key.grants.is_full(command.now) {
            drop(key);
            return node.table.execute(command, out);
        }
        let (responder, later) = response_channel(drop);
        key.waiters.push_back(Waiter {
            responder,
            plan: Arc::clone(plan),
            calendars: command.calendars.into(),
            amounts: take.amounts.into(),
            detail: take.detail,
            late: 0,
        });
        let asking = ask(&mut key, &take, command);
        drop(key);
        asking.into_iter().for_each(|asking| node.ask(asking));
        Execution::from(later)
    }

    /// The reply to one of a batch, if it can be decided by what is here.
    fn at_hand(&self, command: &Command<'_>, (path, verb): Item<'_>) -> Option<Reply> {
        let take = self.is_ours(command.plan, path, &verb)?;
        let key = self.node.kept(&path)?;
        let mut key = key.lock();
        let take = take.of(&key);
        if key.plan.version() != command.plan.version() || !key.fits(take.amounts) {
            return None;
        }
        key.decide(take.amounts, take.detail, command.now, &self.node.counters)
    }

    /// The take that a verb is, if it may be decided here.
    fn is_ours<'c>(&self, plan: &Plan, path: KeyPath<'c>, verb: &Verb<'c>) -> Option<Take<'c>> {
        match *verb {
            Verb::Take {
                amounts,
                lease: None,
                detail,
            } if can_lease(plan) => Some(Take {
                path,
                amounts,
                detail,
            }),
            _ => None,
        }
    }

    /// A key is forgotten: what was taken in advance of it is given back before.
    fn forget(&self, path: &KeyPath<'_>) {
        let Some(key) = self.node.kept(path) else {
            return;
        };
        let mut key = key.lock();
        key.grants.forget_refusal();
        let (of, grants) = (key.path.clone(), key.grants.take_all());
        drop(key);
        self.node.give_back(&of, grants);
    }
}

impl Table for TierTable {
    fn execute(&self, command: &Command<'_>, mut out: Out<'_>) -> Execution {
        let table = &self.node.table;
        match command.op {
            Op::One(path, verb) => {
                if matches!(verb, Verb::Reset) {
                    self.forget(&path);
                }
                match self.is_ours(command.plan, path, &verb) {
                    Some(take) if command.patience.is_none() => self.take(command, take, out),
                    _ => table.execute(command, out),
                }
            }
            Op::Batch(items) => {
                for (path, _) in items.iter().filter(|(_, verb)| matches!(verb, Verb::Reset)) {
                    self.forget(path);
                }
                let at_hand = |item: Item<'_>| self.at_hand(command, item);
                batch::execute(&**table, command, items, at_hand, out)
            }
            Op::Adopt => {
                self.node.note(command.plan);
                table.execute(command, out)
            }
            Op::ListLeases(_) => {
                let execution = table.execute(command, out.lend());
                if execution.is_ready() {
                    let answer = out.take();
                    return out.ready(without_grants(answer));
                }
                execution.map(|later| StoreFuture::new(async { without_grants(later.await) }))
            }
            Op::ListKeys(_) | Op::ListUsage(..) | Op::Count => table.execute(command, out),
        }
    }
}

impl Drop for TierTable {
    fn drop(&mut self) {
        self.node.close();
    }
}

/// A grant before a request needs one, if little is left.
fn refill(key: &mut Key, take: &Take<'_>, command: &Command<'_>, tier: &Tier) -> Option<Asking> {
    let hundredths = tier.low_water_hundredths();
    match key.grants.is_low(&key.batch, hundredths, &[], command.now) {
        true => ask(key, take, command),
        false => None,
    }
}

/// A grant that covers this take at least, unless one is on its way.
fn ask(key: &mut Key, take: &Take<'_>, command: &Command<'_>) -> Option<Asking> {
    let wish = key.ask(take.amounts)?;
    Some(Asking::new(
        key,
        command.calendars.into(),
        wish,
        command.now,
    ))
}

/// A page of leases, without those that are grants of nodes.
fn without_grants(mut answer: Answer) -> Answer {
    if let Ok(Reply::Leases(page)) = &mut answer {
        page.items.retain(|lease| !is_grant(lease.id));
    }
    answer
}
