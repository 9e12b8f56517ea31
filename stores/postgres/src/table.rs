//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_net::waiting::{Line, Waiting};
use tidegate_net::{
    Changes, Commands, DecidesGroups, DecidesTogether, Driver, Finish, Groups, begin, in_order,
    send_in_group,
};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::BatchProgress;
use tidegate_store::{
    Command, Execution, HeldLease, Hours, KeyCommand, Out, OwnedCommand, OwnedKey, OwnedListing,
    Page, Reply, StoreError, StoreFuture, Table, Usage,
};

use crate::batch::requests;
use crate::error::garbled;
use crate::inner::{Calls, Inner, Turn};
use crate::options::Clock;
use crate::reply::Answer;
use crate::request::Request;
use crate::shared::Shared;
use crate::waiting::InLine;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PostgresTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

impl PostgresTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, tab: i32) -> Self {
        let calls = Calls {
            link: Arc::clone(&shared.link),
            clock: shared.clock,
            tab,
            session: shared.session.clone(),
        };
        let changes = Changes::default();
        let inner = Arc::new(Inner {
            shared,
            calls,
            changes,
            groups: Arc::default(),
        });
        Self {
            inner,
            _finish: finish,
        }
    }
}

impl Table for PostgresTable {
    fn execute(&self, command: &Command<'_>, _: Out<'_>) -> Execution {
        begin(&self.inner, command).into()
    }
}

impl Commands for Inner {
    fn driver(&self) -> &Driver {
        &self.shared.driver
    }

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> StoreFuture {
        let request = Request::new(command);
        if !self.ends_with_session(command) {
            return send_in_group(self, &self.shared.driver, command.key.root(), request);
        }
        let own = Arc::clone(self);
        let driver = &self.shared.driver;
        driver.later(async move { own.execute(&request).await })
    }

    async fn decide(
        self: &Arc<Self>,
        batch: &OwnedCommand,
        answers: &mut Vec<tidegate_store::Answer>,
    ) -> Result<(), StoreError> {
        if self.makes_leases_of_sessions(batch) {
            return in_order(self, batch, answers).await;
        }
        self.decide_together(&requests(batch, Request::new), answers)
            .await
    }

    fn line(self: &Arc<Self>, waiting: &Waiting) -> impl Line {
        InLine::new(self, waiting)
    }

    fn follow(&self, command: &Command<'_>) {
        let changes = &self.changes;
        let _ = changes.follow(command.plan, command.now, command.calendars);
        self.shared.notifier.notify_all();
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.changes.newest(&self.calls).await.map(drop)
    }

    async fn page_of_keys(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<OwnedKey>, StoreError> {
        self.calls.keys(&listing.lend()).await
    }

    async fn page_of_leases(
        self: Arc<Self>,
        listing: OwnedListing,
    ) -> Result<Page<HeldLease>, StoreError> {
        self.calls.leases(&listing.lend()).await
    }

    async fn page_of_usage(
        self: Arc<Self>,
        listing: OwnedListing,
        hours: Hours,
    ) -> Result<Page<Usage>, StoreError> {
        self.calls.usage(&listing.lend(), hours).await
    }

    async fn expired_roots(
        self: Arc<Self>,
        roots: Vec<OwnedKey>,
        now: Timestamp,
    ) -> Result<Vec<OwnedKey>, StoreError> {
        self.calls.expired_roots(&roots, now).await
    }

    async fn end_expired(
        self: Arc<Self>,
        root: OwnedKey,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.calls.end_expired(root.bytes(), now).await
    }

    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        self.calls.count().await
    }
}

impl DecidesGroups for Inner {
    /// The second waits for the root's row at the server.
    const MOST_UNDER_WAY: usize = 2;

    fn groups(&self) -> &Arc<Groups<Request>> {
        &self.groups
    }

    fn fit(&self, one: &Request, other: &Request) -> bool {
        Arc::ptr_eq(&one.plan, &other.plan)
            && one.calendars == other.calendars
            && (self.calls.clock == Clock::Server || one.now == other.now)
    }
}

impl DecidesTogether for Inner {
    type Request = Request;

    async fn try_together(
        self: &Arc<Self>,
        requests: &[Request],
        _: &mut BatchProgress,
    ) -> Result<Vec<tidegate_store::Answer>, StoreError> {
        let (_, answers) = self.by_one_statement(requests, None, false).await?;
        Ok(answers)
    }

    async fn execute_alone(self: &Arc<Self>, request: &Request) -> tidegate_store::Answer {
        self.execute(request).await
    }
}

impl Inner {
    pub(crate) async fn execute(&self, request: &Request) -> Result<Reply, StoreError> {
        let plan = self.plan_of(request).await?;
        match self.calls.query(&plan, request).await? {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(garbled("no reply")),
        }
    }

    /// A take in its turn: the reply, and whether others are first.
    pub(crate) async fn execute_in_turn(
        &self,
        request: &Request,
        turn: &Turn,
    ) -> Result<(Reply, bool), StoreError> {
        let plan = self.plan_of(request).await?;
        match self.calls.ask_in_turn(&plan, request, turn).await? {
            Answer::Reply(reply) => Ok((reply, false)),
            Answer::Kept(reply) => Ok((reply, true)),
            _ => Err(garbled("no reply")),
        }
    }
}
