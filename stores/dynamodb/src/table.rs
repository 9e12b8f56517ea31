//! One set's table: a command's way to DynamoDB and back.

use std::sync::Arc;

use tidegate_net::waiting::{Line, PollingLine, Waiting};
use tidegate_net::{
    Changes, Commands, DecidesGroups, DecidesTogether, Driver, Finish, Groups, begin, send_in_group,
};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::{KnownRevisions, OwnedKeyCommand};
use tidegate_store::{
    Answer, Command, Execution, HeldLease, Hours, KeyCommand, Out, OwnedCommand, OwnedKey,
    OwnedListing, Page, StoreError, StoreFuture, Table, Usage,
};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::known::Known;
use crate::shared::Shared;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct DynamodbTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

impl DynamodbTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, set: &str) -> Self {
        let inner = Arc::new(Inner {
            shared,
            set: set.to_owned(),
            changes: Changes::default(),
            groups: Arc::default(),
            revisions: KnownRevisions::default(),
            known: Known::default(),
        });
        Self {
            inner,
            _finish: finish,
        }
    }
}

impl Table for DynamodbTable {
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

    async fn end_expired(
        self: Arc<Self>,
        root: OwnedKey,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let ended = Self::end_expired(self, root.bytes(), now).await;
        ended.map_err(Trouble::told)
    }

    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        self.count_rows().await.map_err(Trouble::told)
    }
}

impl DecidesGroups for Inner {
    /// Each writes on the version before it.
    const MOST_UNDER_WAY: usize = 1;

    fn groups(&self) -> &Arc<Groups<OwnedKeyCommand>> {
        &self.groups
    }

    fn fit(&self, one: &OwnedKeyCommand, other: &OwnedKeyCommand) -> bool {
        one.fits(other, self.shared.options.clock)
    }
}
