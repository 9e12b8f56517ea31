//! What the server knows a plan by, and how it is told of a change.

use std::time::Duration;

use tidegate_net::{MOST_TOUCHED, Writer};
use tidegate_store::revisions::{PlanChange, Revision};
use tidegate_store::{KeyPath, StoreError};
use tokio::task::JoinSet;

use crate::compiled::Compiled;
use crate::connection::Argument;
use crate::error::garbled;
use crate::inner::{Calls, Inner};
use crate::plan;
use crate::request::Request;

const REGISTER: &str = "SELECT tidegate.register($1, $2, $3::text::numeric, $4, $5, $6,
    $7::text::numeric, $8::text::numeric[], $9, $10, $11::text::numeric), tidegate.wake_first($1)::text";

impl Inner {
    /// The plan that a request was made for, written first if it is not yet.
    pub(crate) async fn plan_of(&self, request: &Request) -> Result<Compiled, StoreError> {
        let plan = &request.plan;
        self.changes.follow(plan, request.now, &request.bounds)?;
        self.changes.revision_of(plan, &self.calls).await
    }
}

impl Writer<Compiled> for Calls {
    type Error = StoreError;

    fn deadline(&self) -> Duration {
        self.link.deadline()
    }

    async fn write(&self, change: &PlanChange) -> Result<Compiled, StoreError> {
        let plan = &change.plan;
        let (version, keep) = (
            plan.version().to_string(),
            plan.keep().as_micros().to_string(),
        );
        let usage = plan.usage().map(|keep| keep.as_micros().to_string());
        let at = change.adopted.at.as_micros();
        let (levels, numbers) = (plan.levels() as i32, plan::numbers(plan));
        let (names, calendars) = (
            plan::names(plan),
            plan::calendars(&change.adopted.calendars),
        );
        let arguments: [Argument<'_>; 11] = [
            &self.tab,
            &change.is_first(),
            &version,
            &at,
            &self.is_callers(),
            &levels,
            &keep,
            &numbers,
            &names,
            &calendars,
            &usage,
        ];
        let rows = self.link.query(REGISTER, &arguments).await?;
        let row = rows.first().ok_or_else(|| garbled("no revision"))?;
        Ok(Compiled::new(row.get(0), plan))
    }

    /// As many at a time as there are connections.
    async fn touch(&self, change: &PlanChange, revisions: &[Revision<Compiled>]) {
        let mut tasks = JoinSet::new();
        for key in change.touched(MOST_TOUCHED) {
            let looks = revisions.iter().filter_map(|revision| {
                let path = KeyPath::stored(key.bytes(), revision.plan.levels()).ok()?;
                let (plan, calendars) = (&revision.plan, &change.adopted.calendars);
                let look = Request::look(plan, &path, change.adopted.at, calendars);
                Some((revision.known.clone(), look))
            });
            let (calls, looks) = (self.clone(), looks.collect::<Vec<_>>());
            tasks.spawn(async move {
                for (plan, look) in looks {
                    // What fails is carried over when it is asked for.
                    if calls.query(&plan, &look).await.is_err() {
                        break;
                    }
                }
            });
        }
        tasks.join_all().await;
    }
}
