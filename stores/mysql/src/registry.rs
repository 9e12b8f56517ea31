//! The editions of a table's plan, kept beside the rows: whoever finds a row of
//! another edition learns there by what limits it was written.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Params, Value};
use tidegate_contract::core::Timestamp;
use tidegate_contract::{Adopted, Plan, StoreError, bytes};
use tidegate_swap::{Change, Clock, Edition};

use crate::error::{Trouble, garbled};
use crate::sql::NOW;
use crate::table::Shared;
use crate::trips::Place;

/// So many editions of a plan are kept.
const MOST_EDITIONS: u32 = 4_096;

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
    let ask = format!("SELECT id FROM {}_tables WHERE name = ?", shared.prefix);
    let found: Vec<u32> = shared.ask(&ask, (name.as_bytes(),)).await?;
    Ok(found.first().copied())
}

/// The plan of the newest edition, if there is any.
pub(crate) async fn newest(shared: &Shared, table: u32) -> Result<Option<Plan>, Trouble> {
    let ask = format!(
        "SELECT body FROM {0}_plans JOIN {0}_tables ON id = table_id AND newest = edition \
         WHERE table_id = ?",
        shared.prefix
    );
    let found: Vec<Vec<u8>> = shared.ask(&ask, (table,)).await?;
    let plan = found
        .first()
        .map(|body| bytes::decode_plan(body))
        .transpose();
    Ok(plan.map_err(StoreError::from)?.map(|(plan, _)| plan))
}

/// Makes `change` the newest edition.
pub(crate) async fn add(
    conn: &mut Conn,
    place: Place<'_>,
    clock: Clock,
    change: Change,
) -> Result<Edition, Trouble> {
    conn.query_drop("START TRANSACTION").await?;
    let prefix = place.prefix;
    let ask = format!("SELECT newest, {NOW} FROM {prefix}_tables WHERE id = ? FOR UPDATE");
    let found: Option<(u32, i64)> = conn.exec_first(ask, (place.table,)).await?;
    let (newest, now) = found.ok_or_else(|| garbled("the table is gone"))?;
    if let Some(same) = unchanged(conn, place, newest, &change).await? {
        conn.query_drop("COMMIT").await?;
        return Ok(same);
    }
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
    let insert = format!("INSERT INTO {prefix}_plans (table_id, edition, body) VALUES (?, ?, ?)");
    conn.exec_drop(insert, (place.table, number, body)).await?;
    let note = format!("UPDATE {prefix}_tables SET newest = ? WHERE id = ?");
    conn.exec_drop(note, (number, place.table)).await?;
    let forget = format!("DELETE FROM {prefix}_plans WHERE table_id = ? AND edition <= ?");
    let oldest = number.saturating_sub(MOST_EDITIONS);
    conn.exec_drop(forget, (place.table, oldest)).await?;
    conn.query_drop("COMMIT").await?;
    Ok(Edition {
        number,
        plan: change.plan,
        adopted,
        knows_keys: true,
    })
}

/// The newest edition, if `change` is none: a process has opened the table with
/// the limits it has.
async fn unchanged(
    conn: &mut Conn,
    place: Place<'_>,
    newest: u32,
    change: &Change,
) -> Result<Option<Edition>, Trouble> {
    if !change.is_first || newest == 0 {
        return Ok(None);
    }
    let kept = fetch(conn, place, &[newest]).await?.pop();
    let same = kept.filter(|kept| kept.plan.has_limits_of(&change.plan));
    Ok(same.map(|kept| Edition {
        plan: std::sync::Arc::clone(&change.plan),
        knows_keys: true,
        ..kept
    }))
}

/// The editions of these numbers.
pub(crate) async fn fetch(
    conn: &mut Conn,
    place: Place<'_>,
    numbers: &[u32],
) -> Result<Vec<Edition>, Trouble> {
    let marks = vec!["?"; numbers.len()].join(", ");
    let ask = format!(
        "SELECT edition, body FROM {}_plans WHERE table_id = ? AND edition IN ({marks})",
        place.prefix
    );
    let mut parameters: Vec<Value> = vec![place.table.into()];
    parameters.extend(numbers.iter().map(|&number| Value::from(number)));
    let found: Vec<(u32, Vec<u8>)> = conn.exec(ask, Params::Positional(parameters)).await?;
    let mut editions = Vec::new();
    for (number, body) in found {
        let (plan, adopted) = bytes::decode_plan(&body).map_err(StoreError::from)?;
        editions.push(Edition {
            number,
            plan: plan.into(),
            adopted,
            knows_keys: false,
        });
    }
    let found = |number: &u32| editions.iter().any(|edition| edition.number == *number);
    match numbers.iter().find(|number| !found(number)) {
        Some(lost) => Err(self::lost(*lost).into()),
        None => Ok(editions),
    }
}

fn lost(number: u32) -> StoreError {
    StoreError::Unavailable(format!(
        "a row was written by edition {number} of its limits, of which nothing is known any more; \
         delete the rows of this table, or give the set another name"
    ))
}
