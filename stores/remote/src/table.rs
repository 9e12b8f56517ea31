//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_net::waiting::{Line, Waiting};
use tidegate_net::{Changes, Commands, Driver, Finish, begin, in_order};
use tidegate_store::core::Timestamp;
use tidegate_store::{
    Answer, Command, Execution, HeldLease, Hours, KeyCommand, Op, Out, OwnedCommand, OwnedKey,
    OwnedListing, Page, Plan, Reply, StoreError, StoreFuture, Table, Usage,
};

use crate::batch;
use crate::inner::{About, Inner};
use crate::link::Link;
use crate::waiting::Held;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct RemoteTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

impl RemoteTable {
    pub(crate) fn new(link: Arc<Link>, finish: Finish, name: &str, opened: Arc<Plan>) -> Self {
        let inner = Arc::new(Inner {
            link,
            name: name.to_owned(),
            user: rand::random(),
            opened,
            changes: Changes::default(),
        });
        Self {
            inner,
            _finish: finish,
        }
    }
}

impl Table for RemoteTable {
    fn execute(&self, command: &Command<'_>, _: Out<'_>) -> Execution {
        match command.op {
            Op::Batch(items) => batch::begin(&self.inner, command, items).into(),
            Op::Count => {
                let (own, now) = (Arc::clone(&self.inner), command.now);
                let driver = self.inner.link.driver();
                driver
                    .later(async move { own.about(&About::Count(now)).await })
                    .into()
            }
            _ => begin(&self.inner, command).into(),
        }
    }
}

impl Commands for Inner {
    fn driver(&self) -> &Driver {
        self.link.driver()
    }

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture {
        let items = [(command.key, command.verb)];
        let prepared = self.prepared(&Command::from(*command), &items, (false, None));
        let own = Arc::clone(self);
        let driver = self.link.driver();
        driver.later(async move { own.answer(prepared).await })
    }

    /// A batch that is one call is none of these ([`batch`]).
    async fn decide(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        answers: &mut Vec<Answer>,
    ) -> Result<(), StoreError> {
        in_order(self, batch, answers).await
    }

    fn line(self: &Arc<Self>, _: &Waiting) -> impl Line {
        Held::new(self)
    }

    fn follow(&self, command: &Command<'_>) {
        let changes = &self.changes;
        let _ = changes.follow(command.plan, command.now, command.calendars);
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.newest().await
    }

    async fn page_of_keys(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<OwnedKey>, StoreError> {
        match self.about(&About::Keys(listing)).await? {
            Reply::Keys(page) => Ok(page),
            _ => Err(StoreError::Mismatch),
        }
    }

    async fn page_of_leases(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<HeldLease>, StoreError> {
        match self.about(&About::Leases(listing)).await? {
            Reply::Leases(page) => Ok(page),
            _ => Err(StoreError::Mismatch),
        }
    }

    async fn page_of_usage(
        self: Arc<Self>,
        listing: OwnedListing,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        match self.about(&About::Usage(listing, hours)).await? {
            Reply::Usage(page) => Ok(page),
            _ => Err(StoreError::Mismatch),
        }
    }

    /// A table asks for all that is counted by itself.
    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        match self.about(&About::Count(Timestamp::MIN)).await? {
            Reply::Count(count) => Ok(count.keys),
            _ => Err(StoreError::Mismatch),
        }
    }
}
