//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_net::waiting::{Line, PollingLine, Waiting};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::{Clock, KnownRevisions, OwnedKeyCommand};
use tidegate_store::{
    Answer, Command, Execution, HeldLease, Hours, KeyCommand, Out, OwnedCommand, OwnedKey,
    OwnedListing, Page, StoreError, StoreFuture, Table, Usage,
};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::pruner::Pruner;
use crate::shared::Shared;
use crate::sql;
use crate::sql::Place;
use tidegate_net::{
    Changes, Commands, DecidesGroups, DecidesTogether, Driver, Finish, Groups, begin, send_in_group,
};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MysqlTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

impl MysqlTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, number: u32) -> Self {
        let inner = Arc::new(Inner {
            shared,
            number,
            changes: Changes::default(),
            groups: Arc::default(),
            known: KnownRevisions::default(),
            pruner: Pruner::default(),
        });
        Self {
            inner,
            _finish: finish,
        }
    }
}

impl Table for MysqlTable {
    fn execute(&self, command: &Command<'_>, _: Out<'_>) -> Execution {
        begin(&self.inner, command).into()
    }
}

impl Commands for Inner {
    fn driver(&self) -> &Driver {
        &self.shared.driver
    }

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture {
        let request = OwnedKeyCommand::of(command);
        if !request.is_about_leases() {
            return send_in_group(self, &self.shared.driver, command.key.root(), request);
        }
        let own = Arc::clone(self);
        let driver = &self.shared.driver;
        driver.later(async move { own.execute_alone(&request).await })
    }

    async fn decide(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        tidegate_net::decide_batch(self, batch, answers).await
    }

    fn line(self: &Arc<Self>, waiting: &Waiting) -> impl Line {
        PollingLine::new(self, waiting)
    }

    fn follow(&self, command: &Command<'_>) {
        let changes = &self.changes;
        let _ = changes.follow(command.plan, command.now, command.calendars);
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.revision().await.map(drop).map_err(Trouble::told)
    }

    async fn page_of_keys(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<OwnedKey>, StoreError> {
        self.keys(&listing.lend()).await.map_err(Trouble::told)
    }

    async fn page_of_leases(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<HeldLease>, StoreError> {
        self.held_leases(&listing.lend())
            .await
            .map_err(Trouble::told)
    }

    async fn page_of_usage(
        self: Arc<Self>,
        listing: OwnedListing,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        let page = self.usage(&listing.lend(), hours).await;
        page.map_err(Trouble::told)
    }

    async fn expired_roots(
        self: Arc<Self>,
        roots: Vec<OwnedKey>,
        now: Timestamp,
    ) -> Result<Vec<OwnedKey>, StoreError> {
        let expired = Self::expired_roots(&self, roots, now).await;
        expired.map_err(Trouble::told)
    }

    async fn end_expired(
        self: Arc<Self>,
        root: OwnedKey,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let revision = self.revision().await.map_err(Trouble::told)?;
        if let Some(look) = revision.look(root.bytes(), now) {
            let look = OwnedKeyCommand::of(&look);
            self.try_until_told(look, None).await?;
        }
        Ok(())
    }

    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        self.count_rows().await.map_err(Trouble::told)
    }
}

impl DecidesGroups for Inner {
    /// The second waits for the root's row at the server.
    const MOST_UNDER_WAY: usize = 2;

    fn groups(&self) -> &Arc<Groups<OwnedKeyCommand>> {
        &self.groups
    }

    fn fit(&self, one: &OwnedKeyCommand, other: &OwnedKeyCommand) -> bool {
        one.fits(other, self.shared.clock)
    }
}

impl Inner {
    async fn count_rows(&self) -> Result<usize, Trouble> {
        let least = match self.shared.clock {
            Clock::Server => sql::AT_START.to_owned(),
            Clock::Caller => i64::MIN.to_string(),
        };
        let Place { prefix, table } = self.place();
        let sql = format!(
            "SELECT COUNT(*) FROM {prefix}_rows WHERE table_id = ? AND forget_at > {least}"
        );
        let counts: Vec<usize> = self.shared.query(&sql, (table,)).await?;
        Ok(counts.first().copied().unwrap_or(0))
    }

    /// Deletes what is spent, every so often.
    pub(crate) fn prune_in_turn(self: &Arc<Self>) {
        if self.shared.clock == Clock::Server && self.pruner.is_due() {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                let deadline = inner.shared.driver.deadline();
                // What is left over is there the next time.
                let _ = tokio::time::timeout(deadline, inner.prune()).await;
                inner.pruner.done();
            });
        }
    }
}
