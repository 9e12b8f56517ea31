//! By what limits this process decides: the newest plan, as an edition that the
//! server knows.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{KeyPath, OwnedKey, Plan, StoreError};
use tokio::task::JoinSet;

use crate::plain::Plain;
use crate::registry::Change;
use crate::request::Request;
use crate::script::Needs;
use crate::table::Inner;
use crate::wire;

/// Of so many keys whose own limits change are the rows carried over at once;
/// of more, when they are asked for next.
const MOST_TOUCHED: usize = 1_000;

/// So many of them at a time.
const TOUCHED_AT_ONCE: usize = 64;

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Limits {
    state: Mutex<State>,
    /// One change of limits is written at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<Arc<Plan>>,
    /// The edition that was written last.
    edition: Option<Arc<Edition>>,
    /// What is to be written before anything is decided.
    changes: VecDeque<Change>,
}

/// A plan as the script is given it.
#[derive(Debug)]
pub(crate) struct Edition {
    pub(crate) plan: Arc<Plan>,
    pub(crate) number: i64,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) needs: Needs,
    /// What it is, if it is plain buckets.
    pub(crate) plain: Option<Arc<Plain>>,
}

impl Limits {
    /// Takes note of a change of limits.
    pub(crate) fn follow(
        &self,
        plan: &Arc<Plan>,
        now: Timestamp,
        calendars: &[Option<Bounds>],
    ) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let (mut goes_on, mut touched) = (false, Vec::new());
        if let Some(newest) = &state.newest {
            if Arc::ptr_eq(newest, plan) {
                return Ok(());
            }
            if plan.version() < newest.version() {
                return Err(StoreError::StalePlan);
            }
            goes_on = plan.goes_on_from(newest);
            touched = touched_by(plan, newest, goes_on);
        }
        let change = Change {
            plan: Arc::clone(plan),
            at: now,
            calendars: calendars.into(),
            is_first: state.newest.is_none(),
            goes_on,
            touched: touched.into(),
        };
        state.newest = Some(Arc::clone(plan));
        state.changes.push_back(change);
        Ok(())
    }

    /// The edition of `plan`, if it is decided by, and nothing is to be written first.
    pub(crate) fn settled_on(&self, plan: &Arc<Plan>) -> Option<Arc<Edition>> {
        self.settled()
            .filter(|edition| Arc::ptr_eq(&edition.plan, plan))
    }

    /// The newest plan's edition, if nothing is to be written first.
    fn settled(&self) -> Option<Arc<Edition>> {
        let state = self.state.lock();
        let edition = state.edition.as_ref();
        edition.filter(|_| state.changes.is_empty()).map(Arc::clone)
    }

    fn last(&self) -> Option<Arc<Edition>> {
        self.state.lock().edition.clone()
    }

    fn next_change(&self) -> Option<Change> {
        self.state.lock().changes.front().cloned()
    }

    fn changed(&self, edition: Arc<Edition>) {
        let mut state = self.state.lock();
        state.changes.pop_front();
        state.edition = Some(edition);
    }
}

impl Inner {
    /// The newest plan's edition, written first if it is not yet.
    pub(crate) async fn edition(self: &Arc<Self>) -> Result<Arc<Edition>, StoreError> {
        if let Some(edition) = self.limits.settled() {
            return Ok(edition);
        }
        let _one_at_a_time = self.limits.writing.lock().await;
        while let Some(change) = self.limits.next_change() {
            let edition = Arc::new(self.write(&change).await?);
            self.touch(&change, &edition).await;
            self.limits.changed(edition);
        }
        let none = || StoreError::Unavailable("the table has no limits yet".to_owned());
        self.limits.last().ok_or_else(none)
    }

    /// The edition of a change. Who has other limits for some keys goes on by
    /// the same: what a key has for itself is in its row.
    async fn write(&self, change: &Change) -> Result<Edition, StoreError> {
        if let Some(last) = self.limits.last().filter(|_| change.goes_on) {
            return Ok(Edition {
                plan: Arc::clone(&change.plan),
                number: last.number,
                bytes: Arc::clone(&last.bytes),
                needs: last.needs,
                plain: last.plain.clone(),
            });
        }
        let (link, scripts) = (&self.shared.link, &self.shared.scripts);
        let number = self.registry.add(link, scripts, change).await?;
        Ok(Edition {
            number,
            bytes: wire::plan::edition(&change.plan, number).into(),
            needs: Needs::of(&change.plan),
            plain: Plain::of(&change.plan, number).map(Arc::new),
            plan: Arc::clone(&change.plan),
        })
    }

    /// Carries over the rows of the keys that have other limits for themselves
    /// now, as of the change. What fails is carried over when it is asked for.
    async fn touch(self: &Arc<Self>, change: &Change, edition: &Arc<Edition>) {
        // Whatever was before the change is not the change's doing.
        let before = self.limits.last().filter(|_| change.goes_on);
        let editions: Vec<_> = before.into_iter().chain([Arc::clone(edition)]).collect();
        for keys in change.touched.chunks(TOUCHED_AT_ONCE) {
            let mut tasks = JoinSet::new();
            for key in keys {
                let calls = editions.iter().filter_map(|edition| {
                    let request = self.look(key, change, &edition.plan)?;
                    Some((Arc::clone(edition), request))
                });
                let (table, calls) = (Arc::clone(self), calls.collect());
                tasks.spawn(table.ask_all(calls));
            }
            tasks.join_all().await;
        }
    }

    /// A look at the row of `key` by `plan`, as of the change.
    fn look(&self, key: &OwnedKey, change: &Change, plan: &Arc<Plan>) -> Option<Request> {
        let key = KeyPath::new(key.bytes(), plan.levels()).ok()?;
        let (calendars, clock) = (&change.calendars, self.shared.clock);
        let look = wire::command::look(&key, change.at, calendars, clock);
        Some(Request::new(plan, &key, change.at, look, &self.names))
    }

    async fn ask_all(self: Arc<Self>, calls: Vec<(Arc<Edition>, Request)>) {
        for (edition, mut request) in calls {
            if self.ask(&edition, &mut request).await.is_err() {
                return;
            }
        }
    }
}

/// The keys whose rows go by other limits of their own in `plan` than in `old`.
fn touched_by(plan: &Plan, old: &Plan, goes_on: bool) -> Vec<OwnedKey> {
    let keys = match goes_on {
        true => plan.differing_from(old),
        false => {
            let ours = plan.overrides().iter().map(|(key, _)| key);
            let others = old.overrides().iter().map(|(key, _)| key);
            let gone = others.filter(|key| plan.overrides().get(key.bytes()).is_none());
            ours.chain(gone).collect()
        }
    };
    keys.into_iter().take(MOST_TOUCHED).cloned().collect()
}
