//! What a table lists and counts, held against what the reference has.

use std::collections::BTreeSet;
use std::fmt::Debug;

use tidegate_core::Timestamp;
use tidegate_store::{HeldLease, Listing, Page, Select, StoreError, Table};

use super::reference::Reference;
use crate::table_ext::{TableExt, every_item};

/// So many items has a page at most: most listings have several.
const MOST: usize = 3;

/// What is listed of keys of how many levels, as of when, and the latest instant that the table has seen: what had
/// passed by then may be gone, though the clock stepped back.
#[derive(Clone, Copy)]
pub(crate) struct AsOf {
    pub(crate) select: Select<'static>,
    pub(crate) levels: usize,
    pub(crate) now: Timestamp,
    pub(crate) latest: Timestamp,
}

/// Lists and counts what `table` holds.
///
/// # Errors
/// What is missing, and what should not be there.
pub(crate) fn compare(table: &dyn Table, reference: &Reference, at: AsOf) -> Result<(), String> {
    let is_meant = |key: &[u8]| at.select.takes(key, at.levels);
    if let Some(listed) = all(at, |listing| table.list_keys(listing))? {
        let keys = |when| {
            let mut keys = reference.keys_in_use(when);
            keys.retain(|key| is_meant(key));
            keys
        };
        let now = keys(at.now);
        let listed = listed.iter().map(|key| key.bytes().to_vec());
        let mut listed: Vec<_> = listed.collect();
        listed.retain(|key| {
            now.contains(key) || !is_meant(key) || !reference.was_in_use(key, at.now)
        });
        within("keys", &listed, keys, at)?;
    }
    if let Some(listed) = all(at, |listing| table.list_leases(listing))? {
        let leases = |when| {
            let mut leases = reference.leases(when);
            leases.retain(|lease| is_meant(lease.key.bytes()));
            leases.iter().map(as_text).collect()
        };
        let listed = listed.iter().map(as_text).collect();
        within("leases", &listed, leases, at)?;
    }
    count(table, reference, at)
}

fn as_text(lease: &HeldLease) -> String {
    format!("{lease:?}")
}

fn count(table: &dyn Table, reference: &Reference, at: AsOf) -> Result<(), String> {
    let count = table.count(at.now).map_err(|error| error.to_string())?;
    let least = reference.keys_in_use(at.latest).len();
    if !(least..=reference.rows()).contains(&count.keys) {
        return Err(format!("{count:?}, where {least} keys are in use"));
    }
    let held = reference.leases(at.latest).len()..=reference.leases(at.now).len();
    match count.leases {
        Some(leases) if !held.contains(&leases) => {
            Err(format!("{count:?}, where {held:?} leases are held"))
        }
        _ => Ok(()),
    }
}

/// Every item; `None` if the store cannot list.
fn all<T>(
    at: AsOf,
    list: impl Fn(&Listing<'_>) -> Result<Page<T>, StoreError>,
) -> Result<Option<Vec<T>>, String> {
    let page = |after: Option<&[u8]>| {
        list(&Listing {
            select: at.select,
            after,
            most: MOST,
            now: at.now,
            levels: at.levels,
        })
    };
    match every_item(MOST, page, |_| ()) {
        Ok(items) => Ok(Some(items)),
        Err(StoreError::CannotList) => Ok(None),
        Err(error) => Err(format!("no listing: {error}")),
    }
}

/// Whether each is listed once that is there at the latest instant, and none that is not
/// there now.
fn within<T: Ord + Debug>(
    what: &str,
    listed: &Vec<T>,
    there: impl Fn(Timestamp) -> BTreeSet<T>,
    at: AsOf,
) -> Result<(), String> {
    let once: BTreeSet<&T> = listed.iter().collect();
    let (must, may) = (there(at.latest), there(at.now));
    let missing: Vec<_> = must.iter().filter(|item| !once.contains(item)).collect();
    let others: Vec<_> = listed.iter().filter(|item| !may.contains(item)).collect();
    if missing.is_empty() && others.is_empty() && once.len() == listed.len() {
        return Ok(());
    }
    Err(format!(
        "{what} are listed that are not there: {others:?}; missing: {missing:?}; listed: {listed:?}"
    ))
}
