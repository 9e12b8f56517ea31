//! One set's table: a command's way to the server and back.

use std::sync::Arc;

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Params, Row};
use tidegate_contract::core::{Bounds, Timestamp};
use tidegate_contract::{
    Command, HeldLease, Listing, OwnedKey, Page, Patience, Plan, RemoteTable, Reply, Sent,
    StoreError, Table,
};
use tidegate_remote::waiting::{self, Waiting};
use tidegate_swap::{Attempt, Clock, Edition, Limits, Request, Step, Swap, trip};

use crate::error::Trouble;
use crate::kept::{self, Decided};
use crate::link::Link;
use crate::listing::Wanted;
use crate::pace::Pace;
use crate::pool::{Lent, Pool};
use crate::sweep::Sweeper;
use crate::trips::{self, Loaded, Place};
use crate::turns::{Ahead, Turn};
use crate::waiting::InLine;
use crate::{registry, sql};

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
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
                if !matches!(trouble, Trouble::Broken(_)) {
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
#[derive(Debug, Clone)]
pub(crate) struct MysqlTable(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    number: u32,
    limits: Limits,
    /// One change of limits is written at a time.
    writing: tokio::sync::Mutex<()>,
    sweeper: Sweeper,
}

/// What a try came to.
pub(crate) enum Outcome {
    Reply(Result<Reply, StoreError>),
    /// Somebody ahead in line waits for the same: its limits refused it with this, or
    /// would have admitted it.
    Kept(Option<Reply>),
    /// There was more to do than is done at once.
    Again,
}

impl MysqlTable {
    pub(crate) fn new(shared: Arc<Shared>, number: u32) -> Self {
        Self(Arc::new(Inner {
            shared,
            number,
            limits: Limits::default(),
            writing: tokio::sync::Mutex::default(),
            sweeper: Sweeper::default(),
        }))
    }

    /// Does `work` on the store's thread; the calling one waits.
    fn block_on<T: Send + 'static, W>(
        &self,
        work: impl FnOnce(Arc<Inner>) -> W,
    ) -> Result<T, StoreError>
    where
        W: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        let work = work(Arc::clone(&self.0));
        let told = async move { work.await.map_err(Trouble::told) };
        self.0.shared.link.block_on(told)
    }
}

impl Table for MysqlTable {
    /// Blocks the calling thread until the answer is there, or the deadline.
    fn execute(&self, command: &Command<'_>) -> Result<Reply, StoreError> {
        let request = Request::of(command);
        let work = |inner: Arc<Inner>| async move {
            let reply = inner.execute(request, None).await;
            reply.map(|(reply, _)| reply).map_err(Trouble::Failed)
        };
        self.block_on(work)
    }

    fn adopt(&self, plan: &Arc<Plan>, now: Timestamp, calendars: &[Option<Bounds>]) {
        // A newer plan may be here already.
        let _ = self.0.limits.follow(plan, now, calendars);
        // What cannot be written now is before the next command.
        let _ = self.block_on(|inner| async move { inner.edition().await.map(drop) });
    }

    fn remote(&self) -> Option<&dyn RemoteTable> {
        Some(self)
    }

    fn list_keys(&self, listing: &Listing<'_>) -> Result<Page<OwnedKey>, StoreError> {
        let wanted = Wanted::of(listing);
        self.block_on(|inner| async move { inner.page_of_keys(wanted).await })
    }

    fn list_leases(&self, listing: &Listing<'_>) -> Result<Page<HeldLease>, StoreError> {
        let wanted = Wanted::of(listing);
        self.block_on(|inner| async move { inner.page_of_leases(wanted).await })
    }

    /// Counts the rows on the server one by one, which takes it a while.
    fn len(&self) -> usize {
        let count = self.block_on(|inner| async move { inner.count().await });
        count.unwrap_or(0)
    }
}

impl RemoteTable for MysqlTable {
    fn send(&self, command: &Command<'_>) -> Sent {
        let (inner, request) = (Arc::clone(&self.0), Request::of(command));
        let work = async move { Ok(inner.execute(request, None).await?.0) };
        Box::pin(self.0.shared.link.start(work))
    }

    fn wait(&self, command: &Command<'_>, patience: &Patience) -> Option<Sent> {
        let waiting = Waiting::of(command, patience)?;
        let line = InLine::new(&self.0, &waiting);
        Some(waiting::stay(self.0.shared.link.handle(), waiting, line))
    }
}

impl Inner {
    pub(crate) fn place(&self) -> Place<'_> {
        Place {
            prefix: self.shared.prefix.as_str(),
            table: self.number,
        }
    }

    /// Executes a command, one that may wait at its turn; and whether others in line
    /// are first.
    pub(crate) async fn execute(
        self: Arc<Self>,
        request: Request,
        mut turn: Option<&mut Turn>,
    ) -> Result<(Reply, bool), StoreError> {
        self.limits
            .follow(&request.plan, request.now, &request.calendars)?;
        let mut pace = Pace::default();
        loop {
            let trouble = match self.attempt(&request, turn.as_deref_mut()).await {
                Ok(Outcome::Reply(reply)) => {
                    self.sweep_in_turn();
                    return Ok((reply?, false));
                }
                Ok(Outcome::Kept(refusal)) => {
                    self.sweep_in_turn();
                    let reply = match refusal {
                        Some(reply) => reply,
                        None => self.refusal(&request).await?,
                    };
                    return Ok((reply, true));
                }
                Ok(Outcome::Again) => continue,
                Err(trouble) => trouble,
            };
            pace.after(trouble).await?;
        }
    }

    /// One try, on a connection of its own.
    pub(crate) async fn attempt(
        &self,
        request: &Request,
        mut turn: Option<&mut Turn>,
    ) -> Result<Outcome, Trouble> {
        let edition = self.edition().await?;
        if !Arc::ptr_eq(&edition.plan, &request.plan) {
            return Err(StoreError::StalePlan.into());
        }
        let mut attempt = Attempt::new(request, edition, self.limits.known(), self.shared.clock);
        let wanted = attempt.begin()?;
        let ahead = request.is_take().then(|| match &turn {
            Some(turn) => turn.ahead(),
            None => Ahead::ALL,
        });
        let mut lent = self.shared.pool.lend().await?;
        let loaded = self.load(&mut lent, request, &wanted, (true, ahead)).await;
        let Loaded {
            found,
            kept_at,
            stands_since,
        } = match loaded {
            Ok(loaded) => loaded,
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        };
        if let (Some(turn), Some(since)) = (&mut turn, stands_since) {
            turn.resume(since);
        }
        let now = found.now;
        let mut step = attempt.found(found);
        loop {
            let more = match step {
                Step::Done(reply) => {
                    let decided = Decided::of(request, turn, (now, kept_at));
                    return self.answer(lent, decided, reply).await;
                }
                Step::Swap(swap, reply) => {
                    let decided = Decided::of(request, turn, (now, kept_at));
                    return self.write(lent, decided, (swap, reply)).await;
                }
                Step::Load(wanted) => {
                    let loaded = self.load(&mut lent, request, &wanted, (false, None)).await;
                    loaded.map(|loaded| attempt.found(loaded.found))
                }
                Step::Editions(numbers) => {
                    let learned = self.learn(&mut lent, &numbers).await;
                    learned.map(|()| attempt.learned(self.limits.known()))
                }
            };
            step = match more {
                Ok(step) => step,
                Err(trouble) => return Err(self.give_up(lent, trouble).await),
            };
        }
    }

    async fn load(
        &self,
        lent: &mut Lent,
        request: &Request,
        wanted: &trip::Wanted,
        how: (bool, Option<Ahead>),
    ) -> Result<Loaded, Trouble> {
        let root = request.root()?;
        trips::load(&mut lent.conn, self.place(), root, wanted, how).await
    }

    /// Answers what changed nothing but, perhaps, the line.
    async fn answer(
        &self,
        mut lent: Lent,
        mut decided: Decided<'_>,
        reply: Result<Reply, StoreError>,
    ) -> Result<Outcome, Trouble> {
        let moved = match &reply {
            Ok(reply) => {
                decided
                    .move_in_line(&mut lent.conn, self.place(), reply)
                    .await
            }
            Err(_) => Ok(false),
        };
        match moved {
            Ok(true) => self.commit(lent).await?,
            Ok(false) => self.end(lent),
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        }
        Ok(decided.outcome(Some(reply)))
    }

    /// Writes and commits. An answer that does not come leaves it open whether the
    /// server has done so: this is told, and nothing is tried again.
    async fn write(
        &self,
        mut lent: Lent,
        mut decided: Decided<'_>,
        (swap, reply): (Swap, Option<Result<Reply, StoreError>>),
    ) -> Result<Outcome, Trouble> {
        if let Some(Ok(reply)) = &reply {
            if decided.is_overtaking(reply) {
                return self.keep_back(lent, decided).await;
            }
            let moved = decided.move_in_line(&mut lent.conn, self.place(), reply);
            if let Err(trouble) = moved.await {
                return Err(self.give_up(lent, trouble).await);
            }
        }
        match trips::swap(&mut lent.conn, self.place(), swap).await {
            Ok(()) => {
                lent.put_back();
                Ok(decided.outcome(reply))
            }
            Err(trouble) => Err(self.lost_in_commit(lent, trouble).await),
        }
    }

    /// Takes nothing, since others are first.
    async fn keep_back(
        &self,
        mut lent: Lent,
        mut decided: Decided<'_>,
    ) -> Result<Outcome, Trouble> {
        match decided.stand(&mut lent.conn, self.place(), 0).await {
            Ok(true) => self.commit(lent).await?,
            Ok(false) => self.end(lent),
            Err(trouble) => return Err(self.give_up(lent, trouble).await),
        }
        Ok(Outcome::Kept(None))
    }

    async fn commit(&self, mut lent: Lent) -> Result<(), Trouble> {
        match lent.conn.query_drop("COMMIT").await {
            Ok(()) => {
                lent.put_back();
                Ok(())
            }
            Err(error) => Err(self.lost_in_commit(lent, error.into()).await),
        }
    }

    async fn lost_in_commit(&self, lent: Lent, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Broken(words) => {
                StoreError::Unavailable(format!("{words}; the command may have been executed"))
                    .into()
            }
            trouble => self.give_up(lent, trouble).await,
        }
    }

    /// What a take is told that others keep back: what its limits say, or an instant
    /// from now on.
    async fn refusal(&self, request: &Request) -> Result<Reply, StoreError> {
        let Some((peek, detail)) = request.peek() else {
            return Err(StoreError::Unavailable("only a take waits".to_owned()));
        };
        let mut pace = Pace::default();
        loop {
            match self.attempt(&peek, None).await {
                Ok(Outcome::Reply(Ok(reply))) => return Ok(kept::back(reply, request.now, detail)),
                Ok(Outcome::Reply(Err(error))) => return Err(error),
                Ok(Outcome::Kept(_) | Outcome::Again) => {}
                Err(trouble) => pace.after(trouble).await?,
            }
        }
    }

    /// Nothing was changed: the transaction is ended while the caller has its
    /// answer already.
    fn end(&self, lent: Lent) {
        let deadline = self.shared.link.deadline();
        tokio::spawn(tokio::time::timeout(deadline, lent.roll_back()));
    }

    /// Ends a try that failed.
    async fn give_up(&self, lent: Lent, trouble: Trouble) -> Trouble {
        self.shared.pool.forget_if_gone(&trouble);
        if !matches!(trouble, Trouble::Broken(_)) {
            lent.roll_back().await;
        }
        trouble
    }

    async fn learn(&self, lent: &mut Lent, numbers: &[u32]) -> Result<(), Trouble> {
        let editions = registry::fetch(&mut lent.conn, self.place(), numbers).await?;
        self.limits.learn(editions);
        Ok(())
    }

    /// The newest plan's edition, written first if it is not yet.
    pub(crate) async fn edition(&self) -> Result<Arc<Edition>, Trouble> {
        if let Some(edition) = self.limits.settled() {
            return Ok(edition);
        }
        let _one_at_a_time = self.writing.lock().await;
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
    fn sweep_in_turn(self: &Arc<Self>) {
        if self.shared.clock == Clock::Server && self.sweeper.is_due() {
            let inner = Arc::clone(self);
            tokio::spawn(async move {
                let deadline = inner.shared.link.deadline();
                // What is left over is there the next time.
                let _ = tokio::time::timeout(deadline, inner.sweep()).await;
                inner.sweeper.done();
            });
        }
    }
}
