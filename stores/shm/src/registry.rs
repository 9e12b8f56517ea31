//! Tables by name, and the revisions of their plans: whoever finds a row of another
//! revision learns here by what limits it was written.

use std::sync::Arc;

use tidegate_store::core::{DecodeError, Timestamp};
use tidegate_store::optimistic::{Clock, PlanRevision};
use tidegate_store::revisions::PlanChange;
use tidegate_store::{Adopted, Plan, StoreError, bytes};

use crate::error::Fault;
use crate::layout::shard;
use crate::steps::Steps;
use crate::tree;
use crate::txn::Txn;

/// So many revisions of a plan are kept. Of those in a row that have the same limits (they
/// differ in what keys have for themselves, which their rows say) only the first and the
/// newest are: so one that is not there had the limits of the last one before it.
const MOST_REVISIONS: u32 = 4_096;

/// The key of the number of the table that was made last.
const LAST_TABLE: &[u8] = b"T";

/// The bucket that things called `name` are in.
pub(crate) fn bucket_of(seed: u64, name: &[u8]) -> usize {
    tree::hash_of(seed, 0, name) as usize % shard::BUCKETS
}

fn name_key(name: &str) -> Vec<u8> {
    [b"N", name.as_bytes()].concat()
}

const fn plans(table: u32) -> usize {
    table as usize % shard::BUCKETS
}

fn plan_key(table: u32, revision: u32) -> Vec<u8> {
    let (table, revision) = (table.to_be_bytes(), revision.to_be_bytes());
    [&b"P"[..], &table, &revision].concat()
}

fn newest_key(table: u32) -> Vec<u8> {
    [&b"R"[..], &table.to_be_bytes()].concat()
}

fn number(bytes: &[u8]) -> Result<u32, Fault> {
    let number = bytes.try_into().map(u32::from_be_bytes);
    number.map_err(|_| Fault::Corrupt("a number is none"))
}

/// The number of the table called `name`, and the plan that was adopted last by anyone, if
/// there is any; the table is made if `makes` says so.
pub(crate) fn find(
    steps: &Steps,
    name: &str,
    makes: bool,
) -> Result<Option<(u32, Option<Plan>)>, StoreError> {
    let key = name_key(name);
    let bucket = bucket_of(steps.segment.seed(), name.as_bytes());
    steps.register(|txn| {
        let table = match txn.look_up(bucket, &key)? {
            Some(found) => number(&found)?,
            None if makes => {
                let last = txn.look_up(0, LAST_TABLE)?;
                let table = last.as_deref().map_or(Ok(0), number)? + 1;
                txn.put(0, LAST_TABLE, &table.to_be_bytes())?;
                txn.put(bucket, &key, &table.to_be_bytes())?;
                table
            }
            None => return Ok(None),
        };
        let newest = newest(txn, table)?;
        let plan = match newest {
            0 => None,
            newest => read(txn, table, newest)?.map(|(plan, _)| plan),
        };
        Ok(Some((table, plan)))
    })
}

/// The newest revision; 0 before the first.
fn newest(txn: &Txn<'_>, table: u32) -> Result<u32, Fault> {
    let found = txn.look_up(plans(table), &newest_key(table))?;
    found.as_deref().map_or(Ok(0), number)
}

fn read(txn: &Txn<'_>, table: u32, revision: u32) -> Result<Option<(Plan, Adopted)>, Fault> {
    let found = txn.look_up(plans(table), &plan_key(table, revision))?;
    Ok(found.as_deref().map(bytes::decode_plan).transpose()?)
}

/// The revision that was written last before one.
fn before(txn: &Txn<'_>, table: u32, revision: u32) -> Result<Option<u32>, Fault> {
    // Those that are missing stand between two with the same limits.
    let (beginning, mut last) = (plan_key(table, 0), None);
    let mut from = beginning.clone();
    while let Some(record) = txn.seek(plans(table), &from, true)? {
        from = txn.key(record)?.into_vec();
        if !from.starts_with(&beginning[..5]) {
            break;
        }
        let found = number(&from[5..])?;
        if found >= revision {
            break;
        }
        last = Some(found);
    }
    Ok(last)
}

/// Makes `change` the newest revision.
pub(crate) fn add(
    steps: &Steps,
    table: u32,
    (change, clock): (&PlanChange, Clock),
) -> Result<PlanRevision, StoreError> {
    steps.register(|txn| {
        let newest = newest(txn, table)?;
        let last = read(txn, table, newest)?;
        let goes_on = |kept: &(Plan, Adopted)| kept.0.has_limits_of(&change.plan);
        if let Some((_, adopted)) = last
            .as_ref()
            .filter(|last| change.is_first() && goes_on(last))
        {
            // A process has opened the table with the limits it has.
            return Ok(PlanRevision {
                number: newest,
                plan: Arc::clone(&change.plan),
                adopted: adopted.clone(),
                knows_keys: true,
            });
        }
        let earlier = match before(txn, table, newest)? {
            Some(earlier) => read(txn, table, earlier)?,
            None => None,
        };
        let is_between =
            last.as_ref().is_some_and(goes_on) && earlier.as_ref().is_some_and(goes_on);
        let number = newest + 1;
        let at = match clock {
            Clock::Server => txn.now(),
            Clock::Caller => change.adopted.at,
        };
        let adopted = Adopted {
            at,
            ..change.adopted.clone()
        };
        let body = bytes::encode_plan(&change.plan, &adopted);
        txn.put(plans(table), &plan_key(table, number), &body)?;
        txn.put(plans(table), &newest_key(table), &number.to_be_bytes())?;
        if is_between {
            txn.remove(plans(table), &plan_key(table, newest))?;
        }
        if let Some(oldest) = number.checked_sub(MOST_REVISIONS) {
            txn.remove(plans(table), &plan_key(table, oldest))?;
        }
        Ok(PlanRevision {
            number,
            plan: Arc::clone(&change.plan),
            adopted,
            knows_keys: true,
        })
    })
}

/// The revisions of these numbers.
pub(crate) fn fetch(
    steps: &Steps,
    table: u32,
    numbers: &[u32],
) -> Result<Vec<PlanRevision>, StoreError> {
    let one = |txn: &Txn<'_>, revision: u32| {
        let mut found = read(txn, table, revision)?;
        if found.is_none()
            && let Some(like) = before(txn, table, revision)?
        {
            found = read(txn, table, like)?;
        }
        let (plan, adopted) = found.ok_or_else(|| lost(revision))?;
        Ok(PlanRevision {
            number: revision,
            plan: plan.into(),
            adopted,
            knows_keys: false,
        })
    };
    steps.register(|txn| numbers.iter().map(|revision| one(txn, *revision)).collect())
}

fn lost(revision: u32) -> Fault {
    Fault::Told(StoreError::Unavailable(format!(
        "a row was written by revision {revision} of its limits, of which nothing is known any \
         more; give the set another name"
    )))
}

/// The instant that stands in eight bytes.
pub(crate) fn instant(bytes: &[u8]) -> Result<Timestamp, Fault> {
    let bytes = bytes.try_into().map(i64::from_le_bytes);
    let bytes = bytes.map_err(|_| DecodeError::Corrupt("an instant is none"))?;
    Ok(Timestamp::from_micros(bytes))
}
