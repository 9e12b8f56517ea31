//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_net::waiting::{Line, Waiting};
use tidegate_net::{Changes, Commands, Driver, Finish, begin};
use tidegate_store::{
    Answer, Command, Execution, HeldLease, Hours, KeyCommand, Out, OwnedCommand, OwnedKey,
    OwnedListing, Page, StoreError, StoreFuture, Table, Usage,
};

use crate::entered::Entered;
use crate::inner::{Inner, Likely};
use crate::keys::Names;
use crate::registry::Registry;
use crate::shared::Shared;
use crate::waiting::InLine;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RedisTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

impl RedisTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, names: Names) -> Self {
        let registry = Registry::new(names.plans(), shared.clock);
        let inner = Arc::new(Inner {
            shared,
            names,
            registry,
            changes: Changes::default(),
            entered: Entered::default(),
            lines: Likely::default(),
            not_plain: Likely::default(),
            not_single_bucket: Likely::default(),
        });
        Self {
            inner,
            _finish: finish,
        }
    }
}

impl Table for RedisTable {
    fn execute(&self, command: &Command<'_>, _: Out<'_>) -> Execution {
        begin(&self.inner, command).into()
    }
}

impl Commands for Inner {
    fn driver(&self) -> &Driver {
        self.shared.link.driver()
    }

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture {
        let settled = self.changes.settled_on(command.plan);
        let link = &self.shared.link;
        let keeps_nobody = link.connection().is_shared() && settled.is_some();
        let (inner, encoded) = (Arc::clone(self), self.encoded(command, settled));
        let work = async move { inner.execute(encoded).await };
        if !keeps_nobody {
            return link.driver().later(work);
        }
        StoreFuture::new(link.drive(work))
    }

    async fn decide(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        self.decide_together(batch, answers).await
    }

    fn line(self: &Arc<Self>, _: &Waiting) -> impl Line {
        InLine::new(self)
    }

    fn follow(&self, command: &Command<'_>) {
        let changes = &self.changes;
        let _ = changes.follow(command.plan, command.now, command.calendars);
        self.shared.notifier.notify_all();
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.revision().await.map(drop)
    }

    async fn page_of_keys(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<OwnedKey>, StoreError> {
        self.keys(&listing.lend()).await
    }

    async fn page_of_leases(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<HeldLease>, StoreError> {
        self.leases(&listing.lend()).await
    }

    async fn page_of_usage(
        self: Arc<Self>,
        listing: OwnedListing,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        self.usage(&listing.lend(), hours).await
    }

    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        self.count_keys().await
    }
}
