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

fn chat(store: &dyn Store) -> Fixture {
    let plan = plan(0, 1, &[(0, hourly(10))]);
    Fixture::at(store, "chat", plan, machine_time())
}

/// One that has a set of `other` open, which `one` clears, is told that it is gone, and not that
/// the store is away; what is opened anew is another set.
///
/// # Panics
/// It is otherwise.
pub fn one_that_is_open_is_told_that_it_was_cleared(one: &dyn Store, other: &dyn Store) {
    let before = chat(other);
    assert!(before.admits(b"k", &[4]));
    clear(one).expect("it can be cleared");
    let after = chat(one);
    assert!(after.admits(b"k", &[10]));
    for key in [&b"k"[..], b"unseen"] {
        let told = before.take(key, &[1]).expect_err("it was cleared");
        assert_eq!(told.outage(), None, "{told}");
        assert!(told.to_string().contains("cleared"), "{told}");
    }
    assert!(!after.admits(b"k", &[1]), "10 in all");
    assert!(chat(other).admits(b"other", &[10]), "it is opened again");
}

/// What is opened between two steps of a clear is another set, and stays.
///
/// # Panics
/// It is otherwise.
pub fn one_that_is_opened_amid_a_clear_stays(store: &dyn Store) {
    let before = chat(store);
    for nth in 0..1_100 {
        assert!(before.admits(format!("key {nth}").as_bytes(), &[9]));
    }
    let mut next = wait_for(store.clear("", None)).expect("an answer").next;
    assert!(next.is_some(), "one step removes fewer");
    let after = chat(store);
    let keys = [0, 500, 1_099].map(|nth| format!("key {nth}"));
    for key in &keys {
        assert!(after.admits(key.as_bytes(), &[10]));
    }
    while let Some(place) = next {
        next = wait_for(store.clear("", Some(&place)))
            .expect("an answer")
            .next;
    }
    for key in &keys {
        assert!(!after.admits(key.as_bytes(), &[1]), "it is as it was");
    }
}
