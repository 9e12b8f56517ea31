//! The table around a table.

use std::sync::Arc;

use tidegate_store::core::{Amount, Span};
use tidegate_store::sync::MutexGuard;
use tidegate_store::{
    Answer, Command, Detail, Execution, Item, KeyPath, Op, Out, OwnedCommand, OwnedPath, Plan,
    Reply, StoreFuture, Table, Terms, Timer, Verb, response_channel,
};

use crate::batch;
use crate::counters::TierStatistics;
use crate::given::is_about_given;
use crate::key::{Key, Waiter};
use crate::node::{Asking, Node, SharedKey};
use crate::node_id::is_grant;
use crate::pinned::PinnedKey;
use crate::queued::{Place, Queued};
use crate::settings::{Tier, can_lease};

/// The most requests of a key that wait for a grant. Others are the store's.
const MOST_WAITERS: usize = 1_024;

/// Decides what it can by grants of the table that it wraps: takes without a lease, of limits
/// of which units can be taken in advance; and leases of slots that it holds, with all that is asked
/// of those. All else is that table's.
pub struct TierTable {
    node: Arc<Node>,
}

/// A take that may be decided here.
#[derive(Clone, Copy)]
struct Take<'c> {
    path: KeyPath<'c>,
    amounts: &'c [Amount],
    detail: Detail,
    /// It takes a lease, that lasts as long.
    ttl: Option<Span>,
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

    /// The table around which it is.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Table> {
        &self.node.table
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
        let mut guard = key.lock();
        let old = match guard.follow(plan, &node.tier) {
            Ok(old) => old,
            Err(error) => return out.ready(Err(error)),
        };
        if let Some(old) = old {
            drop(guard);
            node.note(plan);
            node.close_up(&key, old);
            return self.take(command, take, out);
        }
        let (shared, mut key) = (&key, guard);
        key.calendars.note(command);
        let take = take.of(&key);
        let is_ours = take.ttl.is_none() || key.takes_slots(take.amounts);
        if !is_ours || !key.fits(take.amounts) || key.waiters.len() >= MOST_WAITERS {
            return self.at_the_store(command, take, (shared, key), out);
        }
        if take.ttl.is_some() && !key.gives_leases(command.now) {
            return self.at_the_store(command, take, (shared, key), out);
        }
        let decided = match take.ttl {
            Some(ttl) => {
                let of = (command.now, ttl);
                key.lend(take.amounts, take.detail, of, &node.counters)
            }
            None => key.decide(take.amounts, take.detail, command.now, &node.counters),
        };
        if let Some(reply) = decided {
            let refill = refill(&mut key, &take, command, &node.tier);
            drop(key);
            let execution = out.ready(Ok(reply));
            refill.into_iter().for_each(|asking| node.ask(asking));
            return execution;
        }
        if key.grants.is_full(command.now) {
            return self.at_the_store(command, take, (shared, key), out);
        }
        let (responder, later) = match take.ttl {
            Some(_) => response_channel(self.cancels(&key.path)),
            None => response_channel(drop),
        };
        let at_the_store = take.ttl.map(|_| self.asks_the_store(command, &key));
        key.waiters.push_back(Waiter {
            responder,
            plan: Arc::clone(plan),
            calendars: command.calendars.into(),
            amounts: take.amounts.into(),
            detail: take.detail,
            ttl: take.ttl,
            late: 0,
        });
        let asking = ask(&mut key, &take, command, &node.tier);
        drop(key);
        asking.into_iter().for_each(|asking| node.ask(asking));
        match at_the_store {
            Some(asks) => StoreFuture::new(asks.unless_given(later)).into(),
            None => later.into(),
        }
    }

    /// The store decides. Where the request waits there for slots, what comes back to this node
    /// goes to the store, too.
    fn at_the_store(
        &self,
        command: &Command<'_>,
        take: Take<'_>,
        (shared, mut key): (&SharedKey, MutexGuard<'_, Key>),
        out: Out<'_>,
    ) -> Execution {
        let node = &self.node;
        if command.patience.is_none() || !key.takes_slots(take.amounts) {
            drop(key);
            return node.table.execute(command, out);
        }
        let (place, slots) = (key.queued.enter(), key.grants.take_slots());
        let closing = key.close(slots);
        drop(key);
        node.close_up(shared, closing);
        let execution = node.table.execute(command, out);
        execution.map(|later| StoreFuture::new(kept_while(place, later)))
    }

    /// What ends a lease whose caller went before it was told.
    fn cancels(&self, path: &OwnedPath) -> impl FnOnce(Reply) + Send + use<> {
        let (node, path) = (Arc::downgrade(&self.node), path.clone());
        move |reply| {
            if let (Some(id), Some(node)) = (reply.new_lease(), node.upgrade()) {
                node.cancel_given(&path, id);
            }
        }
    }

    fn asks_the_store(&self, command: &Command<'_>, key: &Key) -> AsksTheStore {
        AsksTheStore {
            node: Arc::clone(&self.node),
            command: OwnedCommand::of(command),
            queued: key.queued.clone(),
        }
    }

    /// The reply to one of a batch, if it can be decided by what is here.
    fn at_hand(&self, command: &Command<'_>, (path, verb): Item<'_>) -> Option<Reply> {
        let take = self.is_ours(command, path, &verb)?;
        let key = self.node.kept(&path).filter(|_| take.ttl.is_none())?;
        let mut key = key.lock();
        let take = take.of(&key);
        if key.plan.version() != command.plan.version() || !key.fits(take.amounts) {
            return None;
        }
        key.decide(take.amounts, take.detail, command.now, &self.node.counters)
    }

    /// The take that a verb is, if it may be decided here.
    fn is_ours<'c>(
        &self,
        command: &Command<'_>,
        path: KeyPath<'c>,
        verb: &Verb<'c>,
    ) -> Option<Take<'c>> {
        let Verb::Take {
            amounts,
            lease,
            detail,
        } = *verb
        else {
            return None;
        };
        // A retry may come to another node, which would know nothing of it.
        let has_slots = || self.node.tier.leases_slots_of(command.plan);
        let is_known_here =
            |terms: &Terms<'_>| terms.idempotency.is_none() && terms.least.is_none() && has_slots();
        let is_ours = lease.as_ref().is_none_or(is_known_here) && can_lease(command.plan);
        is_ours.then_some(Take {
            path,
            amounts,
            detail,
            ttl: lease.map(|terms| terms.expires_at.since(command.now)),
        })
    }

    /// A key is forgotten: what was taken in advance of it is given back before.
    fn forget(&self, path: &KeyPath<'_>) {
        let Some(shared) = self.node.kept(path) else {
            return;
        };
        let mut key = shared.lock();
        key.grants.forget_refusal();
        let all = key.grants.take_all();
        let closing = key.close(all);
        drop(key);
        self.node.close_up(&shared, closing);
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
                if is_about_given(&verb) {
                    return self.node.execute_given(command, (path, verb), out);
                }
                match self.is_ours(command, path, &verb) {
                    Some(take) => self.take(command, take, out),
                    None => table.execute(command, out),
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
    match key.is_low(take.amounts, hundredths, command.now) {
        true => ask(key, take, command, tier),
        false => None,
    }
}

/// A grant that covers this take at least, unless one is on its way.
fn ask(key: &mut Key, take: &Take<'_>, command: &Command<'_>, tier: &Tier) -> Option<Asking> {
    let wish = key.ask(take.amounts)?;
    Some(Asking::new(
        key,
        command.calendars.into(),
        wish,
        (command.now, tier.hold_span()),
    ))
}

/// Asks the store for a lease that no grant covers.
struct AsksTheStore {
    node: Arc<Node>,
    command: OwnedCommand,
    queued: Queued,
}

impl AsksTheStore {
    /// What `later` answers, or else the store.
    async fn unless_given(mut self, later: StoreFuture) -> Answer {
        match later.await {
            Ok(Reply::Done) => {}
            answer => return answer,
        }
        let _place = self.command.patience().map(|_| self.queued.enter());
        self.command.shift(self.node.timer.now());
        let mut answer = Ok(Reply::Done);
        let ask = |command: &Command<'_>| {
            let execution = self.node.table.execute(command, Out::new(&mut answer));
            execution.pending()
        };
        match self.command.lend(ask) {
            None => answer,
            Some(later) => later.await,
        }
    }
}

/// What `later` answers; its request has its place for as long.
async fn kept_while(_place: Place, later: StoreFuture) -> Answer {
    later.await
}

/// A page of leases, without those that are grants of nodes.
fn without_grants(mut answer: Answer) -> Answer {
    if let Ok(Reply::Leases(page)) = &mut answer {
        page.items.retain(|lease| !is_grant(lease.id));
    }
    answer
}
