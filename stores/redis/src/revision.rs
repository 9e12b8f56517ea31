//! What the server knows a plan by, and how it is told of a change.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::{MOST_TOUCHED, Writer};
use tidegate_store::revisions::{PlanChange, Revision};
use tidegate_store::{KeyPath, OwnedCommand, OwnedKey, Plan, StoreError};
use tokio::task::JoinSet;

use crate::inner::Inner;
use crate::known::Known;
use crate::plain::Plain;
use crate::request::Request;
use crate::script::Needs;
use crate::wire;
use crate::wire::reply::Answer;

/// Of the keys whose own limits change so many are carried over at a time.
const TOUCHED_AT_ONCE: usize = 64;

impl Inner {
    /// The newest plan's revision, written first if it is not yet.
    pub(crate) async fn revision(self: &Arc<Self>) -> Result<Revision<Arc<Known>>, StoreError> {
        self.changes.newest(&Registering(Arc::clone(self))).await
    }

    /// The answer to a command by the plan that it was made for.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        request: &mut Request,
    ) -> Result<Answer, StoreError> {
        let calendars = &request.calendars;
        let changes = &self.changes;
        changes.follow(&request.plan, request.now, calendars)?;
        let known = changes
            .revision_of(&request.plan, &Registering(Arc::clone(self)))
            .await?;
        let counted = request.counted.clone();
        let counted = counted.as_ref().map(|(root, keep)| (&**root, *keep));
        let now = request.now;
        self.entered_before(counted, now, self.query(&known, request))
            .await
    }

    /// What the server knows the plan of `batch` by.
    pub(crate) async fn known_of(
        self: &Arc<Self>,
        batch: &OwnedCommand,
    ) -> Result<Arc<Known>, StoreError> {
        let changes = &self.changes;
        let plan = batch.lend(|command| {
            changes.follow(command.plan, command.now, command.calendars)?;
            Ok::<_, StoreError>(Arc::clone(command.plan))
        })?;
        let writer = Registering(Arc::clone(self));
        changes.revision_of(&plan, &writer).await
    }

    /// A look at the row of `key` by `plan`, as of the change.
    fn look(&self, key: &OwnedKey, change: &PlanChange, plan: &Arc<Plan>) -> Option<Request> {
        let key = KeyPath::stored(key.bytes(), plan.levels()).ok()?;
        let (calendars, clock) = (&change.adopted.calendars, self.shared.clock);
        let at = change.adopted.at;
        let look = wire::command::look(&key, at, calendars, clock);
        Some(Request::new(plan, &key, at, look, &self.names))
    }

    async fn ask_all(self: Arc<Self>, calls: Vec<(Arc<Known>, Request)>) {
        for (known, mut request) in calls {
            // What fails is carried over when it is asked for.
            if self.query(&known, &mut request).await.is_err() {
                return;
            }
        }
    }
}

/// Where the revisions of a table are written.
#[derive(Clone)]
struct Registering(Arc<Inner>);

impl Writer<Arc<Known>> for Registering {
    type Error = StoreError;

    fn deadline(&self) -> Duration {
        self.0.shared.link.deadline()
    }

    async fn write(&self, change: &PlanChange) -> Result<Arc<Known>, StoreError> {
        let inner = &self.0;
        let (link, scripts) = (&inner.shared.link, &inner.shared.scripts);
        let registered = inner.registry.add(link, scripts, change).await?;
        let number = registered.number;
        Ok(Arc::new(Known {
            registered,
            bytes: wire::plan::revision(&change.plan, number).into(),
            needs: Needs::of(&change.plan),
            plain: Plain::of(&change.plan, number, scripts).map(Arc::new),
        }))
    }

    async fn touch(&self, change: &PlanChange, revisions: &[Revision<Arc<Known>>]) {
        for keys in change.touched(MOST_TOUCHED).chunks(TOUCHED_AT_ONCE) {
            let mut tasks = JoinSet::new();
            for key in keys {
                let calls = revisions.iter().filter_map(|revision| {
                    let request = self.0.look(key, change, &revision.plan)?;
                    Some((Arc::clone(&revision.known), request))
                });
                tasks.spawn(Arc::clone(&self.0).ask_all(calls.collect()));
            }
            tasks.join_all().await;
        }
    }
}
