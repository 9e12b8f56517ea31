//! The server's own locks (`GET_LOCK`): one holder of a name at a time, on the
//! whole server, for as long as a connection lives.
//!
//! Such a lock costs no row and no renewal, and is free at once when its holder's
//! process dies. It has no fence and no expiry: a holder that stands still holds
//! it, and one whose connection is cut holds it no more, without being told. Where
//! a late writer must be refused, hold slots of a limit set instead, whose leases
//! have fences. A replica or another node of a cluster knows nothing of it.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sha2::{Digest, Sha256};
use tidegate_store::StoreError;
use tokio::sync::Mutex;

use crate::backoff::Backoff;
use crate::error::{Trouble, garbled};
use crate::shared::Shared;

/// A lock that is held, on a connection of its own. Dropped, it is released.
#[derive(Debug)]
pub struct NativeLock {
    shared: Arc<Shared>,
    name: String,
    conn: Held,
}

/// The connection that a lock depends on, for as long as it is there. Whoever uses it
/// takes it out meanwhile: what is left half way is closed.
type Held = Arc<Mutex<Option<Conn>>>;

impl NativeLock {
    /// Waits up to `patience` for the lock `name`; `None` if others hold it for
    /// longer.
    pub(crate) async fn take(
        shared: Arc<Shared>,
        name: &str,
        patience: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let name = native_name(&shared.prefix, name);
        let (pool, lock) = (Arc::clone(&shared), name.clone());
        let take = async move {
            let mut backoff = Backoff::default();
            loop {
                let trouble = match get(&pool, &lock, patience).await {
                    Ok(conn) => return Ok(conn),
                    Err(trouble) => trouble,
                };
                // Whoever loses the connection loses the lock with it.
                pool.pool.forget_if_gone(&trouble);
                backoff.after(trouble).await?;
            }
        };
        let conn = shared.driver.start_within(patience, take).await?;
        Ok(conn.map(|conn| Self {
            shared,
            name,
            conn: Arc::new(Mutex::new(Some(conn))),
        }))
    }

    /// Whether it is still held. An error says that this cannot be known, which
    /// most often means that its connection is gone, and the lock with it.
    ///
    /// # Errors
    /// *Cannot tell*; then the lock is to be taken as lost.
    pub async fn is_held(&mut self) -> Result<bool, StoreError> {
        let (held, name) = (Arc::clone(&self.conn), self.name.clone());
        // It goes on, and keeps the lock, also when nobody waits for the answer.
        let holds = async move {
            let mut held = held.lock().await;
            let Some(mut conn) = held.take() else {
                return Ok(false);
            };
            let sql = "SELECT IS_USED_LOCK(?) = CONNECTION_ID()";
            let answer = conn.exec_first(sql, (name,)).await;
            let is_held: Option<Option<bool>> =
                answer.map_err(|error| Trouble::from(error).told())?;
            *held = Some(conn);
            Ok(is_held.flatten() == Some(true))
        };
        self.shared.driver.start(holds).await
    }

    /// Releases it, and waits until that is done.
    ///
    /// # Errors
    /// *Cannot tell*; its connection is closed then, and the server releases it
    /// when it notices.
    pub async fn release(self) -> Result<(), StoreError> {
        self.start_to_free().await
    }

    fn start_to_free(&self) -> impl Future<Output = Result<(), StoreError>> {
        let (held, name) = (Arc::clone(&self.conn), self.name.clone());
        self.shared.driver.start(async move {
            match held.lock().await.take() {
                Some(conn) => free(conn, name).await,
                None => Ok(()),
            }
        })
    }
}

impl Drop for NativeLock {
    fn drop(&mut self) {
        drop(self.start_to_free());
    }
}

/// A connection that says nothing for a year is closed by the server: the longest that it
/// can be told.
const QUIET: &str = "SET SESSION wait_timeout = 31536000";

async fn get(shared: &Shared, lock: &str, patience: Duration) -> Result<Option<Conn>, Trouble> {
    let mut conn = shared.pool.beside().await?;
    // Whoever holds it says nothing meanwhile: the server is not to hang up for that.
    conn.query_drop(QUIET).await?;
    let seconds = patience.as_secs_f64();
    let get = "SELECT GET_LOCK(?, ?)";
    match conn.exec_first(get, (lock, seconds)).await? {
        Some(Some(1_u8)) => Ok(Some(conn)),
        Some(Some(0)) => Ok(None),
        _ => Err(garbled("no lock")),
    }
}

async fn free(mut conn: Conn, name: String) -> Result<(), StoreError> {
    let freed = conn.exec_drop("DO RELEASE_LOCK(?)", (name,)).await;
    freed.map_err(|error| Trouble::from(error).told())
}

/// A name of a lock has at most 64 characters, of whatever case: it is told apart
/// by a hash.
fn native_name(prefix: &str, name: &str) -> String {
    let mut hash = Sha256::new();
    hash.update((prefix.len() as u64).to_le_bytes());
    hash.update(prefix);
    hash.update(name);
    let hash = hash.finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
