//! What a set and its leases share: commands to the table.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use rand::RngExt;
use tidegate_contract::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tidegate_contract::{
    self as contract, Command, Detail, Ending, KeyPath, OwnedKey, Plan, Reply, StoreError, Table,
    Terms, Verb,
};
use tidegate_core::{Amount, Span, Timestamp};

use super::builder::{LimitSetBuilder, Metadata};
use super::change::Changes;
use super::cooling::Cooling;
use super::keeper::Keeper;
use super::uid::{numbered, uid_in};
use super::view::{Amounts, View, lease_length};
use crate::clock::Clock;
use crate::error::Error;
use crate::lease::Settlement;
use crate::statistics::Counters;
use crate::wait::{Crowd, Lines};

/// How many sets there have been.
static SETS: AtomicU64 = AtomicU64::new(0);

/// The shared part of a set.
pub(crate) struct Inner {
    /// A number that no other set of this process ever has.
    pub(super) id: u64,
    pub(crate) view: ArcSwap<View>,
    pub(crate) table: Arc<dyn Table>,
    pub(crate) clock: Clock,
    pub(crate) metadata: Metadata,
    pub(crate) counters: Counters,
    pub(crate) lines: Lines,
    /// How many wait: while none does, nobody has to look at the lines.
    pub(crate) waiting: AtomicUsize,
    /// Who waits where the store keeps the line.
    pub(crate) crowd: Crowd,
    /// The newest view's [`View::lone`].
    pub(super) lone: AtomicBool,
    pub(super) changes: Changes,
    /// Where its overrides are kept; `None`: they are its gate's.
    pub(super) keeper: Option<Keeper>,
    /// Until when pools pass over it.
    pub(crate) cooling: Arc<Cooling>,
}

/// What a take is to make.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// A charge without lease.
    Charge(Detail),
    /// A lease of this length.
    Lease {
        ttl: Span,
        idempotency: Option<&'a [u8]>,
    },
}

impl Inner {
    pub(super) fn new(mut builder: LimitSetBuilder) -> Result<Arc<Self>, Error> {
        let limits = std::mem::take(&mut builder.limits);
        if limits.is_empty() && !builder.unlimited {
            return Err(Error::Nothing("limit"));
        }
        let name = builder.name.as_deref().unwrap_or("default").to_owned();
        let store = builder.take_store()?;
        let last = store.last_plan(&name)?;
        let known = last.as_deref().map_or(&[][..], Plan::limits);
        let numbered = numbered(limits, |name| uid_in(known, name));
        let remember = builder.remember.map(lease_length).transpose()?;
        let changes = Changes::new(builder.levels.clone(), remember);
        let version = last.map_or(0, |plan| plan.version() + 1);
        let view = View::new(version, &builder.levels, numbered, remember)?;
        let keeper = (!builder.governed).then(|| Keeper::new(Arc::clone(&store), &name));
        let given = keeper.as_ref().map(Keeper::given).transpose()?;
        let view = changes.begin(view, given.unwrap_or_default());
        let table = store.open_within(&name, &view.plan, &builder.bounds)?;
        let clock = builder.clock.clone();
        let inner = Arc::new_cyclic(|this| Self {
            id: SETS.fetch_add(1, Ordering::Relaxed),
            lone: AtomicBool::new(view.lone),
            view: ArcSwap::from_pointee(view),
            table,
            lines: Lines::new(this.clone(), builder.waiting_bound()),
            clock: builder.clock,
            metadata: builder.metadata,
            counters: Counters::default(),
            waiting: AtomicUsize::new(0),
            crowd: Crowd::default(),
            changes,
            keeper,
            cooling: Cooling::new(this, clock, name, store),
        });
        inner.adopt();
        if let Some(keeper) = &inner.keeper {
            keeper.follow(Arc::downgrade(&inner));
        }
        Ok(inner)
    }

    /// Whether anybody waits anywhere in this set.
    #[inline]
    pub(crate) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Takes `amounts` if they fit.
    ///
    /// # Errors
    /// [`StoreError::StalePlan`] if `view` is no longer the newest; the store.
    pub(crate) fn take(
        &self,
        view: &View,
        key: &KeyPath<'_>,
        amounts: &[Amount],
        wanted: Wanted<'_>,
        now: Timestamp,
    ) -> Result<contract::Decision, Error> {
        let (lease, detail) = match wanted {
            Wanted::Charge(detail) => (None, detail),
            Wanted::Lease { ttl, idempotency } => {
                let terms = Terms {
                    id: rand::rng().random(),
                    expires_at: now + ttl,
                    idempotency,
                };
                (Some(terms), Detail::OnRefusal)
            }
        };
        let verb = Verb::Take {
            amounts,
            lease,
            detail,
        };
        view.check_reach(key, amounts)?;
        self.decide(view, key, verb, now)
    }

    /// Executes a verb that is answered by a decision.
    pub(crate) fn decide(
        &self,
        view: &View,
        key: &KeyPath<'_>,
        verb: Verb<'_>,
        now: Timestamp,
    ) -> Result<contract::Decision, Error> {
        match self.execute(view, key, verb, now)? {
            Reply::Decision(decision) => Ok(decision),
            _ => Err(mismatch()),
        }
    }

    fn execute(
        &self,
        view: &View,
        key: &KeyPath<'_>,
        verb: Verb<'_>,
        now: Timestamp,
    ) -> Result<Reply, Error> {
        let command = Command {
            plan: &view.whole,
            key: key.clone(),
            now,
            calendars: &view.calendars(now),
            verb,
        };
        Ok(self.table.execute(&command)?)
    }

    /// Runs `act` with the newest view, again if the limits change meanwhile.
    pub(crate) fn with_view<T>(
        &self,
        mut act: impl FnMut(&Arc<View>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            match act(&self.view.load()) {
                Err(Error::Store(StoreError::StalePlan)) => std::hint::spin_loop(),
                answer => return answer,
            }
        }
    }

    /// As [`with_view`](Self::with_view), with what decides about `key`.
    pub(crate) fn with_view_at<T>(
        &self,
        key: &[u8],
        mut act: impl FnMut(&Arc<View>, &KeyPath<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with_view(|view| {
            let path = KeyPath::new(key, view.plan.levels())?;
            match view.at(&path) {
                None => act(view, &path),
                Some(own) => act(&own, &path),
            }
        })
    }

    /// Forgets a key.
    pub(crate) fn reset(&self, key: &[u8]) -> Result<(), Error> {
        self.with_view_at(key, |view, path| {
            self.execute(view, path, Verb::Reset, self.clock.now())?;
            self.serve(path);
            Ok(())
        })
    }

    /// Ends a lease, and serves whoever waited for what it gives back.
    pub(crate) fn end(
        &self,
        key: &OwnedKey,
        id: u128,
        ending: Ending<'_>,
        remember: bool,
    ) -> Result<Settlement, Error> {
        self.with_view_at(key.bytes(), |view, path| {
            self.end_by(view, path, id, ending, remember)
        })
    }

    /// Ends a lease whose work failed.
    pub(crate) fn fail(&self, key: &OwnedKey, id: u128) -> Result<Settlement, Error> {
        self.with_view_at(key.bytes(), |view, path| {
            let refunds = view.refunds_on_failure();
            self.end_by(view, path, id, Ending::Fail(&refunds), false)
        })
    }

    /// Settles a lease with what was used, by name.
    pub(crate) fn settle(
        &self,
        key: &OwnedKey,
        id: u128,
        used: &[(&str, Amount)],
        remember: bool,
    ) -> Result<Settlement, Error> {
        self.with_view_at(key.bytes(), |view, path| {
            let uses = view.uses(used)?;
            self.end_by(view, path, id, Ending::Settle(&uses), remember)
        })
    }

    fn end_by(
        &self,
        view: &Arc<View>,
        path: &KeyPath<'_>,
        id: u128,
        ending: Ending<'_>,
        remember: bool,
    ) -> Result<Settlement, Error> {
        let verb = Verb::End {
            id,
            ending,
            remember,
        };
        let Reply::Settled(answer) = self.execute(view, path, verb, self.clock.now())? else {
            return Err(mismatch());
        };
        self.serve(path);
        Ok(Settlement::new(answer, Arc::clone(view)))
    }

    /// Moves a lease's expiry; answers the new one.
    pub(crate) fn renew(
        &self,
        key: &OwnedKey,
        id: u128,
        ttl: std::time::Duration,
    ) -> Result<Timestamp, Error> {
        let ttl = lease_length(ttl)?;
        self.with_view_at(key.bytes(), |view, path| {
            let now = self.clock.now();
            let until = now + ttl;
            self.execute(view, path, Verb::Renew { id, until }, now)?;
            // Whoever waits for its slots has another instant to wait for.
            self.serve(path);
            Ok(until)
        })
    }

    /// Something came back to `key`: serves whoever waits there.
    #[inline]
    pub(crate) fn serve(&self, key: &KeyPath<'_>) {
        if self.has_waiters() {
            self.lines.serve(key.root(), self.clock.now());
        }
    }

    /// What an ask that was resolved by an older view takes by this one.
    pub(crate) fn carry(view: &View, old: &View, amounts: &[Amount]) -> Amounts {
        let carried = view.plan.limits().iter().map(|limit| {
            let position = old.plan.position(limit.uid);
            position.map_or(0, |position| amounts[position])
        });
        carried.collect()
    }
}

/// A table that answers a command with another's reply is broken.
pub(super) fn mismatch() -> Error {
    StoreError::Unavailable("the store answered another question".into()).into()
}
