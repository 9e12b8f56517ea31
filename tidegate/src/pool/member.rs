//! One set of a pool, and what a balancer sees of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_store::Hold;
use tidegate_store::sync::atomic::{AtomicU64, Ordering};

use super::ledger::Ledger;
use crate::decision::Decision;
use crate::lease_id::LeaseId;
use crate::outcome::Outcome;
use crate::set::{Inner, LimitSet, Metadata};

/// One set of a pool. Cloning shares it.
#[derive(Clone)]
pub struct Member(Arc<Shared>);

struct Shared {
    name: Arc<str>,
    set: LimitSet,
    weight: u32,
    position: usize,
    state: Arc<State>,
    ledger: Arc<Ledger>,
}

/// What stays the same when the pool around a member changes.
struct State {
    /// A number that no other member of this process ever has.
    id: u64,
    load: AtomicU64,
}

/// How many members there have been.
static MEMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl State {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            id: MEMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            load: AtomicU64::new(0),
        })
    }
}

impl Member {
    /// A member of a pool; it goes on where `before` stands, if that is the same
    /// set under the same name.
    pub(super) fn new(
        position: usize,
        (name, set, weight): (String, LimitSet, u32),
        ledger: &Arc<Ledger>,
        before: Option<&Self>,
    ) -> Self {
        let same = |known: &&Self| known.name() == name && Arc::ptr_eq(known.inner(), set.inner());
        let known = before.filter(same).map(|known| Arc::clone(&known.0.state));
        set.inner().cooling.begin();
        Self(Arc::new(Shared {
            name: name.into(),
            set,
            weight,
            position,
            state: known.unwrap_or_else(State::new),
            ledger: Arc::clone(ledger),
        }))
    }

    /// A number that no other member of this process ever has.
    pub(super) fn id(&self) -> u64 {
        self.0.state.id
    }

    /// Whether the two have one store beyond a network.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.inner().cooling.is_beside(&other.inner().cooling)
    }

    /// Its name, unique in the pool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// Its limits.
    #[must_use]
    pub fn set(&self) -> &LimitSet {
        &self.0.set
    }

    /// The words that come with its leases.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        self.0.set.metadata()
    }

    /// Its share of the work beside the others': 1 if not said, never 0.
    #[must_use]
    pub fn weight(&self) -> u32 {
        self.0.weight
    }

    /// Which it is, in the order in which members were added, from 0.
    #[must_use]
    pub fn position(&self) -> usize {
        self.0.position
    }

    /// How many leases of this pool at this member have not ended. What the
    /// set's users beside the pool hold is not counted, nor is a lease that was
    /// [detached](crate::Lease::detach).
    #[must_use]
    pub fn load(&self) -> u64 {
        self.0.state.load.load(Ordering::Relaxed)
    }

    /// Until when it is passed over, by its set's clock; nothing if it is not.
    #[must_use]
    pub fn cooling(&self) -> Option<Timestamp> {
        // Most members never cool down: those need no look at the clock.
        self.inner().cooling.until()?;
        self.cooling_at(self.inner().clock.now())
    }

    /// Passes over it for `duration` from now, or for as long as was said
    /// before if that is longer; answers until when. Leases already given
    /// stay; who waits here stays in line and is passed over until then.
    ///
    /// So do all pools of which its set is a member; on a store that processes share,
    /// those of other processes, too, from when they hear of it on: within the time that
    /// the store says, if it can be told now.
    pub fn cool_down(&self, duration: Duration) -> Timestamp {
        self.inner().cooling.cool_down(duration)
    }

    /// Ends its cool-down now, wherever it holds; who waits for it is served.
    pub fn end_cool_down(&self) {
        self.inner().cooling.end();
    }

    /// What holds whoever waits for it: its cool-down.
    pub(super) fn hold(&self) -> Arc<dyn Hold> {
        let cooling: &Arc<_> = &self.inner().cooling;
        cooling.clone()
    }

    /// `decision`, as its own.
    pub(crate) fn decided(&self, decision: Decision) -> Decision {
        decision.of(self.shared_name())
    }

    pub(crate) fn cooling_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.inner().cooling.until().filter(|&until| until > now)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        self.0.set.inner()
    }

    /// A lease was given here.
    pub(crate) fn began(&self) {
        self.0.state.load.fetch_add(1, Ordering::Relaxed);
    }

    /// A lease that was given here and handed over has ended.
    pub(crate) fn ended(&self, outcome: Outcome) {
        self.left();
        self.0.ledger.counters.ended(outcome);
    }

    /// A lease that was given here is no load any more.
    pub(crate) fn left(&self) {
        self.0.state.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// A lease that was given here and handed over lasts until `until`.
    pub(crate) fn renewed(&self, id: LeaseId, until: Timestamp) {
        self.0.ledger.repeats.renew(id.to_u128(), until);
    }

    /// A lease that was given here is held no more: its request is a new one from now on.
    pub(crate) fn forgets(&self, id: LeaseId) {
        self.0.ledger.repeats.forget(id.to_u128());
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name())
            .field("weight", &self.weight())
            .field("load", &self.load())
            .field("cooling", &self.cooling())
            .field("set", self.set())
            .finish()
    }
}
