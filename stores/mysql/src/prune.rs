//! What is spent is deleted, a little after every so many commands: no thread and
//! no event of the server does it, and an idle table does not grow.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Row, Value};
use tidegate_store::optimistic::OwnedKeyCommand;

use crate::error::Trouble;
use crate::inner::Inner;
use crate::sql::{AT_START, Place, marks};
use crate::turns;

/// What a record of usage is found by.
const USAGE_KEY: [&str; 4] = ["table_id", "name", "hour", "limit_name"];

/// So many rows are deleted at once.
const MOST_ROWS: u32 = 512;

/// So many leases that are due are looked at.
const MOST_LEASES: u32 = 64;

impl Inner {
    /// Forgets who waits no longer, deletes rows and records of usage that are spent, and looks
    /// at leases that are due on roots that nobody asks.
    pub(crate) async fn prune(self: &Arc<Self>) -> Result<(), Trouble> {
        turns::forget(&self.shared).await?;
        self.delete_spent("rows", &["table_id", "name"], "keep_until")
            .await?;
        self.delete_spent("usage", &USAGE_KEY, "over_at").await?;
        for owner in self.owners_of_due_leases().await? {
            // One that cannot be looked at, now or ever, keeps no other from it.
            let _ = self.look_at(&owner).await;
        }
        Ok(())
    }

    async fn owners_of_due_leases(&self) -> Result<Vec<Vec<u8>>, Trouble> {
        let Place { prefix, table } = self.place();
        let sql = format!(
            "SELECT owner FROM {prefix}_leases WHERE table_id = ? AND due <= {AT_START} \
             ORDER BY due LIMIT {MOST_LEASES}"
        );
        let mut owners: Vec<Vec<u8>> = self.shared.query(&sql, (table,)).await?;
        owners.sort_unstable();
        owners.dedup();
        Ok(owners)
    }

    /// Any command deals with what is due on its root; this one does nothing else.
    async fn look_at(self: &Arc<Self>, owner: &[u8]) -> Result<(), Trouble> {
        let revision = self.revision().await?;
        let look = revision.look(owner, revision.adopted.at);
        match look {
            Some(look) => {
                let look = OwnedKeyCommand::of(&look);
                self.attempt(&look, None).await.map(drop)
            }
            None => Ok(()),
        }
    }

    /// Deletes from an SQL table what is spent, by the instant in this column. What others have
    /// locked is left to them.
    async fn delete_spent(&self, table: &str, key: &[&str], spent: &str) -> Result<(), Trouble> {
        let (prefix, columns) = (self.place().prefix, key.join(", "));
        let mut lent = self.shared.pool.lend().await?;
        lent.conn.query_drop("START TRANSACTION").await?;
        let find = format!(
            "SELECT {columns} FROM {prefix}_{table} WHERE {spent} <= {AT_START} \
             ORDER BY {spent} LIMIT {MOST_ROWS} FOR UPDATE SKIP LOCKED"
        );
        let found: Vec<Row> = lent.conn.exec(find, ()).await?;
        if !found.is_empty() {
            let one = format!("({})", marks(key.len()));
            let all = vec![one; found.len()].join(", ");
            let delete = format!("DELETE FROM {prefix}_{table} WHERE ({columns}) IN ({all})");
            let keys: Vec<Value> = found.into_iter().flat_map(Row::unwrap).collect();
            let delete = lent.conn.prep(delete).await?;
            lent.conn
                .exec_drop(&delete, Params::Positional(keys))
                .await?;
            lent.conn.close(delete).await?;
        }
        lent.conn.query_drop("COMMIT").await?;
        lent.put_back();
        Ok(())
    }
}
