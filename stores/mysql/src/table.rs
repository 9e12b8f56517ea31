//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Params, Row};
use tidegate_contract::{
    Command, Execution, HeldLease, KeyCommand, Later, Out, OwnedKey, OwnedListing, Page,
    StoreError, Table,
};
use tidegate_remote::waiting::{Line, Waiting};
use tidegate_swap::{Clock, Edition, Limits, Request};

use crate::error::Trouble;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::sweep::Sweeper;
use crate::trips::Place;
use crate::waiting::InLine;
use crate::{registry, sql};
use tidegate_remote::{Commands, Driver, Finish, Once, Share, begin};

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Driver,
    pub(crate) pool: Pool,
    pub(crate) clock: Clock,
    pub(crate) prefix: String,
}

impl Shared {
    /// Asks one statement, and once more where it was lost to others, or its
    /// connection was gone: what it does may be done twice.
    pub(crate) async fn ask<T: FromRow + Send + 'static>(
        &self,
        statement: &str,
        parameters: impl Into<Params>,
    ) -> Result<Vec<T>, Trouble> {
        let parameters = parameters.into();
        let mut pace = Pace::default();
        loop {
            match self.ask_once(statement, parameters.clone()).await {
                Ok(rows) => return Ok(rows),
                Err(trouble) => pace.after(trouble).await?,
            }
        }
    }

    /// As [`ask`](Self::ask), but nothing is done twice. What was lost to others
    /// was not done.
    pub(crate) async fn ask_once<T: FromRow + Send + 'static>(
        &self,
        statement: &str,
        parameters: Params,
    ) -> Result<Vec<T>, Trouble> {
        let mut lent = self.pool.lend().await?;
        match lent.conn.exec(statement, parameters).await {
            Ok(rows) => {
                lent.put_back();
                Ok(rows)
            }
            Err(error) => {
                let trouble = Trouble::from(error);
                self.pool.forget_if_gone(&trouble);
                if !trouble.ends_connections() {
                    lent.put_back();
                }
                Err(trouble)
            }
        }
    }

    /// As [`ask`](Self::ask), for a statement that answers nothing.
    pub(crate) async fn tell(
        &self,
        statement: &str,
        parameters: impl Into<Params>,
    ) -> Result<(), Trouble> {
        self.ask::<Row>(statement, parameters).await.map(drop)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct MysqlTable {
    // Declared first, dropped first: what drives the work is there until it is done.
    _finish: Finish,
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    number: u32,
    pub(crate) limits: Limits,
    /// One change of limits is written at a time.
    writing: Once,
    sweeper: Sweeper,
}

impl MysqlTable {
    pub(crate) fn new(shared: Arc<Shared>, finish: Finish, number: u32) -> Self {
        let inner = Arc::new(Inner {
            shared,
            number,
            limits: Limits::default(),
            writing: Once::default(),
            sweeper: Sweeper::default(),
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

    fn send(self: &Arc<Self>, command: &KeyCommand<'_>) -> Later {
        let (own, request) = (Arc::clone(self), Request::of(command));
        let driver = &self.shared.driver;
        driver.later(async move { Ok(own.execute(request, None).await?.0) })
    }

    fn line(self: &Arc<Self>, waiting: &Waiting) -> impl Line {
        InLine::new(self, waiting)
    }

    fn follow(&self, command: &Command<'_>) {
        let limits = &self.limits;
        let _ = limits.follow(command.plan, command.now, command.calendars);
    }

    async fn catch_up(self: Arc<Self>) -> Result<(), StoreError> {
        self.edition().await.map(drop).map_err(Trouble::told)
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

    async fn count(self: Arc<Self>) -> Result<usize, StoreError> {
        self.count_rows().await.map_err(Trouble::told)
    }
}

impl Inner {
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            prefix: self.shared.prefix.as_str(),
            table: self.number,
        }
    }

    /// Waits until a command about `root` may use a connection.
    pub(crate) async fn share(&self, root: &[u8]) -> Result<Share, StoreError> {
        self.shared.pool.share(self.number, root).await
    }

    /// The newest plan's edition, written first if it is not yet.
    pub(crate) async fn edition(self: &Arc<Self>) -> Result<Arc<Edition>, Trouble> {
        if let Some(edition) = self.limits.settled() {
            return Ok(edition);
        }
        let settled = || self.limits.settled().map(Ok);
        let (inner, deadline) = (Arc::clone(self), self.shared.driver.deadline());
        let write = async move { Ok(inner.write_changes().await) };
        self.writing.run(deadline, settled, write).await?
    }

    /// Writes one change after the other, until none is left.
    async fn write_changes(&self) -> Result<Arc<Edition>, Trouble> {
        while let Some(change) = self.limits.next_change() {
            let mut lent = self.shared.pool.lend().await?;
            let clock = self.shared.clock;
            match registry::add(&mut lent.conn, self.place(), clock, change).await {
                Ok(edition) => {
                    lent.put_back();
                    self.limits.written(edition);
                }
                Err(trouble) => return Err(self.give_up(lent, trouble).await),
            }
        }
        let none = || StoreError::Unavailable("the table has no limits yet".to_owned());
        self.limits.settled().ok_or_else(|| none().into())
    }

    async fn count_rows(&self) -> Result<usize, Trouble> {
        let least = match self.shared.clock {
            Clock::Server => sql::AT_START.to_owned(),
            Clock::Caller => i64::MIN.to_string(),
        };
        let Place { prefix, table } = self.place();
        let ask = format!(
            "SELECT COUNT(*) FROM {prefix}_rows WHERE table_id = ? AND forget_at > {least}"
        );
        let counts: Vec<usize> = self.shared.ask(&ask, (table,)).await?;
        Ok(counts.first().copied().unwrap_or(0))
    }

    /// Deletes what is spent, every so often.
    pub(crate) fn sweep_in_turn(self: &Arc<Self>) {
        if self.shared.clock == Clock::Server && self.sweeper.is_due() {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                let deadline = inner.shared.driver.deadline();
                // What is left over is there the next time.
                let _ = tokio::time::timeout(deadline, inner.sweep()).await;
                inner.sweeper.done();
            });
        }
    }
}
