//! The revisions of a table's plan, kept beside the rows: whoever finds a row of
//! another revision learns there by what limits it was written.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use tidegate_store::core::Timestamp;
use tidegate_store::optimistic::{Clock, PlanRevision};
use tidegate_store::revisions::PlanChange;
use tidegate_store::{Adopted, Plan, StoreError, bytes};

use crate::error::{Trouble, garbled, made_anew};
use crate::shared::Shared;
use crate::sql::NOW;
use crate::sql::Place;

/// So many revisions of a plan are kept. Of those in a row that have the same limits (they
/// differ in what keys have for themselves, which their rows say) only the first and the
/// newest are: so one that is not there had the limits of the last one before it.
const MOST_REVISIONS: u32 = 4_096;

/// The number of the table called `name`, made if it is not there.
pub(crate) async fn number(shared: &Shared, name: &str) -> Result<u32, Trouble> {
    if let Some(number) = find(shared, name).await? {
        return Ok(number);
    }
    let make = format!(
        "INSERT IGNORE INTO {}_tables (name) VALUES (?)",
        shared.prefix
    );
    shared.tell(&make, (name.as_bytes(),)).await?;
    let made = find(shared, name).await?;
    made.ok_or_else(|| garbled("no table"))
}

/// The number of the table called `name`, if it is there.
pub(crate) async fn find(shared: &Shared, name: &str) -> Result<Option<u32>, Trouble> {
    let sql = format!("SELECT id FROM {}_tables WHERE name = ?", shared.prefix);
    let found: Vec<u32> = shared.query(&sql, (name.as_bytes(),)).await?;
    Ok(found.first().copied())
}

/// The plan of the newest revision, if there is any.
pub(crate) async fn newest(shared: &Shared, table: u32) -> Result<Option<Plan>, Trouble> {
    let sql = format!(
        "SELECT body FROM {0}_plans JOIN {0}_tables ON id = table_id AND newest = revision \
         WHERE table_id = ?",
        shared.prefix
    );
    let found: Vec<Vec<u8>> = shared.query(&sql, (table,)).await?;
    let plan = found
        .first()
        .map(|body| bytes::decode_plan(body))
        .transpose();
    Ok(plan.map_err(StoreError::from)?.map(|(plan, _)| plan))
}

/// Makes `change` the newest revision.
pub(crate) async fn add(
    conn: &mut Conn,
    place: Place<'_>,
    clock: Clock,
    change: PlanChange,
) -> Result<PlanRevision, Trouble> {
    conn.query_drop("START TRANSACTION").await?;
    let prefix = place.prefix;
    let sql = format!("SELECT newest, {NOW} FROM {prefix}_tables WHERE id = ? FOR UPDATE");
    let found: Option<(u32, i64)> = conn.exec_first(sql, (place.table,)).await?;
    let (newest, now) = found.ok_or_else(made_anew)?;
    let last = last(conn, place).await?;
    let goes_on = |kept: &PlanRevision| kept.plan.has_limits_of(&change.plan);
    if let Some(same) = last
        .first()
        .filter(|kept| change.is_first() && goes_on(kept))
    {
        // A process has opened the table with the limits it has.
        conn.query_drop("COMMIT").await?;
        return Ok(PlanRevision {
            plan: Arc::clone(&change.plan),
            knows_keys: true,
            ..same.clone()
        });
    }
    let is_between = last.len() > 1 && last.iter().all(goes_on);
    let number = newest + 1;
    let at = match clock {
        Clock::Server => Timestamp::from_micros(now),
        Clock::Caller => change.adopted.at,
    };
    let adopted = Adopted {
        at,
        ..change.adopted
    };
    let body = bytes::encode_plan(&change.plan, &adopted);
    let insert = format!("INSERT INTO {prefix}_plans (table_id, revision, body) VALUES (?, ?, ?)");
    conn.exec_drop(insert, (place.table, number, body)).await?;
    let note = format!("UPDATE {prefix}_tables SET newest = ? WHERE id = ?");
    conn.exec_drop(note, (number, place.table)).await?;
    if is_between {
        let forget = format!("DELETE FROM {prefix}_plans WHERE table_id = ? AND revision = ?");
        conn.exec_drop(forget, (place.table, newest)).await?;
    }
    let sql = format!(
        "SELECT revision FROM {prefix}_plans WHERE table_id = ? \
         ORDER BY revision DESC LIMIT 1 OFFSET {MOST_REVISIONS}"
    );
    if let Some(oldest) = conn.exec_first::<u32, _, _>(sql, (place.table,)).await? {
        let forget = format!("DELETE FROM {prefix}_plans WHERE table_id = ? AND revision <= ?");
        conn.exec_drop(forget, (place.table, oldest)).await?;
    }
    conn.query_drop("COMMIT").await?;
    Ok(PlanRevision {
        number,
        plan: change.plan,
        adopted,
        knows_keys: true,
    })
}

/// The two newest revisions, the newest first.
async fn last(conn: &mut Conn, place: Place<'_>) -> Result<Vec<PlanRevision>, Trouble> {
    let sql = format!(
        "SELECT revision, body FROM {}_plans WHERE table_id = ? ORDER BY revision DESC LIMIT 2",
        place.prefix
    );
    read(conn.exec(sql, (place.table,)).await?)
}

fn read(found: Vec<(u32, Vec<u8>)>) -> Result<Vec<PlanRevision>, Trouble> {
    let revision = |(number, body): (u32, Vec<u8>)| {
        let (plan, adopted) = bytes::decode_plan(&body).map_err(StoreError::from)?;
        Ok(PlanRevision {
            number,
            plan: plan.into(),
            adopted,
            knows_keys: false,
        })
    };
    found.into_iter().map(revision).collect()
}

/// The revisions of these numbers.
pub(crate) async fn fetch(
    conn: &mut Conn,
    place: Place<'_>,
    numbers: &[u32],
) -> Result<Vec<PlanRevision>, Trouble> {
    let marks = vec!["?"; numbers.len()].join(", ");
    let sql = format!(
        "SELECT revision, body FROM {}_plans WHERE table_id = ? AND revision IN ({marks})",
        place.prefix
    );
    let mut parameters: Vec<Value> = vec![place.table.into()];
    parameters.extend(numbers.iter().map(|&number| Value::from(number)));
    let mut revisions = read(conn.exec(sql, Params::Positional(parameters)).await?)?;
    for &number in numbers {
        if !revisions.iter().any(|revision| revision.number == number) {
            let like = before(conn, place, number).await?;
            let like = like.ok_or_else(|| lost(number))?;
            revisions.push(PlanRevision { number, ..like });
        }
    }
    Ok(revisions)
}

/// The last revision before one that is not kept, whose limits it had; none if that is not
/// kept any more either.
async fn before(
    conn: &mut Conn,
    place: Place<'_>,
    number: u32,
) -> Result<Option<PlanRevision>, Trouble> {
    let sql = format!(
        "SELECT revision, body FROM {}_plans WHERE table_id = ? AND revision < ? \
         ORDER BY revision DESC LIMIT 1",
        place.prefix
    );
    Ok(read(conn.exec(sql, (place.table, number)).await?)?.pop())
}

fn lost(number: u32) -> StoreError {
    StoreError::Unavailable(format!(
        "a row was written by revision {number} of its limits, of which nothing is known any more; \
         delete the rows of this table, or give the set another name"
    ))
}
