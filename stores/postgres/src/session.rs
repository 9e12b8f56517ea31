//! What leases end with, if that is asked for: a connection that holds an advisory
//! lock, and says nothing more. The server gives the lock back when the
//! connection ends, whatever ends it; who is refused because of a lease looks
//! whether its session's lock is free (`tidegate.free_ended`).

use tidegate_store::StoreError;
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::connection::Link;
use crate::error::unavailable;

/// The session of a store, begun when it is first needed, and another when its
/// connection was lost.
#[derive(Default)]
pub(crate) struct Session(Mutex<Option<(Client, i64)>>);

impl Session {
    /// The number of the session that lasts now, as far as is known.
    pub(crate) async fn number(&self, link: &Link) -> Result<i64, StoreError> {
        let mut begun = self.0.lock().await;
        if let Some((client, number)) = &*begun
            && !client.is_closed()
        {
            return Ok(*number);
        }
        let client = link.beside().await?;
        let row = client
            .query_one("SELECT tidegate.begin_session()", &[])
            .await;
        let number = row.map_err(|error| unavailable(&error))?.get(0);
        *begun = Some((client, number));
        Ok(number)
    }

    /// The server says that the session of this number is over: its connection may be silent
    /// here for long, after a failover, or where the way between is lost.
    pub(crate) async fn is_over(&self, number: i64) {
        let mut begun = self.0.lock().await;
        begun.take_if(|(_, known)| *known == number);
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}
