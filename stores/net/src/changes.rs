//! By what limits a process decides: every change is written to the server, in
//! order, before anything is decided by it ([`tidegate_store::revisions`]).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::core::{Bounds, Timestamp};
use tidegate_store::revisions::{PlanChange, Revision, Revisions};
use tidegate_store::{Plan, StoreError};
use tokio::time::{Instant, timeout};

use crate::once::Once;

/// Of so many keys whose own limits change are the rows carried over at once;
/// of more, when they are asked for next.
pub const MOST_TOUCHED: usize = 1_000;

/// Where changes are written to. `N` is what a server knows a plan by.
pub trait Writer<N>: Clone + Send + Sync + 'static {
    /// Why a change is not written.
    type Error: From<StoreError> + Send + 'static;

    /// Whether a change is written that [goes on](PlanChange::goes_on) from the plan before it;
    /// else the server goes on to know both as one.
    const WRITES_EACH: bool = false;

    /// How long what is to be written may take, together.
    fn deadline(&self) -> Duration;

    /// Writes a change; answers what its plan is known by from then on.
    fn write(&self, change: &PlanChange) -> impl Future<Output = Result<N, Self::Error>> + Send;

    /// Carries over the rows of the keys that a change touches, as of it: by each
    /// of these revisions in order. What fails is carried over when it is asked
    /// for; it may be dropped before it is done.
    fn touch(
        &self,
        change: &PlanChange,
        revisions: &[Revision<N>],
    ) -> impl Future<Output = ()> + Send;
}

/// The changes of one table: every one is written to the server, in order, before
/// anything is decided by it.
#[derive(Debug)]
pub struct Changes<N> {
    revisions: Arc<Revisions<N>>,
    /// One change of limits is written at a time.
    writing: Once,
}

impl<N> Default for Changes<N> {
    fn default() -> Self {
        Self {
            revisions: Arc::default(),
            writing: Once::default(),
        }
    }
}

impl<N: Clone + Send + Sync + 'static> Changes<N> {
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
        self.revisions.follow(plan, now, calendars)
    }

    /// The limits that decide, if any do yet.
    #[must_use]
    pub fn newest_plan(&self) -> Option<Arc<Plan>> {
        self.revisions.newest_plan()
    }

    /// What the server knows `plan` by, once `writer` has written all changes up
    /// to it.
    ///
    /// # Errors
    /// Those of `writer`; [`StoreError::StalePlan`] if `plan` is not the newest.
    pub async fn revision_of<W: Writer<N>>(
        &self,
        plan: &Arc<Plan>,
        writer: &W,
    ) -> Result<N, W::Error> {
        let revision = self.newest(writer).await?;
        if !Arc::ptr_eq(&revision.plan, plan) {
            return Err(StoreError::StalePlan.into());
        }
        Ok(revision.known)
    }

    /// What the server knows `plan` by, if it is decided by and nothing is to be
    /// written first.
    #[must_use]
    pub fn settled_on(&self, plan: &Arc<Plan>) -> Option<N> {
        self.revisions.settled_on(plan)
    }

    /// Writes what is to be written; answers the newest plan's revision. That goes on when
    /// whoever asks has gone.
    ///
    /// # Errors
    /// Those of the writer; what could not be written is before the next command.
    pub async fn newest<W: Writer<N>>(&self, writer: &W) -> Result<Revision<N>, W::Error> {
        if let Some(revision) = self.revisions.settled() {
            return Ok(revision);
        }
        let (revisions, writer) = (Arc::clone(&self.revisions), writer.clone());
        let settled = || self.revisions.settled().map(Ok);
        let deadline = writer.deadline();
        let write = async move { Ok(write_all(&revisions, &writer).await) };
        self.writing.run(deadline, settled, write).await?
    }
}

/// Writes one change after the other, until none is left.
async fn write_all<N: Clone + Send + Sync, W: Writer<N>>(
    revisions: &Revisions<N>,
    writer: &W,
) -> Result<Revision<N>, W::Error> {
    let begun = Instant::now();
    while let Some(change) = revisions.next_change() {
        let last = revisions.last();
        let last = last.filter(|_| !W::WRITES_EACH && change.goes_on());
        let known = match &last {
            Some(last) => last.known.clone(),
            None => writer.write(&change).await?,
        };
        let plan = Arc::clone(&change.plan);
        let revision = Revision { plan, known };
        // Whatever was before the change is not the change's doing.
        let both: Vec<_> = last.into_iter().chain([revision.clone()]).collect();
        let left = writer.deadline().saturating_sub(begun.elapsed());
        // What it does not come to is carried over when it is asked for next.
        let _ = timeout(left / 2, writer.touch(&change, &both)).await;
        revisions.written(revision);
    }
    let nothing = || StoreError::Unavailable("the table has no limits yet".to_owned());
    revisions.last().ok_or_else(|| nothing().into())
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidegate_store::OwnedKey;
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
        type Error = StoreError;

        fn deadline(&self) -> Duration {
            match (self.hangs, self.hangs_on_rows) {
                (true, _) => Duration::ZERO,
                (false, true) => Duration::from_millis(40),
                (false, false) => Duration::from_secs(600),
            }
        }

        async fn write(&self, _: &PlanChange) -> Result<usize, StoreError> {
            let number = self.begun.fetch_add(1, Ordering::Relaxed);
            if self.hangs {
                pending().await
            }
            if !self.hangs_on_rows {
                for_turns(WRITE).await;
            }
            Ok(number)
        }

        async fn touch(&self, _: &PlanChange, _: &[Revision<usize>]) {
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
