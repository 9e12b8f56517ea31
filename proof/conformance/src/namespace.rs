//! A part of a store: of one walk alone; with one of everything in it; and cleared.

use std::sync::Arc;
use std::time::Duration;

use tidegate_store::core::Span;
use tidegate_store::{Change, Definition, Event, NamespacedStore, Store, StoreError};

use crate::fixture::{Fixture, hourly, machine_time, plan, slots};
use crate::later::wait_for;

/// What `walk` alone sees of `store`: to open a store for each of many walks would be most of the
/// work.
#[must_use]
pub fn of_walk(store: Arc<dyn Store>, walk: usize) -> Arc<dyn Store> {
    Arc::new(NamespacedStore::new(store, &walk.to_string()))
}

/// Keys, leases that nobody ends, usage, a definition and an event.
pub fn fill(store: &dyn Store) {
    let plan = plan(0, 1, &[(0, hourly(10)), (0, slots(2))]);
    let counted = (*plan)
        .clone()
        .counting_usage(Some(Span::from_secs(86_400)));
    let fixture = Fixture::at(store, "chat", Arc::new(counted), machine_time());
    (0..50).for_each(|nth| {
        fixture.lease(format!("key {nth}").as_bytes(), &[1, 1], 60_000_000);
    });
    let told = Event {
        subject: b"alice".to_vec(),
        body: b"told".to_vec(),
        at: machine_time(),
        lasts: Duration::from_secs(86_400),
        most: 10,
        version: 0,
    };
    let change = Change::from(Definition::new("alice", "first")).telling(told);
    let changed = wait_for(store.change("own", change)).expect("room");
    assert!(changed.is_changed());
}

/// Removes everything, step by step; how many items.
///
/// # Errors
/// The store's, [`StoreError::CannotClear`] among them.
pub fn clear(store: &dyn Store) -> Result<u64, StoreError> {
    let (mut removed, mut after) = (0, None);
    loop {
        let cleared = wait_for(store.clear("", after.as_deref()))?;
        removed += cleared.removed;
        match cleared.next {
            None => return Ok(removed),
            next => after = next,
        }
    }
}
