//! The removal of what nobody asks for any more, in the background: a walk along the
//! rows, in steps that the deadline leaves time for.

use std::sync::Arc;
use std::time::Duration;

use tidegate_net::within;
use tidegate_store::StoreError;
use tokio::time::Instant;

use crate::connection::{Argument, Link};
use crate::error::garbled;
use crate::shared::Shared;

/// So many rows are looked at in one step, if it can be.
const AT_ONCE: i32 = 1_000;

/// A step that took too long is made again with so many times fewer; after one that did
/// not, the next has such a part more.
const FEWER: i32 = 8;

/// What is due has this part of the deadline in a step.
const PART: u32 = 4;

/// A walk along all rows.
pub(crate) struct Walk {
    link: Arc<Link>,
    deadline: Duration,
    /// Behind which table and key it goes on.
    place: (i32, Vec<u8>),
    /// How many rows its next step looks at.
    most: i32,
}

/// Walks every now and then, for as long as the store's thread runs.
pub(crate) fn start(shared: &Shared, every: Duration) {
    let Some(handle) = shared.driver.handle() else {
        return;
    };
    let mut walk = Walk::new(shared);
    handle.spawn(async move {
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

    /// Goes on to the last row, and pauses after each step for as long as it took; how
    /// many rows were looked after. After an error it can go on.
    pub(crate) async fn walk(&mut self) -> Result<usize, StoreError> {
        let mut pruned = 0;
        loop {
            let began = Instant::now();
            let step = within(self.deadline, self.step()).await;
            match step {
                Ok((looked_after, more)) => {
                    pruned += looked_after;
                    self.most = (self.most + self.most / FEWER + 1).min(AT_ONCE);
                    if !more {
                        break;
                    }
                }
                Err(_) if self.most > 1 => self.most = (self.most / FEWER).max(1),
                Err(error) => return Err(error),
            }
            tokio::time::sleep(began.elapsed()).await;
        }
        let forget = "SELECT tidegate.prune_waiters($1)";
        within(self.deadline, self.link.query(forget, &[&AT_ONCE])).await?;
        Ok(pruned)
    }

    /// One step: how many rows it looked after, and whether there are more.
    async fn step(&mut self) -> Result<(usize, bool), StoreError> {
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
}
