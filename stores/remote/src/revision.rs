//! What the server knows a plan by, and how it is told of a change.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{MOST_TOUCHED, Writer};
use tidegate_store::bytes::reply::decode_answer;
use tidegate_store::revisions::{PlanChange, Revision};
use tidegate_store::{KeyPath, Plan, PlanLimit, StoreError};

use crate::inner::{Inner, Prepared};
use crate::known::Known;
use crate::link::{Answered, forgetful, whole};
use crate::wire::{self, Adoption, Request, SentPlan};

impl Inner {
    /// What the server knows `plan` by, once it was told of all changes up to it.
    pub(crate) async fn known(self: &Arc<Self>, plan: &Arc<Plan>) -> Result<Known, StoreError> {
        if let Some(known) = self.changes.settled_on(plan) {
            return Ok(known);
        }
        let writer = Adopting(Arc::clone(self));
        self.changes.revision_of(plan, &writer).await
    }

    /// Tells the server what it was not told yet of the plans that were gone over to.
    pub(crate) async fn newest(self: &Arc<Self>) -> Result<(), StoreError> {
        let writer = Adopting(Arc::clone(self));
        self.changes.newest(&writer).await.map(drop)
    }

    /// Tells a server of a plan that has forgotten it.
    pub(crate) async fn adopt_anew(
        &self,
        prepared: &Prepared,
        known: &Known,
    ) -> Result<(), StoreError> {
        let plan = &prepared.plan;
        let adoption = Adoption {
            client: self.client(plan, known.digest),
            plan: Some(&known.bytes),
            at: prepared.now,
            calendars: prepared.calendars.to_vec(),
            touched: Vec::new(),
        };
        self.adopt(&adoption, plan, &[]).await
    }

    /// Opens the table anew at a server that has forgotten it.
    pub(crate) async fn reopen(&self, plan: &Plan) -> Result<(), StoreError> {
        let bytes = SentPlan::of(plan).bytes;
        let open = Request::Open(&self.name, plan.version(), &bytes);
        self.link.ask(open.written()).await.map(drop)
    }

    async fn adopt(
        &self,
        adoption: &Adoption<'_>,
        plan: &Plan,
        touched: &[Row],
    ) -> Result<(), StoreError> {
        let rows = touched.iter();
        let rows =
            rows.map(|(row, level, own)| (&row[..], own.then(|| own_limits(plan, row, *level))));
        let body = wire::adopt(adoption, rows);
        match self.link.ask(body).await? {
            Answered::Done(body) => whole(&body, decode_answer)?.map(drop),
            Answered::UnknownPlan => Err(forgetful()),
        }
    }
}

/// A row, its level, and whether it has limits of its own.
type Row = (Vec<u8>, usize, bool);

fn own_limits<'p>(plan: &'p Plan, row: &[u8], level: usize) -> &'p [PlanLimit] {
    let own = plan.of_row(row);
    &own.limits()[own.range(level)]
}

/// Where changes of a table's limits are told.
#[derive(Clone)]
struct Adopting(Arc<Inner>);

impl Writer<Known> for Adopting {
    type Error = StoreError;

    const WRITES_EACH: bool = true;

    fn deadline(&self) -> Duration {
        self.0.link.deadline()
    }

    async fn write(&self, change: &PlanChange) -> Result<Known, StoreError> {
        let (inner, plan) = (&self.0, &change.plan);
        let known = Known::of(plan);
        let rows: Vec<Row> = change
            .touched(MOST_TOUCHED)
            .iter()
            .filter_map(|row| {
                let level = KeyPath::of_row(row.bytes(), plan.levels()).ok()?.depth() - 1;
                let has_own = plan.overrides().get(row.bytes()).is_some();
                Some((row.bytes().to_vec(), level, has_own))
            })
            .collect();
        let adoption = Adoption {
            client: inner.client(plan, known.digest),
            // A server that was started again since does not know it.
            plan: Some(&known.bytes),
            at: change.adopted.at,
            calendars: change.adopted.calendars.clone(),
            touched: Vec::new(),
        };
        inner.adopt(&adoption, plan, &rows).await?;
        Ok(known)
    }

    /// It was told with the change.
    async fn touch(&self, _: &PlanChange, _: &[Revision<Known>]) {}
}
