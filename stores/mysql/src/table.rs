//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Params, Row};
use tidegate_contract::{
    Answer, Command, Count, Execution, Later, Op, Out, Reply, StoreError, Table,
};
use tidegate_remote::waiting::{self, Waiting};
use tidegate_swap::{Clock, Edition, Limits, Request};

use crate::error::Trouble;
use crate::listing::Wanted;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::sweep::Sweeper;
use crate::trips::Place;
use crate::waiting::InLine;
use crate::{registry, sql};
use tidegate_remote::{Driver, Finish, Once, Share, batch};

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
        self.inner.begin(command).into()
    }
}

impl Inner {
    /// A command under way, wherever it is awaited.
    fn begin(self: &Arc<Self>, command: &Command<'_>) -> Later {
        match command.op {
            Op::One(path, verb) => match Waiting::of(command) {
                Some(waiting) => {
                    let line = InLine::new(self, &waiting);
                    waiting::stay(self.shared.driver.tasks(), waiting, line)
                }
                None => {
                    let request = Request::of(&command.one(path, verb));
                    self.start(|inner| async move { Ok(inner.execute(request, None).await?.0) })
                }
            },
            Op::Batch(items) => {
                let inner = Arc::clone(self);
                let each = move |one: &Command<'_>| inner.begin(one);
                batch(&self.shared.driver, command, items, each)
            }
            Op::Adopt => {
                // A newer plan may be here already.
                let limits = &self.limits;
                let _ = limits.follow(command.plan, command.now, command.calendars);
                // What cannot be written now is before the next command.
                self.start(|inner| async move {
                    inner.edition().await.map_err(Trouble::told)?;
                    Ok(Reply::Done)
                })
            }
            Op::ListKeys(listing) => {
                let wanted = Wanted::of(&listing);
                self.start(|inner| async move {
                    let page = inner.page_of_keys(wanted).await;
                    page.map(Reply::Keys).map_err(Trouble::told)
                })
            }
            Op::ListLeases(listing) => {
                let wanted = Wanted::of(&listing);
                self.start(|inner| async move {
                    let page = inner.page_of_leases(wanted).await;
                    page.map(Reply::Leases).map_err(Trouble::told)
                })
            }
            // It counts the rows on the server one by one, which takes it a while.
            Op::Count => self.start(|inner| async move {
                let keys = inner.count().await.map_err(Trouble::told)?;
                Ok(Reply::Count(Count {
                    keys,
                    leases: None,
                    remembered: None,
                }))
            }),
        }
    }

    /// Does `work` on the store's thread.
    fn start<W>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> W) -> Later
    where
        W: Future<Output = Answer> + Send + 'static,
    {
        self.shared.driver.later(work(Arc::clone(self)))
    }

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

    async fn count(&self) -> Result<usize, Trouble> {
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
