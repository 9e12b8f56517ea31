//! Definitions in pages, in the order of their keys.

use std::collections::BTreeMap;

use tidegate_store::definitions::MOST_A_PAGE;
use tidegate_store::{Definition, Store};

use super::definition_fixture::{change, made, put, remove};
use super::fixture::table_name;
use crate::later::wait_for;
use crate::subject::{Skipped, Subject};

/// All that begin with `prefix`, in pages of `most`.
fn walked(store: &dyn Store, owner: &str, prefix: &[u8], most: usize) -> Vec<Definition> {
    let (mut all, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let page = store.definitions_page(owner, prefix, after.as_deref(), most);
        let page = wait_for(page).expect("an answer");
        assert!(page.items.len() <= most.max(1));
        all.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

/// Short and long ones, of which an index has the beginning alone, and of any bytes.
fn keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        &b"\x00"[..],
        b"\x00\x00",
        b"a",
        b"a/b",
        b"a0",
        b"b",
        b"\xff\xff",
    ]
    .map(<[u8]>::to_vec)
    .into();
    for (byte, length) in [
        (b'a', 150),
        (b'a', 169),
        (b'a', 224),
        (b'a', 300),
        (b'\xff', 260),
    ] {
        keys.push(vec![byte; length]);
        for end in [&b"1"[..], b"2", b"3", b"\xff", b"\x00"] {
            keys.push([&vec![byte; length][..], end].concat());
            keys.push([&vec![byte; length + 100][..], end].concat());
        }
    }
    keys.sort();
    keys.dedup();
    keys
}

pub(super) fn definitions_are_listed_in_the_order_of_their_keys(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    assert_eq!(walked(&*store, &owner, b"", 10), [], "nothing is defined");
    let mut expected = BTreeMap::new();
    // Another's are on no page.
    made(change(&*store, &table_name(), put(b"a", b"other")));
    for (nth, key) in keys().into_iter().enumerate().rev() {
        let value = nth.to_string().into_bytes();
        let version = made(change(&*store, &owner, put(&key, &value)));
        expected.insert(key.clone(), Definition::new(key, value).at_version(version));
    }
    let long = [b'a'; 230];
    for prefix in [
        &b""[..],
        b"a",
        b"a/",
        &long[..160],
        &long,
        b"\xff",
        b"nobody",
    ] {
        let those = expected.values().filter(|one| one.key.starts_with(prefix));
        let those: Vec<_> = those.cloned().collect();
        for most in [1, 2, 7, 100] {
            let listed = walked(&*store, &owner, prefix, most);
            assert!(listed == those, "{prefix:?} by {most}: {listed:?}");
        }
    }
    // A page goes on behind any key, whether it is there or not.
    let page = store.definitions_page(&owner, b"a", Some(b"a/c"), 1);
    assert_eq!(wait_for(page).expect("an answer").items[0].key, b"a0");
    let page = store.definitions_page(&owner, b"a", Some(b"Z"), usize::MAX);
    assert!(wait_for(page).expect("an answer").items.len() <= MOST_A_PAGE);
    let page = store.definitions_page(&owner, b"a", Some(b"b"), 9);
    assert_eq!(wait_for(page).expect("an answer").items, []);
    Ok(())
}

pub(super) fn what_is_there_throughout_is_on_one_page_whatever_comes_and_goes(
    subject: &Subject,
) -> Result<(), Skipped> {
    let (store, owner) = (subject.fresh(), table_name());
    let key = |n: u8| vec![b'k', n];
    for n in (0..40).step_by(2) {
        made(change(&*store, &owner, put(&key(n), b"v")));
    }
    let (mut seen, mut after) = (Vec::new(), None::<Vec<u8>>);
    for turn in 0.. {
        let page = store.definitions_page(&owner, b"", after.as_deref(), 3);
        let page = wait_for(page).expect("an answer");
        seen.extend(page.items.into_iter().map(|one| one.key));
        // Before and behind it some come, some go, and some change.
        for n in [1, 39 - 2 * turn] {
            made(change(&*store, &owner, put(&key(n), b"new")));
        }
        let gone = if turn == 0 { 36 } else { 4 };
        change(&*store, &owner, remove(&key(gone)));
        made(change(&*store, &owner, put(&key(20), &[turn])));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert!(seen.is_sorted_by(|one, other| one < other), "{seen:?}");
    let stays = (0..40).step_by(2).filter(|n| ![4, 36].contains(n)).map(key);
    for one in stays {
        assert_eq!(seen.iter().filter(|key| **key == one).count(), 1, "{one:?}");
    }
    assert!(!seen.contains(&key(36)), "it had gone before its page");
    Ok(())
}
