//! Overrides outlive the process: they, what was used by them, and their words.

mod support;

use std::time::Duration;

use support::{Place, remaining, set};
use tidegate::{BuildError, Limit, LimitSet, ManualClock};
use tidegate::{Store, StoreError};
use tidegate_file::FileError;

const HOUR: Duration = Duration::from_secs(3_600);

fn rate(amount: u64) -> Limit {
    Limit::rate("tokens", amount, HOUR)
}

#[test]
fn an_override_and_what_was_used_by_it_survive_a_restart() {
    let (place, clock) = (Place::new(), ManualClock::default());
    for limits in [
        vec![rate(10)],
        vec![rate(10), Limit::concurrency("slots", 1)],
    ] {
        {
            let set = set(place.open(), &clock, limits.clone());
            set.set_override("acme", &[rate(1_000)])
                .wait()
                .expect("room");
            set.set_override("gone", &[rate(1_000)])
                .wait()
                .expect("room");
            assert!(set.remove_override("gone").wait().expect("room"));
            assert!(set.debit("acme", &[("tokens", 600)]).wait().is_ok());
            assert!(set.debit("other", &[("tokens", 4)]).wait().is_ok());
        }
        let set = set(place.open(), &clock, limits);
        assert_eq!(remaining(&set, "acme", "tokens"), 400);
        assert_eq!(remaining(&set, "other", "tokens"), 6);
        assert_eq!(remaining(&set, "gone", "tokens"), 10);
        assert_eq!(set.overrides(None, 9).len(), 1);
        set.reset("acme").wait().expect("room");
        set.reset("other").wait().expect("room");
    }
}

/// A budget that a key is far beyond by the common limit drains by its own.
#[test]
fn what_was_used_goes_on_to_drain_by_the_keys_own_limit_across_a_restart() {
    let (place, clock) = (Place::new(), ManualClock::default());
    {
        let set = set(place.open(), &clock, vec![rate(10)]);
        set.set_override("acme", &[rate(1_000)])
            .wait()
            .expect("room");
        assert!(
            set.check("acme", 1_000)
                .wait()
                .expect("no error")
                .admitted()
        );
    }
    clock.advance(HOUR / 2);
    let set = set(place.open(), &clock, vec![rate(10)]);
    assert_eq!(remaining(&set, "acme", "tokens"), 500);
    clock.advance(HOUR / 4);
    assert_eq!(remaining(&set, "acme", "tokens"), 750);
}

/// As an older version, or a damaged disk, would leave it.
fn overwrite(place: &Place, value: &[u8]) {
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("defined");
    let database = redb::Database::open(place.path()).expect("a store");
    let group = database.begin_write().expect("room on the disk");
    let mut defined = group.open_table(table).expect("a table");
    let key = redb::ReadableTable::iter(&defined).expect("entries").next();
    let key = key.expect("one").expect("readable").0.value().to_vec();
    defined.insert(&key[..], value).expect("room on the disk");
    drop(defined);
    group.commit().expect("room on the disk");
}

fn with_one() -> (Place, ManualClock) {
    let (place, clock) = (Place::new(), ManualClock::default());
    let set = set(place.open(), &clock, vec![rate(10)]);
    set.set_override("acme", &[rate(1_000)])
        .wait()
        .expect("room");
    (place, clock)
}

#[test]
fn a_newer_definition_is_refused_and_a_damaged_one_too() {
    let (place, _) = with_one();
    overwrite(&place, &[2, 1]);
    assert!(matches!(place.error(), FileError::Newer { found: 2, .. }));
    overwrite(&place, &[]);
    assert!(matches!(place.error(), FileError::Damaged { .. }));
}

#[test]
fn an_override_that_cannot_be_read_keeps_its_set_from_opening() {
    let (place, clock) = with_one();
    for value in [&[9, 9][..], &[1, 9, 0, 0, 0]] {
        overwrite(&place, &[&[1; 1][..], &[0; 8], value].concat());
        let store: std::sync::Arc<dyn Store> = place.open();
        let builder = LimitSet::builder()
            .name("set")
            .limit(rate(10))
            .clock(clock.clock());
        let refused = builder.store(store).build();
        let unreadable = matches!(refused, Err(BuildError::Store(StoreError::Unreadable(_))));
        assert!(unreadable, "{refused:?}");
    }
}

#[test]
fn a_file_without_overrides_keeps_the_format_that_older_versions_read() {
    let format = |place: &Place| {
        let table = redb::TableDefinition::<&str, u32>::new("tidegate");
        let database = redb::Database::open(place.path()).expect("a store");
        let group = redb::ReadableDatabase::begin_read(&database).expect("a store");
        let meta = group.open_table(table).expect("a table");
        meta.get("format")
            .expect("readable")
            .expect("a format")
            .value()
    };
    let place = Place::new();
    drop(set(place.open(), &ManualClock::default(), vec![rate(10)]));
    assert_eq!(format(&place), 1);
    let (place, _) = with_one();
    assert_eq!(format(&place), 2);
}
