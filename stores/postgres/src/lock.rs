//! The server's own locks, by name.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreError;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::unavailable;
use crate::shared::Shared;

/// A lock of the server, held until this is dropped, or its connection is lost:
/// by a crash of the process, of the server, or of the way between. Who waits is
/// served in order of arrival, by the server.
///
/// It has no expiry and no fence: a holder that hangs keeps it, and one whose
/// connection was lost may not know yet. Where that matters take slots, whose
/// leases have both.
pub struct AdvisoryLock {
    client: Client,
    /// Drives the connection, also when the store is dropped.
    _shared: Arc<Shared>,
}

impl AdvisoryLock {
    /// Whether the connection that it depends on is there, as far as is known.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.client.is_closed()
    }
}

impl std::fmt::Debug for AdvisoryLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdvisoryLock")
            .field("is_held", &self.is_held())
            .finish()
    }
}

/// Takes the lock called `name` on a connection of its own; `None` if it is not
/// free `within` this time.
pub(crate) async fn take(
    shared: Arc<Shared>,
    name: &str,
    within: Duration,
) -> Result<Option<AdvisoryLock>, StoreError> {
    let client = shared.link.beside().await?;
    // Zero would mean no limit.
    let millis = within.as_millis().clamp(1, i32::MAX as u128);
    let patience = format!("SET statement_timeout = 0; SET lock_timeout = {millis}");
    let set = client.batch_execute(&patience).await;
    set.map_err(|error| unavailable(&error))?;
    let lock = "SELECT pg_advisory_lock(tidegate.lock_key($1))";
    let parameters: [crate::connection::Argument<'_>; 1] = [&name];
    let answer = timeout(
        within.saturating_add(shared.driver.deadline()),
        client.query_one(lock, &parameters),
    );
    let silent = || StoreError::Unavailable("the PostgreSQL server does not answer".to_owned());
    match answer.await.map_err(|_| silent())? {
        Ok(_) => Ok(Some(AdvisoryLock {
            client,
            _shared: shared,
        })),
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(None),
        Err(error) => Err(unavailable(&error)),
    }
}
