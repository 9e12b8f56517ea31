//! A line of those who wait for a key, in whatever process: they come up in the
//! order in which they arrived at the server.
//!
//! **Polling, stated.** MariaDB wakes nobody, so who waits asks: who is next in
//! line every 2 to 16 milliseconds, others every 16 for each who stands before
//! them, and at most every 128. Each look is one statement that finds its answer in
//! an index. Who arrives within the same moment as another may come up before it.
//!
//! **A place is kept by its holder.** It says that it is there every third of the
//! place's patience; one that is not heard of for longer (its process was killed,
//! stands still or cannot reach the server) loses its place, and the line goes on.

use std::sync::Arc;
use std::time::Duration;

use tidegate_contract::StoreError;
use tidegate_contract::core::Span;
use tokio::task::AbortHandle;

use crate::error::{Trouble, garbled};
use crate::names;
use crate::pace::Pace;
use crate::sql::AT_START;
use crate::table::Shared;

/// The shortest pause between two looks, of who is next in line.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// Its longest, and that of others for each who stands before them.
const PAUSE: Duration = Duration::from_millis(16);

/// Nobody pauses for longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(128);

/// So many who are not there any more are forgotten at once.
const MOST_FORGOTTEN: u32 = 256;

/// A line for each key of one set: those who wait for it, in whatever process, come
/// up in the order in which they arrived at the server.
///
/// **Polling, stated.** Who is next in line looks every 2 to 16 milliseconds, others
/// every 16 for each who stands before them, and at most every 128.
///
/// **A place is kept by its holder**, who is heard of every third of its patience;
/// one that is not heard of for longer has lost its place.
#[derive(Clone, Debug)]
pub struct Line {
    shared: Arc<Shared>,
    table: u32,
}

/// A place in line. Dropped, it is given up.
#[derive(Debug)]
pub struct Place {
    shared: Arc<Shared>,
    table: u32,
    name: Vec<u8>,
    number: u64,
    /// Says that the place's holder is there.
    keeper: AbortHandle,
}

impl Line {
    pub(crate) const fn new(shared: Arc<Shared>, table: u32) -> Self {
        Self { shared, table }
    }

    /// Stands in line for `key`; the place is lost if it is not heard of for
    /// `patience` (a tenth of a second at least, an hour at most).
    ///
    /// # Errors
    /// *Cannot tell*; then there is no place.
    pub async fn stand(&self, key: &[u8], patience: Duration) -> Result<Place, StoreError> {
        let patience = patience.clamp(Duration::from_millis(100), Duration::from_secs(3_600));
        let (shared, table, name) = (Arc::clone(&self.shared), self.table, names::name(key));
        let arrive = async move {
            let number = arrive(&shared, table, &name, patience).await;
            let number = number.map_err(Trouble::told)?;
            let kept = keep(Arc::clone(&shared), number, patience);
            Ok(Place {
                keeper: tokio::spawn(kept).abort_handle(),
                shared,
                table,
                name,
                number,
            })
        };
        self.shared.link.start(arrive).await
    }
}

impl Place {
    /// Waits until nobody stands before it. From then on it is this place's turn,
    /// until it is given up; whoever comes later waits.
    ///
    /// It may be dropped while it waits, and asked again. There is no deadline here:
    /// that is the caller's, who may give the place up at any time.
    ///
    /// # Errors
    /// *Cannot tell*, after a look that had no answer within the store's deadline;
    /// or the place is lost.
    pub async fn turn(&self) -> Result<(), StoreError> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let before = self.look().await?;
            let pause = match before {
                0 => return Ok(()),
                1 => {
                    pause = (pause * 2).min(PAUSE);
                    pause
                }
                others => (PAUSE * others).min(LONGEST_PAUSE),
            };
            self.shared.link.pause(pause).await?;
        }
    }

    /// How many stand before it, as far as that matters.
    async fn look(&self) -> Result<u32, StoreError> {
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        let (table, name) = (self.table, self.name.clone());
        let look = async move {
            let before = before(&shared, table, &name, number).await;
            before.map_err(Trouble::told)
        };
        self.shared.link.start(look).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.keeper.abort();
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        // Should it not get there, the place is lost when its patience is over.
        drop(self.shared.link.start(async move {
            let left = leave(&shared, number).await;
            left.map_err(Trouble::told)
        }));
    }
}

async fn arrive(
    shared: &Shared,
    table: u32,
    name: &[u8],
    patience: Duration,
) -> Result<u64, Trouble> {
    let prefix = &shared.prefix;
    let forget =
        format!("DELETE FROM {prefix}_waiters WHERE until <= {AT_START} LIMIT {MOST_FORGOTTEN}");
    let insert = format!(
        "INSERT INTO {prefix}_waiters (table_id, name, until) \
         VALUES (?, ?, {AT_START} + ?) RETURNING number"
    );
    // The first finds out whether a connection is there: who arrives twice stands
    // in his own way.
    shared.tell(&forget, ()).await?;
    let mut pace = Pace::default();
    loop {
        let row = (table, name, micros(patience));
        match shared.ask_once(&insert, row.into()).await {
            Ok(numbers) => return numbers.first().copied().ok_or_else(|| garbled("no place")),
            Err(lost @ Trouble::Lost(_)) => pace.after(lost).await?,
            Err(trouble) => return Err(trouble),
        }
    }
}

/// Says over and over that the place's holder is there. A time or two may fail.
async fn keep(shared: Arc<Shared>, number: u64, patience: Duration) {
    let prefix = &shared.prefix;
    // One that is lost stays lost: others may have come up meanwhile.
    let say = format!(
        "UPDATE {prefix}_waiters SET until = {AT_START} + ? WHERE number = ? AND until > {AT_START}"
    );
    loop {
        tokio::time::sleep(patience / 3).await;
        let said = shared.tell(&say, (micros(patience), number));
        let _ = tokio::time::timeout(patience / 3, said).await;
    }
}

/// How many are before `number` (of up to eight), if it is still in line.
async fn before(shared: &Shared, table: u32, name: &[u8], number: u64) -> Result<u32, Trouble> {
    const MOST: u32 = 9;
    let ask = format!(
        "SELECT number FROM {}_waiters WHERE table_id = ? AND name = ? AND number <= ? \
         AND until > {AT_START} ORDER BY number LIMIT {MOST}",
        shared.prefix
    );
    let found: Vec<u64> = shared.ask(&ask, (table, name, number)).await?;
    match found.iter().position(|&other| other == number) {
        Some(before) => Ok(before as u32),
        None if found.len() as u32 == MOST => Ok(MOST),
        None => Err(lost().into()),
    }
}

async fn leave(shared: &Shared, number: u64) -> Result<(), Trouble> {
    let delete = format!("DELETE FROM {}_waiters WHERE number = ?", shared.prefix);
    shared.tell(&delete, (number,)).await
}

fn micros(patience: Duration) -> u64 {
    Span::from(patience).as_micros()
}

fn lost() -> StoreError {
    StoreError::Unavailable(
        "the place in line was lost: the server has not heard of it for too long; stand in line again"
            .to_owned(),
    )
}
