//! What is spent is deleted, a little after every so many commands: no thread and
//! no event of the server does it, and an idle table does not grow.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Value};
use tidegate_store::optimistic::OwnedKeyCommand;
use tidegate_store::{KeyCommand, KeyPath, Verb};

use crate::error::Trouble;
use crate::inner::Inner;
use crate::sql::{AT_START, Place};
use crate::turns;

/// So many rows are deleted at once.
const MOST_ROWS: u32 = 512;

/// So many leases that are due are looked at.
const MOST_LEASES: u32 = 64;

impl Inner {
    /// Forgets who waits no longer, deletes rows that are spent, and looks at leases that
    /// are due on roots that nobody asks.
    pub(crate) async fn prune(self: &Arc<Self>) -> Result<(), Trouble> {
        turns::forget(&self.shared).await?;
        self.delete_spent_rows().await?;
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
        let plan = &revision.plan;
        let Ok(key) = KeyPath::stored(owner, plan.levels()) else {
            return Ok(());
        };
        let calendars = revision.adopted.calendars.clone();
        let request = OwnedKeyCommand::of(&KeyCommand {
            plan,
            key,
            now: revision.adopted.at,
            calendars: &calendars,
            verb: Verb::Peek { amounts: &[] },
        });
        self.attempt(&request, None).await.map(drop)
    }

    /// Rows that others have locked are left to them.
    async fn delete_spent_rows(&self) -> Result<(), Trouble> {
        let Place { prefix, .. } = self.place();
        let mut lent = self.shared.pool.lend().await?;
        lent.conn.query_drop("START TRANSACTION").await?;
        let find = format!(
            "SELECT table_id, name FROM {prefix}_rows WHERE keep_until <= {AT_START} \
             ORDER BY keep_until LIMIT {MOST_ROWS} FOR UPDATE SKIP LOCKED"
        );
        let spent: Vec<(u32, Vec<u8>)> = lent.conn.query(find).await?;
        if !spent.is_empty() {
            let marks = vec!["(?, ?)"; spent.len()].join(", ");
            let delete = format!("DELETE FROM {prefix}_rows WHERE (table_id, name) IN ({marks})");
            let names = spent.into_iter();
            let names = names.flat_map(|(table, name)| [Value::from(table), Value::from(name)]);
            let names = Params::Positional(names.collect());
            let delete = lent.conn.prep(delete).await?;
            lent.conn.exec_drop(&delete, names).await?;
            lent.conn.close(delete).await?;
        }
        lent.conn.query_drop("COMMIT").await?;
        lent.put_back();
        Ok(())
    }
}
