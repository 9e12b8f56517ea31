//! What owners have a store keep, and who follows it.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_store::definitions::MOST_CHANGES;
use tidegate_store::{Definition, Definitions, Store};

use super::definition_changes::Partial;
use super::fixture::table_name;
use crate::later::wait_for;
use crate::subject::{Skipped, Subject};
use crate::witness::Witness;

fn define(store: &dyn Store, owner: &str, key: &[u8], value: Option<&[u8]>) -> bool {
    let definition = match value {
        Some(value) => Definition::new(key, value),
        None => Definition::none(key),
    };
    wait_for(store.define(owner, definition)).expect("room")
}

fn read(store: &dyn Store, owner: &str, newer_than: u64) -> Definitions {
    let definitions = wait_for(store.definitions(owner, newer_than)).expect("an answer");
    assert_eq!(definitions.newer_than, newer_than);
    definitions
}

/// All that is defined.
fn whole(store: &dyn Store, owner: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = read(store, owner, 0);
    assert!(all.whole);
    let kept = all
        .changed
        .into_iter()
        .map(|one| (one.key, one.value.expect("a value")));
    kept.collect::<BTreeMap<_, _>>().into_iter().collect()
}

pub(super) fn a_definition_is_kept_for_its_owner_until_it_is_removed(
    subject: &Subject,
) -> Result<(), Skipped> {
    let store = subject.fresh();
    let (one, two) = (table_name(), table_name());
    define(&*store, &one, b"k", Some(b"first"));
    define(&*store, &one, b"k", Some(b"second"));
    define(&*store, &one, b"\x00/\xff", Some(b""));
    define(&*store, &two, b"k", Some(b"other"));
    let second = (b"k".to_vec(), b"second".to_vec());
    assert_eq!(
        whole(&*store, &one),
        [(b"\x00/\xff".to_vec(), Vec::new()), second]
    );
    assert!(define(&*store, &one, b"k", None));
    assert!(!define(&*store, &one, b"never", None), "it was not there");
    assert_eq!(whole(&*store, &one).len(), 1);
    assert_eq!(whole(&*store, &two).len(), 1);
    Ok(())
}

pub(super) fn definitions_survive_a_restart(subject: &Subject) -> Result<(), Skipped> {
    let reopen = subject.reopened_store()?;
    let (store, owner) = (subject.fresh(), table_name());
    define(&*store, &owner, b"kept", Some(b"value"));
    define(&*store, &owner, b"gone", Some(b"value"));
    define(&*store, &owner, b"gone", None);
    drop(store);
    let kept = (b"kept".to_vec(), b"value".to_vec());
    assert_eq!(whole(&*reopen(), &owner), [kept]);
    Ok(())
}

pub(super) fn every_change_of_a_definition_has_a_newer_version(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    assert_eq!(read(&*store, &owner, 0).version, 0, "nothing was defined");
    let long = [7; 4_000];
    let keys = [&b"a"[..], b"b", &long];
    let mut versions = vec![0];
    for key in keys {
        define(&*store, &owner, key, Some(b"v"));
        versions.push(read(&*store, &owner, 0).version);
    }
    define(&*store, &owner, b"a", None);
    versions.push(read(&*store, &owner, 0).version);
    define(&*store, &owner, b"never", None);
    assert!(
        versions.is_sorted_by(|one, other| one < other),
        "{versions:?}"
    );
    // Each key comes once, as it is now, whatever has become of it in between.
    let since = read(&*store, &owner, versions[2]);
    assert_eq!((since.version, since.whole), (versions[4], false));
    let mut changed = since.changed;
    changed.sort();
    let [at_long, at_a] = [3, 4].map(|nth| versions[nth]);
    assert_eq!(
        changed,
        [
            Definition::new(long, b"v").at_version(at_long),
            Definition::none(b"a").at_version(at_a)
        ]
    );
    assert_eq!(read(&*store, &owner, versions[4]).changed, []);
    // One that the store never gave: it has lost what it kept, and says what it has.
    let lost = read(&*store, &owner, u64::MAX >> 11);
    assert_eq!(
        (lost.version, lost.whole, lost.changed.len()),
        (versions[4], true, 2)
    );
    Ok(())
}

/// In what the store has: it may have had another that it has lost, as after a failover.
pub(super) fn who_knows_a_version_that_was_never_made_is_given_every_definition(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let mut made = Vec::new();
    for (key, value) in [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"a", b"3")] {
        define(&*store, &owner, key, Some(value));
        made.push(read(&*store, &owner, 0).version);
    }
    for (nth, changed) in [(0, 2), (1, 1), (2, 1), (3, 0)] {
        let since = read(&*store, &owner, made[nth]);
        assert_eq!((since.whole, since.changed.len()), (false, changed));
    }
    // Of a store in one process there are none between them.
    let between = made[..3].iter().map(|version| version + 1);
    let never = between.filter(|version| !made.contains(version));
    for version in [made[0] - 2, made[0] - 1, made[3] + 1]
        .into_iter()
        .chain(never)
    {
        let since = read(&*store, &owner, version);
        assert_eq!((since.whole, since.changed.len()), (true, 2), "{version}");
        assert_eq!(since.version, made[3]);
    }
    let partial = Partial::of(&*store, &owner, made[0] - 1);
    define(&*store, &owner, b"b", Some(b"2"));
    assert_eq!(partial.told().2, 1, "what it knew is forgotten");
    Ok(())
}

pub(super) fn who_is_far_behind_is_given_every_definition(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    define(&*store, &owner, b"first", Some(b"v"));
    let first = read(&*store, &owner, 0).version;
    // The oldest is the first to be forgotten.
    let keys: Vec<_> = (0..MOST_CHANGES as u32 + 10).collect();
    for some in keys.chunks(16) {
        let one = |key: &u32| store.define(&owner, Definition::new(key.to_be_bytes(), b"v"));
        let under_way: Vec<_> = some.iter().map(one).collect();
        for one in under_way {
            assert!(wait_for(one).expect("room"));
        }
    }
    let since = read(&*store, &owner, first);
    assert!(since.whole);
    assert_eq!(since.changed.len(), MOST_CHANGES + 11);
    assert_eq!(read(&*store, &owner, since.version).changed, []);
    // Who keeps some of them is told to forget these, and of nothing else.
    let partial = Partial::of(&*store, &owner, first);
    define(&*store, &owner, b"first", Some(b"w"));
    let (_, keys, forgotten) = partial.told();
    assert_eq!(forgotten, 1);
    assert!(keys.iter().all(|key| key == b"first"), "{}", keys.len());
    Ok(())
}

pub(super) fn who_follows_knows_a_definition_before_it_is_answered(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    define(&*store, &owner, b"before", Some(b"1"));
    let (one, other) = (Witness::of(&*store, &owner), Witness::of(&*store, &owner));
    let another = Witness::of(&*store, &table_name());
    for value in [Some(&b"1"[..]), Some(b"2"), None] {
        define(&*store, &owner, b"k", value);
        for follower in [&one, &other] {
            assert_eq!(follower.knows(b"k").as_deref(), value);
            assert_eq!(follower.knows(b"before").as_deref(), Some(&b"1"[..]));
        }
        assert_eq!(another.knows(b"k"), None);
    }
    Ok(())
}

/// Two processes have a handle each: at either something is defined, changed and removed.
pub(super) fn what_is_defined_at_one_handle_holds_at_another(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (here, there, owner) = two_handles(subject)?;
    let (at_one, at_other) = (Witness::of(&*here, &owner), Witness::of(&*there, &owner));
    for (by, follower) in [(&here, &at_other), (&there, &at_one)] {
        for value in [Some(&b"1"[..]), Some(b"2"), None] {
            define(&**by, &owner, b"k", value);
            follower.awaits(b"k", value);
        }
    }
    define(&*here, &owner, b"k", Some(b"kept"));
    // Who comes later knows it, too.
    Witness::of(&*there, &owner).awaits(b"k", Some(b"kept"));
    at_other.awaits(b"k", Some(b"kept"));
    assert!(define(&*there, &owner, b"k", None), "either may remove it");
    at_one.awaits(b"k", None);
    Ok(())
}

pub(super) fn a_definition_lasts_for_as_long_as_it_says(subject: &Subject) -> Result<(), Skipped> {
    let (here, there, owner) = two_handles(subject)?;
    let hour = Duration::from_secs(3_600);
    let lasting = |key: &[u8], lasts| Definition::new(key, b"v").lasting(lasts);
    for definition in [
        lasting(b"hour", hour),
        Definition::new(b"good", b"v"),
        lasting(b"moment", Duration::from_micros(1)),
    ] {
        wait_for(here.define(&owner, definition)).expect("room");
    }
    let first = read(&*there, &owner, 0).version;
    wait_for(here.define(&owner, lasting(b"good", hour))).expect("room");
    wait_for(here.define(&owner, Definition::new(b"hour", b"for good"))).expect("room");
    for newer_than in [0, first] {
        let mut found = read(&*there, &owner, newer_than).changed;
        found.sort();
        let [good, at_hour] = &found[..] else {
            panic!("{found:?}")
        };
        let lasts = good.lasts.expect("it ends");
        assert!(!lasts.is_zero() && lasts <= hour, "{lasts:?}");
        let hour = Definition::new(b"hour", b"for good");
        assert_eq!(at_hour, &hour.at_version(at_hour.version));
    }
    Ok(())
}

type Handles = (std::sync::Arc<dyn Store>, std::sync::Arc<dyn Store>, String);

fn two_handles(subject: &Subject) -> Result<Handles, Skipped> {
    let reopen = subject.reopened_store()?;
    let here = subject.fresh();
    match here.abilities().shared {
        true => Ok((here, reopen(), table_name())),
        false => Err("one process has it alone"),
    }
}
