//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use tidegate_contract::{Command, Count, Execution, Later, Op, Out, Reply, StoreError, Table};
use tidegate_remote::waiting::{self, Waiting};
use tidegate_remote::{Changes, Driver, Ears, Finish, batch};
use tokio::sync::Semaphore;

use crate::calls::{Calls, Turn};
use crate::error::garbled;
use crate::link::Link;
use crate::listing::Wanted;
use crate::options::Clock;
use crate::reply::Answer;
use crate::request::Request;
use crate::session::Session;
use crate::waiting::InLine;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    /// With what leases end, if they do.
    pub(crate) session: Option<Arc<Session>>,
    /// Where those who wait are told.
    pub(crate) ears: Arc<Ears>,
    /// So many of those who stand in line ask at once: others have the other
    /// connections, also when all are woken.
    pub(crate) turns: Semaphore,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct PostgresTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    shared: Arc<Shared>,
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) calls: Calls,
    pub(crate) changes: Changes<i64>,
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
        let inner = Arc::new(Inner { calls, changes });
        Self {
            shared,
            inner,
            _finish: finish,
        }
    }
}

impl Table for PostgresTable {
    fn execute(&self, command: &Command<'_>, _: Out<'_>) -> Execution {
        begin(&self.shared, &self.inner, command).into()
    }
}

/// A command under way, wherever it is awaited.
fn begin(shared: &Arc<Shared>, inner: &Arc<Inner>, command: &Command<'_>) -> Later {
    let driver = &shared.driver;
    let own = Arc::clone(inner);
    match command.op {
        Op::One(path, verb) => match Waiting::of(command) {
            Some(waiting) => {
                let line = InLine::new(inner, shared, &waiting);
                waiting::stay(driver.tasks(), waiting, line)
            }
            None => {
                let request = Request::new(&command.one(path, verb));
                driver.later(async move { own.execute(request).await })
            }
        },
        Op::Batch(items) => {
            let shared = Arc::clone(shared);
            let each = move |one: &Command<'_>| begin(&shared, &own, one);
            batch(driver, command, items, each)
        }
        Op::Adopt => {
            // A newer plan may be here already.
            let changes = &inner.changes;
            let _ = changes.follow(command.plan, command.now, command.calendars);
            shared.ears.tell_all();
            // What cannot be written now is before the next command.
            driver.later(async move {
                own.changes.newest(&own.calls).await?;
                Ok(Reply::Done)
            })
        }
        Op::ListKeys(listing) => {
            let wanted = Wanted::new(&listing);
            driver.later(async move { Ok(Reply::Keys(own.calls.page_of_keys(&wanted).await?)) })
        }
        Op::ListLeases(listing) => {
            let wanted = Wanted::new(&listing);
            driver.later(async move { Ok(Reply::Leases(own.calls.page_of_leases(&wanted).await?)) })
        }
        // It counts the rows on the server, which takes it a while.
        Op::Count => driver.later(async move {
            let keys = own.calls.count().await?;
            Ok(Reply::Count(Count {
                keys,
                leases: None,
                remembered: None,
            }))
        }),
    }
}

impl Inner {
    pub(crate) async fn execute(&self, request: Request) -> Result<Reply, StoreError> {
        let edition = self.edition_for(&request).await?;
        match self.calls.ask(edition, &request).await? {
            Answer::Reply(reply) => Ok(reply),
            _ => Err(garbled("no reply")),
        }
    }

    /// A take in its turn: the reply, and whether others are first.
    pub(crate) async fn execute_in_turn(
        &self,
        request: Request,
        turn: &Turn,
    ) -> Result<(Reply, bool), StoreError> {
        let edition = self.edition_for(&request).await?;
        match self.calls.ask_in_turn(edition, &request, turn).await? {
            Answer::Reply(reply) => Ok((reply, false)),
            Answer::Kept(reply) => Ok((reply, true)),
            _ => Err(garbled("no reply")),
        }
    }

    async fn edition_for(&self, request: &Request) -> Result<i64, StoreError> {
        let plan = &request.plan;
        self.changes.follow(plan, request.now, &request.bounds)?;
        self.changes.edition_of(plan, &self.calls).await
    }
}
