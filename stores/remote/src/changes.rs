//! By what limits a process decides: every change is written to the server, in
//! order, before anything is decided by it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{OwnedKey, Plan, StoreError};

/// Of so many keys whose own limits change are the rows carried over at once;
/// of more, when they are asked for next.
const MOST_TOUCHED: usize = 1_000;

/// A change of limits, as of an instant.
#[derive(Clone, Debug)]
pub struct Change {
    /// The limits from then on.
    pub plan: Arc<Plan>,
    /// When.
    pub at: Timestamp,
    /// The boundaries of its calendars.
    pub calendars: Box<[Option<Bounds>]>,
    /// The first since the table was opened: no change if nothing differs.
    pub is_first: bool,
    /// Another version of the limits before it, in which keys have others for
    /// themselves.
    pub goes_on: bool,
    /// The keys whose rows go by other limits of their own now.
    pub touched: Arc<[OwnedKey]>,
}

/// A plan, and what the server knows it by.
#[derive(Clone, Debug)]
pub struct Edition<E> {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Its number, or whatever else a server's needs.
    pub known: E,
}

/// Where changes are written to. `E` is what a server knows a plan by.
pub trait Writer<E>: Sync {
    /// Writes a change; answers the edition that its plan is from then on.
    fn write(&self, change: &Change) -> impl Future<Output = Result<E, StoreError>> + Send;

    /// Carries over the rows of the keys that a change touches, as of it: by each
    /// of these editions in order. What fails is carried over when it is asked
    /// for.
    fn touch(&self, change: &Change, editions: &[Edition<E>]) -> impl Future<Output = ()> + Send;
}

/// The changes of one table: every one is written to the server, in order, before
/// anything is decided by it.
#[derive(Debug)]
pub struct Changes<E> {
    state: Mutex<State<E>>,
    /// One change of limits is written at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State<E> {
    newest: Option<Arc<Plan>>,
    /// The edition that was written last.
    edition: Option<Edition<E>>,
    /// What is to be written before anything is decided.
    waiting: VecDeque<Change>,
}

impl<E> Default for Changes<E> {
    fn default() -> Self {
        let state = State {
            newest: None,
            edition: None,
            waiting: VecDeque::new(),
        };
        Self {
            state: Mutex::new(state),
            writing: tokio::sync::Mutex::default(),
        }
    }
}

impl<E: Clone + Send + Sync> Changes<E> {
    /// Takes note that `plan` decides as of `now`.
    ///
    /// # Errors
    /// [`StoreError::StalePlan`] if a newer one does.
    pub fn follow(
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
        state.waiting.push_back(change);
        Ok(())
    }

    /// The limits that decide, if any do yet.
    #[must_use]
    pub fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.state.lock().newest.clone()
    }

    /// What the server knows `plan` by, once `writer` has written all changes up
    /// to it.
    ///
    /// # Errors
    /// Those of `writer`; [`StoreError::StalePlan`] if `plan` is not the newest.
    pub async fn edition_of(
        &self,
        plan: &Arc<Plan>,
        writer: &impl Writer<E>,
    ) -> Result<E, StoreError> {
        let edition = self.newest(writer).await?;
        if !Arc::ptr_eq(&edition.plan, plan) {
            return Err(StoreError::StalePlan);
        }
        Ok(edition.known)
    }

    /// What the server knows `plan` by, if it is decided by and nothing is to be
    /// written first.
    #[must_use]
    pub fn settled_on(&self, plan: &Arc<Plan>) -> Option<E> {
        let state = self.state.lock();
        let edition = state.edition.as_ref()?;
        let settled = state.waiting.is_empty() && Arc::ptr_eq(&edition.plan, plan);
        settled.then(|| edition.known.clone())
    }

    /// Writes what is to be written; answers the newest plan's edition.
    ///
    /// # Errors
    /// Those of `writer`; what could not be written is before the next command.
    pub async fn newest(&self, writer: &impl Writer<E>) -> Result<Edition<E>, StoreError> {
        if let Some(edition) = self.settled() {
            return Ok(edition);
        }
        let _one_at_a_time = self.writing.lock().await;
        while let Some(change) = self.next_change() {
            let last = self.last().filter(|_| change.goes_on);
            let known = match &last {
                Some(last) => last.known.clone(),
                None => writer.write(&change).await?,
            };
            let plan = Arc::clone(&change.plan);
            let edition = Edition { plan, known };
            if !change.touched.is_empty() {
                // Whatever was before the change is not the change's doing.
                let editions: Vec<_> = last.into_iter().chain([edition.clone()]).collect();
                writer.touch(&change, &editions).await;
            }
            let mut state = self.state.lock();
            state.waiting.pop_front();
            state.edition = Some(edition);
        }
        let nothing = || StoreError::Unavailable("the table has no limits yet".to_owned());
        self.last().ok_or_else(nothing)
    }

    /// The newest plan's edition, if nothing is to be written first.
    fn settled(&self) -> Option<Edition<E>> {
        let state = self.state.lock();
        let edition = state.edition.as_ref();
        edition.filter(|_| state.waiting.is_empty()).cloned()
    }

    fn last(&self) -> Option<Edition<E>> {
        self.state.lock().edition.clone()
    }

    fn next_change(&self) -> Option<Change> {
        self.state.lock().waiting.front().cloned()
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
