//! By what limits a process decides: every change is written to the server, in
//! order, before anything is decided by it.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{Plan, StoreError};

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
}

/// Where changes are written to. `E` is what a server knows a plan by.
pub trait Writer<E>: Sync {
    /// Writes a change; answers the edition that its plan is from then on.
    fn write(&self, change: &Change) -> impl Future<Output = Result<E, StoreError>> + Send;
}

/// The changes of one table. `E` is what a server knows a plan by.
#[derive(Debug)]
pub struct Changes<E> {
    limits: Mutex<Limits<E>>,
    /// One change of limits is written at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Limits<E> {
    newest: Option<Arc<Plan>>,
    /// The newest plan's edition, once it is written.
    edition: Option<Arc<(Arc<Plan>, E)>>,
    /// What is to be written before anything is decided.
    waiting: VecDeque<Change>,
}

impl<E> Default for Changes<E> {
    fn default() -> Self {
        let limits = Limits {
            newest: None,
            edition: None,
            waiting: VecDeque::new(),
        };
        Self {
            limits: Mutex::new(limits),
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
        let mut limits = self.limits.lock();
        if let Some(newest) = &limits.newest {
            if Arc::ptr_eq(newest, plan) {
                return Ok(());
            }
            if plan.version() < newest.version() {
                return Err(StoreError::StalePlan);
            }
        }
        let change = Change {
            plan: Arc::clone(plan),
            at: now,
            calendars: calendars.into(),
            is_first: limits.newest.is_none(),
        };
        limits.newest = Some(Arc::clone(plan));
        limits.edition = None;
        limits.waiting.push_back(change);
        Ok(())
    }

    /// The edition of `plan`, once `writer` has written all changes up to it.
    ///
    /// # Errors
    /// Those of `writer`; [`StoreError::StalePlan`] if `plan` is not the newest.
    pub async fn edition_of(
        &self,
        plan: &Arc<Plan>,
        writer: &impl Writer<E>,
    ) -> Result<E, StoreError> {
        let edition = self.newest(writer).await?;
        if !Arc::ptr_eq(&edition.0, plan) {
            return Err(StoreError::StalePlan);
        }
        Ok(edition.1.clone())
    }

    /// Writes what is to be written; answers the newest plan with its edition.
    ///
    /// # Errors
    /// Those of `writer`; what could not be written is before the next command.
    pub async fn newest(&self, writer: &impl Writer<E>) -> Result<Arc<(Arc<Plan>, E)>, StoreError> {
        if let Some(edition) = self.settled() {
            return Ok(edition);
        }
        let _one_at_a_time = self.writing.lock().await;
        loop {
            let change = self.limits.lock().waiting.front().cloned();
            let Some(change) = change else { break };
            let edition = writer.write(&change).await?;
            let mut limits = self.limits.lock();
            limits.waiting.pop_front();
            limits.edition = Some(Arc::new((change.plan, edition)));
        }
        let nothing = || StoreError::Unavailable("the table has no limits yet".to_owned());
        self.limits.lock().edition.clone().ok_or_else(nothing)
    }

    /// The newest plan's edition, if nothing is to be written first.
    fn settled(&self) -> Option<Arc<(Arc<Plan>, E)>> {
        let limits = self.limits.lock();
        let edition = limits
            .edition
            .as_ref()
            .filter(|_| limits.waiting.is_empty());
        edition.cloned()
    }
}
