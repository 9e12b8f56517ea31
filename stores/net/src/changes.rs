//! By what limits a process decides: every change is written to the server, in
//! order, before anything is decided by it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_store::core::{Bounds, Timestamp};
use tidegate_store::{OwnedKey, Plan, StoreError};
use tokio::time::{Instant, timeout};

use crate::once::Once;

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
pub struct Revision<E> {
    /// The plan.
    pub plan: Arc<Plan>,
    /// Its number, or whatever else a server's needs.
    pub known: E,
}

/// Where changes are written to. `E` is what a server knows a plan by.
pub trait Writer<E>: Clone + Send + Sync + 'static {
    /// How long what is to be written may take, together.
    fn deadline(&self) -> Duration;

    /// Writes a change; answers the revision that its plan is from then on.
    fn write(&self, change: &Change) -> impl Future<Output = Result<E, StoreError>> + Send;

    /// Carries over the rows of the keys that a change touches, as of it: by each
    /// of these revisions in order. What fails is carried over when it is asked
    /// for; it may be dropped before it is done.
    fn touch(&self, change: &Change, revisions: &[Revision<E>]) -> impl Future<Output = ()> + Send;
}

/// The changes of one table: every one is written to the server, in order, before
/// anything is decided by it.
#[derive(Debug)]
pub struct Changes<E> {
    state: Arc<Mutex<State<E>>>,
    /// One change of limits is written at a time.
    writing: Once,
}

#[derive(Debug)]
struct State<E> {
    newest: Option<Arc<Plan>>,
    /// The revision that was written last.
    revision: Option<Revision<E>>,
    /// What is to be written before anything is decided.
    waiting: VecDeque<Change>,
}

impl<E> Default for Changes<E> {
    fn default() -> Self {
        let state = State {
            newest: None,
            revision: None,
            waiting: VecDeque::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            writing: Once::default(),
        }
    }
}

impl<E: Clone + Send + Sync + 'static> Changes<E> {
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
    pub async fn revision_of(
        &self,
        plan: &Arc<Plan>,
        writer: &impl Writer<E>,
    ) -> Result<E, StoreError> {
        let revision = self.newest(writer).await?;
        if !Arc::ptr_eq(&revision.plan, plan) {
            return Err(StoreError::StalePlan);
        }
        Ok(revision.known)
    }

    /// What the server knows `plan` by, if it is decided by and nothing is to be
    /// written first.
    #[must_use]
    pub fn settled_on(&self, plan: &Arc<Plan>) -> Option<E> {
        let state = self.state.lock();
        let revision = state.revision.as_ref()?;
        let settled = state.waiting.is_empty() && Arc::ptr_eq(&revision.plan, plan);
        settled.then(|| revision.known.clone())
    }

    /// Writes what is to be written; answers the newest plan's revision. That goes on when
    /// whoever asks has gone.
    ///
    /// # Errors
    /// Those of the writer; what could not be written is before the next command.
    pub async fn newest(&self, writer: &impl Writer<E>) -> Result<Revision<E>, StoreError> {
        if let Some(revision) = self.state.lock().settled() {
            return Ok(revision);
        }
        let (state, writer) = (Arc::clone(&self.state), writer.clone());
        let settled = || self.state.lock().settled();
        let deadline = writer.deadline();
        let write = async move { write_all(&state, &writer).await };
        self.writing.run(deadline, settled, write).await
    }
}

impl<E: Clone> State<E> {
    /// The newest plan's revision, if nothing is to be written first.
    fn settled(&self) -> Option<Revision<E>> {
        let revision = self.revision.as_ref();
        revision.filter(|_| self.waiting.is_empty()).cloned()
    }
}

/// Writes one change after the other, until none is left.
async fn write_all<E: Clone + Send + Sync>(
    state: &Mutex<State<E>>,
    writer: &impl Writer<E>,
) -> Result<Revision<E>, StoreError> {
    let begun = Instant::now();
    let next = || state.lock().waiting.front().cloned();
    let last = || state.lock().revision.clone();
    while let Some(change) = next() {
        let last = last().filter(|_| change.goes_on);
        let known = match &last {
            Some(last) => last.known.clone(),
            None => writer.write(&change).await?,
        };
        let plan = Arc::clone(&change.plan);
        let revision = Revision { plan, known };
        if !change.touched.is_empty() {
            // Whatever was before the change is not the change's doing.
            let revisions: Vec<_> = last.into_iter().chain([revision.clone()]).collect();
            let left = writer.deadline().saturating_sub(begun.elapsed());
            // What it does not come to is carried over when it is asked for next.
            let _ = timeout(left / 2, writer.touch(&change, &revisions)).await;
        }
        let mut state = state.lock();
        state.waiting.pop_front();
        state.revision = Some(revision);
    }
    let nothing = || StoreError::Unavailable("the table has no limits yet".to_owned());
    last().ok_or_else(nothing)
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

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidegate_store::core::{Bucket, Rule, Span};
    use tokio::task::yield_now;

    use super::*;
    use crate::batch::tests::plan;

    /// So many turns of the runtime a write takes, and so many each command waits.
    const WRITE: usize = 64;
    const PATIENCE: usize = 8;

    /// Of a server that is a while about every write, or for ever; or for ever about rows.
    #[derive(Clone, Default)]
    struct Slow {
        hangs: bool,
        hangs_on_rows: bool,
        begun: Arc<AtomicUsize>,
    }

    impl Writer<usize> for Slow {
        fn deadline(&self) -> Duration {
            match (self.hangs, self.hangs_on_rows) {
                (true, _) => Duration::ZERO,
                (false, true) => Duration::from_millis(40),
                (false, false) => Duration::from_secs(600),
            }
        }

        async fn write(&self, _: &Change) -> Result<usize, StoreError> {
            let number = self.begun.fetch_add(1, Ordering::Relaxed);
            if self.hangs {
                pending().await
            }
            if !self.hangs_on_rows {
                for_turns(WRITE).await;
            }
            Ok(number)
        }

        async fn touch(&self, _: &Change, _: &[Revision<usize>]) {
            if self.hangs_on_rows {
                pending().await
            }
        }
    }

    async fn for_turns(turns: usize) {
        for _ in 0..turns {
            yield_now().await;
        }
    }

    /// Those who waited while the server hung had little time left once it was their turn,
    /// and each began the write anew: under a steady load none ended it, and nothing was
    /// decided any more.
    #[tokio::test]
    async fn a_change_is_written_though_nobody_who_asks_waits_for_so_long() {
        let (changes, writer) = (Changes::default(), Slow::default());
        let plan = plan();
        changes
            .follow(&plan, Timestamp::MIN, &[])
            .expect("the first");
        for _ in 0..4 * WRITE / PATIENCE {
            tokio::select! {
                biased;
                _ = changes.newest(&writer) => {}
                () = for_turns(PATIENCE) => {}
            }
        }
        assert_eq!(changes.settled_on(&plan), Some(0));
        assert_eq!(writer.begun.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_write_that_hangs_is_given_up_for_the_next() {
        let changes = Changes::default();
        let hangs = Slow {
            hangs: true,
            ..Slow::default()
        };
        let plan = plan();
        changes
            .follow(&plan, Timestamp::MIN, &[])
            .expect("the first");
        for _ in 0..3 {
            let told = changes.revision_of(&plan, &hangs).await;
            assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
        }
        assert_eq!(hangs.begun.load(Ordering::Relaxed), 3);
        assert_eq!(changes.revision_of(&plan, &Slow::default()).await, Ok(0));
    }

    /// It was no change before all of its rows were carried over: where that took longer than
    /// the deadline, each command wrote it anew, and none was ever decided.
    #[tokio::test(start_paused = true)]
    async fn a_change_decides_though_its_rows_take_too_long_to_be_carried_over() {
        let changes = Changes::default();
        let slow = Slow {
            hangs_on_rows: true,
            ..Slow::default()
        };
        let first = plan();
        changes
            .follow(&first, Timestamp::MIN, &[])
            .expect("the first");
        assert_eq!(changes.revision_of(&first, &slow).await, Ok(0));
        let larger = Bucket::new(9, Span::SECOND, 9).expect("a bucket");
        let own = Arc::new(first.variant(|_| Some(Rule::Bucket(larger))));
        let own = [(OwnedKey::new(b"k"), own)].into_iter().collect();
        let next = first.as_ref().clone().going_on(1, own);
        let next = Arc::new(next);
        changes.follow(&next, Timestamp::MIN, &[]).expect("newer");
        assert_eq!(changes.revision_of(&next, &slow).await, Ok(0));
    }
}
