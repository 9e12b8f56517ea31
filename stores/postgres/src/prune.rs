//! The removal of what nobody asks for any more, in the background: a walk along the
//! rows, and then what of usage is over, in steps that the deadline leaves time for.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::within;
use tidegate_store::StoreError;
use tokio::time::Instant;

use crate::connection::{Argument, Link};
use crate::error::garbled;
use crate::shared::Shared;

/// So many rows are looked at, or records of usage deleted, in one step, if it can be.
const AT_ONCE: i32 = 1_000;

/// A step that took too long is made again with so many times fewer; after one that did
/// not, the next has such a part more.
const FEWER: i32 = 8;

/// So many records of usage are deleted before rows are looked at again, about: in a minute more
/// than a fleet makes in one.
const MOST_USAGE: usize = 1_000_000;

/// What is due has this part of the deadline in a step.
const PART: u32 = 4;

/// What a step is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Rows,
    Usage,
}

/// A walk along all rows.
pub(crate) struct Walk {
    link: Arc<Link>,
    deadline: Duration,
    /// Behind which table and key it goes on.
    place: (i32, Vec<u8>),
    /// How many its next step looks at.
    most: i32,
}

/// Walks every now and then, for as long as the store's thread runs.
pub(crate) fn start(shared: &Shared, every: Duration) {
    let mut walk = Walk::new(shared);
    shared.driver.handle().spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            // What fails now is tried the next time, from there.
            let _ = walk.walk().await;
        }
    });
}

impl Walk {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            link: Arc::clone(&shared.link),
            deadline: shared.driver.deadline(),
            place: (0, Vec::new()),
            most: AT_ONCE,
        }
    }

    /// Goes on to the last row, and then deletes what of usage is over; how many rows were
    /// looked after. After an error it can go on.
    pub(crate) async fn walk(&mut self) -> Result<usize, StoreError> {
        let pruned = self.repeat(Step::Rows).await?;
        self.repeat(Step::Usage).await?;
        let forget = "SELECT tidegate.prune_waiters($1)";
        within(self.deadline, self.link.query(forget, &[&AT_ONCE])).await?;
        Ok(pruned)
    }

    /// Makes steps of one kind until nothing is left to do, and pauses after each for as long
    /// as it took; how much they did.
    async fn repeat(&mut self, kind: Step) -> Result<usize, StoreError> {
        let mut done = 0;
        loop {
            let began = Instant::now();
            let step = match kind {
                Step::Rows => within(self.deadline, self.rows()).await,
                Step::Usage => within(self.deadline, self.usage()).await,
            };
            match step {
                Ok((some, more)) => {
                    done += some;
                    self.most = (self.most + self.most / FEWER + 1).min(AT_ONCE);
                    if !more || kind == Step::Usage && done >= MOST_USAGE {
                        return Ok(done);
                    }
                }
                Err(_) if self.most > 1 => self.most = (self.most / FEWER).max(1),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(began.elapsed()).await;
        }
    }

    /// How many rows a step looked after, and whether there are more.
    async fn rows(&mut self) -> Result<(usize, bool), StoreError> {
        let micros = (self.deadline / PART).as_micros();
        let micros = i64::try_from(micros).unwrap_or(i64::MAX);
        let (table, key) = &self.place;
        let prune = "SELECT pruned, next_tab, next_key FROM tidegate.prune($1, $2, $3, $4)";
        let arguments: [Argument<'_>; 4] = [table, key, &self.most, &micros];
        let rows = self.link.query(prune, &arguments).await?;
        let row = rows.first().ok_or_else(|| garbled("no count"))?;
        let pruned = usize::try_from(row.get::<_, i32>(0)).unwrap_or(0);
        let next = row.get::<_, Option<i32>>(1).zip(row.get(2));
        let more = next.is_some();
        self.place = next.unwrap_or_default();
        Ok((pruned, more))
    }

    /// How many records of usage a step deleted, and whether there may be more.
    async fn usage(&self) -> Result<(usize, bool), StoreError> {
        let prune = "SELECT tidegate.prune_usage($1)";
        let rows = self.link.query(prune, &[&self.most]).await?;
        let row = rows.first().ok_or_else(|| garbled("no count"))?;
        let deleted: i32 = row.get(0);
        Ok((usize::try_from(deleted).unwrap_or(0), deleted >= self.most))
    }
}
