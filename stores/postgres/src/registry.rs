//! The sets by name, and the newest plan of each.

use tidegate_store::{Plan, StoreError};

use crate::connection::Link;
use crate::error::garbled;
use crate::plan;

/// The number of the set called `name`, made if it is not there.
pub(crate) async fn number(link: &Link, name: &str) -> Result<i32, StoreError> {
    let known = "SELECT tab FROM tidegate.sets WHERE name = $1";
    let made = "INSERT INTO tidegate.sets (name) VALUES ($1)
        ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING tab";
    for statement in [known, made] {
        if let Some(row) = link.query(statement, &[&name]).await?.first() {
            return Ok(row.get(0));
        }
    }
    Err(garbled("no set"))
}

/// The plan that the set called `name` was last decided by.
pub(crate) async fn newest(link: &Link, name: &str) -> Result<Option<Plan>, StoreError> {
    let statement = "SELECT e.version::text, e.levels, e.keep::text, e.names,
        (SELECT coalesce(string_agg(concat_ws(',', uid, level, kind, postpaid::int, shadow::int,
            refund::int, capacity, drain, weight, brim, most, align, period, step, steps, entries),
            ',' ORDER BY number), '')
         FROM unnest(e.rules) WITH ORDINALITY AS r (uid, level, kind, postpaid, shadow, refund,
            capacity, drain, weight, brim, most, align, period, step, steps, entries, number)),
        e.usage::text
        FROM tidegate.sets s JOIN tidegate.revisions e ON e.tab = s.tab AND e.revision = s.newest
        WHERE s.name = $1";
    let rows = link.query(statement, &[&name]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let names: Vec<String> = row.get(3);
    let usage = row.get(5);
    plan::read(
        row.get(0),
        row.get(1),
        row.get(2),
        &names,
        row.get(4),
        usage,
    )
    .map(Some)
}
