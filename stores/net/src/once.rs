//! Work that one at a time does for all who wait for it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_store::StoreError;
use tokio::sync::Mutex;

use crate::driver::{closed, within};

/// Work that one at a time does for all who wait for it. It has a deadline of its own, and
/// goes on when whoever began it has gone: those who waited long for their turn have little
/// time left, and none of them would end what each began anew.
#[derive(Debug, Default)]
pub struct Once(Arc<Mutex<()>>);

impl Once {
    /// What is `done` already, by the time that it is this one's turn; else what `work` comes
    /// to, within `deadline`.
    ///
    /// # Errors
    /// Those of the work; [`StoreError::Unavailable`] if it takes too long.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        done: impl Fn() -> Option<T>,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let turn = Arc::clone(&self.0).lock_owned().await;
        if let Some(done) = done() {
            return Ok(done);
        }
        let work = tokio::spawn(async move {
            let _turn = turn;
            within(deadline, work).await
        });
        work.await.unwrap_or_else(|_| Err(closed()))
    }
}
