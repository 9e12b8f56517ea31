//! The revisions of a table's plan, kept beside the rows: whoever finds a row of another revision
//! learns there by what limits it was written.

use std::sync::Arc;

use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem};
use tidegate_store::optimistic::{Clock, PlanRevision};
use tidegate_store::revisions::PlanChange;
use tidegate_store::{Adopted, Plan, StoreError};

use crate::connection::{Transacted, unbuilt};
use crate::error::{Trouble, garbled};
use crate::item::{Item, at, bytes, check_size, item, read_bytes};
use crate::keys::{self, Key};
use crate::shared::Shared;

/// So many revisions of a plan are kept. Of those in a row that have the same limits (they differ
/// in what keys have for themselves, which their rows say) only the first and the newest are: so
/// one that is not there had the limits of the last one before it.
const MOST_REVISIONS: u32 = 4_096;

/// The plan of the newest revision, if there is any.
pub(crate) async fn newest(shared: &Shared, set: &str) -> Result<Option<Arc<Plan>>, Trouble> {
    let last = last(shared, set, u32::MAX, 1).await?;
    Ok(last.into_iter().next().map(|revision| revision.plan))
}

/// Makes `change` the newest revision.
pub(crate) async fn add(
    shared: &Shared,
    set: &str,
    change: PlanChange,
) -> Result<PlanRevision, Trouble> {
    let mut backoff = shared.connection.backoff();
    loop {
        let last = last(shared, set, u32::MAX, 2).await?;
        let goes_on = |kept: &PlanRevision| kept.plan.has_limits_of(&change.plan);
        if let Some(same) = last
            .first()
            .filter(|kept| change.is_first() && goes_on(kept))
        {
            // A process has opened the table with the limits it has.
            return Ok(PlanRevision {
                plan: Arc::clone(&change.plan),
                knows_keys: true,
                ..same.clone()
            });
        }
        let newest = last.first().map_or(0, |revision| revision.number);
        let is_between = last.len() > 1 && last.iter().all(goes_on);
        let at = match shared.options.clock {
            Clock::Server => shared.clock.now(),
            Clock::Caller => change.adopted.at,
        };
        let revision = PlanRevision {
            number: newest + 1,
            plan: Arc::clone(&change.plan),
            adopted: Adopted {
                at,
                ..change.adopted.clone()
            },
            knows_keys: true,
        };
        let forgotten = [
            is_between.then_some(newest),
            newest.checked_sub(MOST_REVISIONS),
        ];
        let forgotten = forgotten.into_iter().flatten();
        match write(shared, set, &revision, forgotten).await {
            Ok(true) => return Ok(revision),
            Ok(false) => {}
            Err(trouble) => backoff.after(trouble).await?,
        }
    }
}

/// `false` if another has written one of this number.
async fn write(
    shared: &Shared,
    set: &str,
    revision: &PlanRevision,
    forgotten: impl Iterator<Item = u32>,
) -> Result<bool, Trouble> {
    let table = &shared.connection.table;
    let body = tidegate_store::bytes::encode_plan(&revision.plan, &revision.adopted);
    let new = item(&key(set, revision.number), [("b", Some(bytes(body)))]);
    check_size(&new)?;
    let put = Put::builder().table_name(table).set_item(Some(new));
    let put = put.condition_expression("attribute_not_exists(pk)");
    let put = put.build().map_err(unbuilt)?;
    let mut writes = vec![TransactWriteItem::builder().put(put).build()];
    for number in forgotten {
        let delete = Delete::builder().table_name(table);
        let delete = delete.set_key(Some(at(&key(set, number))));
        let delete = delete.build().map_err(unbuilt)?;
        writes.push(TransactWriteItem::builder().delete(delete).build());
    }
    let (token, mut backoff) = (rand::random(), shared.connection.backoff());
    loop {
        match shared.connection.transact(&writes, token).await {
            Ok(Transacted::Done) => return Ok(true),
            Ok(Transacted::Unmet(_)) => return Ok(false),
            Err(trouble) => backoff.after(trouble).await?,
        }
    }
}

/// The newest revisions of numbers up to `most`, the newest first.
async fn last(
    shared: &Shared,
    set: &str,
    most: u32,
    count: i32,
) -> Result<Vec<PlanRevision>, Trouble> {
    let partition = keys::plans(set);
    let found = shared.connection.query(&partition, |query| {
        query
            .key_condition_expression("pk = :p AND sk <= :r")
            .expression_attribute_values(":r", bytes(keys::revision(most)))
            .scan_index_forward(false)
            .limit(count)
    });
    found.await?.items.iter().map(read).collect()
}

fn read(item: &Item) -> Result<PlanRevision, Trouble> {
    let number = keys::read_revision(read_bytes(item, "sk")?);
    let (plan, adopted) =
        tidegate_store::bytes::decode_plan(read_bytes(item, "b")?).map_err(StoreError::from)?;
    Ok(PlanRevision {
        number: number.ok_or_else(|| garbled("sk"))?,
        plan: plan.into(),
        adopted,
        knows_keys: false,
    })
}

/// The revisions of these numbers: one that is not kept has the limits of the last one before
/// it.
pub(crate) async fn fetch(
    shared: &Shared,
    set: &str,
    numbers: &[u32],
) -> Result<Vec<PlanRevision>, Trouble> {
    let mut revisions = Vec::new();
    for &number in numbers {
        let like = last(shared, set, number, 1).await?.pop();
        let like = like.ok_or_else(|| lost(number))?;
        revisions.push(PlanRevision { number, ..like });
    }
    Ok(revisions)
}

fn key(set: &str, number: u32) -> Key {
    Key {
        partition: keys::plans(set),
        sort: keys::revision(number),
    }
}

fn lost(number: u32) -> StoreError {
    StoreError::Unavailable(format!(
        "a row was written by revision {number} of its limits, of which nothing is known any more; \
         delete the items of this set, or give the set another name"
    ))
}
