//! What the tables of a store share.

use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Params, Row};
use tidegate_net::Driver;
use tidegate_store::optimistic::Clock;

use crate::backoff::Backoff;
use crate::connection::Pool;
use crate::error::Trouble;

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
    pub(crate) async fn query<T: FromRow + Send + 'static>(
        &self,
        statement: &str,
        parameters: impl Into<Params>,
    ) -> Result<Vec<T>, Trouble> {
        let parameters = parameters.into();
        let mut backoff = Backoff::default();
        loop {
            match self.ask_once(statement, parameters.clone()).await {
                Ok(rows) => return Ok(rows),
                Err(trouble) => backoff.after(trouble).await?,
            }
        }
    }

    /// As [`query`](Self::query), but nothing is done twice. What was lost to others
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

    /// As [`query`](Self::query), for a statement that answers nothing.
    pub(crate) async fn tell(
        &self,
        statement: &str,
        parameters: impl Into<Params>,
    ) -> Result<(), Trouble> {
        self.query::<Row>(statement, parameters).await.map(drop)
    }
}
