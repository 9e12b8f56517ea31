//! Keys and leases, listed a page at a time.

use std::collections::BTreeMap;

use tidegate_core::{Rule, Span};
use tidegate_store::{Ending, HeldLease, OwnedKey, Page, Select, StoreError, Verb};

use super::fixture::{Fixture, budget, rate, slots};
use crate::subject::{Skipped, Subject};
use crate::table_ext::{TableExt, every_item};

const SECOND: u64 = 1_000_000;

type Listed<T> = Result<Page<T>, StoreError>;

/// Every item of a listing in pages of `most`, with something done between two.
fn pages<T>(
    most: usize,
    mut list: impl FnMut(usize, Option<&[u8]>) -> Listed<T>,
    between: impl FnMut(usize),
) -> Result<Vec<T>, Skipped> {
    match every_item(most, |after| list(most, after), between) {
        Err(StoreError::CannotList) => Err("it does not list what it holds"),
        items => Ok(items.expect("a page")),
    }
}

pub(super) fn keys(fixture: &Fixture, select: Select<'_>) -> Result<Vec<OwnedKey>, Skipped> {
    let list = |most, after: Option<&[u8]>| {
        fixture
            .table
            .list_keys(&fixture.listing(select, most, after))
    };
    pages(7, list, |_| ())
}

pub(super) fn leases(fixture: &Fixture, select: Select<'_>) -> Result<Vec<HeldLease>, Skipped> {
    let list = |most, after: Option<&[u8]>| {
        fixture
            .table
            .list_leases(&fixture.listing(select, most, after))
    };
    pages(3, list, |_| ())
}

fn shapes() -> [Vec<(usize, Rule)>; 2] {
    [
        vec![(0, rate(1, 1_000))],
        vec![(0, budget(5)), (0, slots(2))],
    ]
}

pub(super) fn a_key_in_use_is_listed_once_whatever_comes_meanwhile(
    subject: &Subject,
) -> Result<(), Skipped> {
    for shape in shapes() {
        let fixture = Fixture::new(subject, 1, &shape);
        let amounts = vec![1; shape.len()];
        let use_it = |key: &str| assert!(fixture.hold(key.as_bytes(), &amounts, SECOND).0 > 0);
        (0..300).for_each(|n| use_it(&format!("key/{n}")));
        let list = |most, after: Option<&[u8]>| {
            fixture
                .table
                .list_keys(&fixture.listing(Select::All, most, after))
        };
        let listed = pages(10, list, |page| {
            (0..20).for_each(|n| use_it(&format!("late/{page}/{n}")));
        })?;
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        for key in &listed {
            *counts.entry(key.bytes()).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count == 1), "none comes twice");
        let early = counts.keys().filter(|key| key.starts_with(b"key/"));
        assert_eq!(early.count(), 300, "none is left out");
    }
    Ok(())
}

pub(super) fn keys_are_listed_by_their_beginning_and_ancestors_with_them(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 2, &[(0, budget(1_000)), (1, budget(1_000))]);
    for key in ["acme/alice", "acme/bob", "acmes/carol", "other/alice"] {
        assert!(fixture.admits(key.as_bytes(), &[1, 1]));
    }
    let named = |select| {
        let mut keys: Vec<_> = keys(&fixture, select)?.iter().map(text).collect();
        keys.sort_unstable();
        Ok::<_, Skipped>(keys.join(" "))
    };
    let all = "acme acme/alice acme/bob acmes acmes/carol other other/alice";
    assert_eq!(named(Select::All)?, all);
    assert_eq!(named(Select::Prefix(b"acme/"))?, "acme/alice acme/bob");
    assert_eq!(named(Select::Key(b"acme"))?, "acme");
    assert_eq!(named(Select::Key(b"nobody"))?, "");
    Ok(())
}

pub(super) fn a_key_that_equals_never_seen_is_not_listed(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    for shape in shapes() {
        let fixture = Fixture::new(subject, 1, &shape[..1]);
        assert!(fixture.admits(b"soon", &[1]) && fixture.admits(b"late", &[1]));
        fixture.pass(20_000);
        assert!(fixture.admits(b"late", &[1]));
        assert_eq!(
            keys(&fixture, Select::All)?
                .iter()
                .map(text)
                .collect::<Vec<_>>(),
            ["late"]
        );
        assert!(keys(&fixture, Select::Key(b"soon"))?.is_empty());
    }
    Ok(())
}

pub(super) fn a_held_lease_is_listed_with_what_it_took(subject: &Subject) -> Result<(), Skipped> {
    subject.needs_the_callers_clock()?;
    let fixture = Fixture::new(subject, 1, &[(0, rate(1, 100)), (0, slots(9))]);
    let (kept, fence) = fixture.hold(b"a", &[40, 2], 5 * SECOND);
    let (ended, _) = fixture.hold(b"a", &[1, 1], 5 * SECOND);
    fixture.hold(b"b", &[1, 1], SECOND);
    let (renewed, _) = fixture.hold(b"b", &[0, 1], SECOND);
    fixture.end(b"a", ended, Ending::Release).expect("held");
    let until = fixture.now() + Span::from_micros(9 * SECOND);
    fixture
        .execute(b"b", Verb::Renew { id: renewed, until })
        .expect("held");
    fixture.pass(SECOND as i64);
    let mut held = leases(&fixture, Select::All)?;
    held.sort_by_key(|lease| lease.id);
    let ids: Vec<_> = held.iter().map(|lease| lease.id).collect();
    assert_eq!(ids, [kept, renewed]);
    assert_eq!((text(&held[0].key).as_str(), held[0].fence), ("a", fence));
    assert_eq!(held[0].taken[..], [(0, 40), (1, 2)]);
    assert_eq!(
        (held[1].expires_at, held[1].taken[..].to_vec()),
        (until, vec![(1, 1)])
    );
    assert_eq!(leases(&fixture, Select::Key(b"b"))?.len(), 1);
    assert!(leases(&fixture, Select::Prefix(b"c"))?.is_empty());
    assert!(matches!(
        fixture
            .table
            .count(fixture.now())
            .expect("an answer")
            .leases,
        None | Some(2)
    ));
    Ok(())
}

pub(super) fn leases_that_expire_together_are_listed_once_each(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 1, &[(0, slots(1_000))]);
    let key = |n: usize| format!("key {}", n % 3);
    for n in 0..100 {
        fixture.hold(key(n).as_bytes(), &[1], SECOND);
    }
    for select in [Select::All, Select::Key(b"key 0")] {
        let mut ids: Vec<_> = leases(&fixture, select)?
            .iter()
            .map(|lease| lease.id)
            .collect();
        let all = if select == Select::All { 100 } else { 34 };
        assert_eq!(ids.len(), all);
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
    Ok(())
}

pub(super) fn a_page_that_another_table_began_is_an_error(
    subject: &Subject,
) -> Result<(), Skipped> {
    let full = || {
        let fixture = Fixture::new(subject, 1, &[(0, budget(9))]);
        (0..50_u8).for_each(|n| assert!(fixture.admits(&[n], &[1])));
        fixture
    };
    let (fixture, other) = (full(), full());
    let first = match fixture
        .table
        .list_keys(&fixture.listing(Select::All, 10, None))
    {
        Err(StoreError::CannotList) => return Err("it does not list what it holds"),
        page => page.expect("a page"),
    };
    let next = first.next.expect("there are more");
    for place in [&next[..], b"", b"anything at all"] {
        let there = other
            .table
            .list_keys(&other.listing(Select::All, 10, Some(place)));
        assert_eq!(there, Err(StoreError::UnknownPage));
    }
    Ok(())
}

/// A cursor is the caller's: whatever is made of one, the store either goes on from
/// there or says that it is none. A server's error at it counted as an outage, and who
/// might only look kept everybody else from asking.
pub(super) fn a_cursor_that_was_tampered_with_is_the_callers_error(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 2, &[(0, slots(1_000)), (1, budget(9))]);
    for n in 0..40 {
        fixture.hold(format!("key {n}/x").as_bytes(), &[1, 1], SECOND);
    }
    let keys = |after: Option<&[u8]>| {
        let page = fixture
            .table
            .list_keys(&fixture.listing(Select::All, 5, after));
        page.map(|page| page.next)
    };
    let leases = |after: Option<&[u8]>| {
        let page = fixture
            .table
            .list_leases(&fixture.listing(Select::All, 5, after));
        page.map(|page| page.next)
    };
    type List<'l> = &'l dyn Fn(Option<&[u8]>) -> Result<Option<Vec<u8>>, StoreError>;
    let lists: [List<'_>; 2] = [&keys, &leases];
    for list in lists {
        let first = match list(None) {
            Err(StoreError::CannotList) => return Err("it does not list what it holds"),
            page => page.expect("a page").expect("there are more"),
        };
        for at in 0..first.len() {
            for other in [first[at] ^ 1, first[at] ^ 0x80, b'x', b' ', 0xff] {
                let mut tampered = first.clone();
                tampered[at] = other;
                let page = list(Some(&tampered));
                let fair = matches!(page, Ok(_) | Err(StoreError::UnknownPage));
                assert!(fair, "{page:?} for {}", tampered.escape_ascii());
            }
            let page = list(Some(&first[..at]));
            let fair = matches!(page, Ok(_) | Err(StoreError::UnknownPage));
            assert!(fair, "{page:?} for {}", first[..at].escape_ascii());
        }
    }
    Ok(())
}

/// A row was taken for a ledger by the end of its name, and no lease of the table could
/// be listed any more.
pub(super) fn leases_are_listed_whatever_bytes_the_keys_have(
    subject: &Subject,
) -> Result<(), Skipped> {
    let fixture = Fixture::new(subject, 2, &[(0, slots(9)), (1, budget(9))]);
    let mut odd = [
        &b"a/x}:d"[..],
        b"a/}:b",
        b"}:d/x",
        b"a/{b}:d",
        b"*/?}:d",
        b"\xffa/\xffx",
        b"\xff\xff/\0",
    ];
    for key in odd {
        fixture.hold(key, &[1, 1], SECOND);
    }
    let mut listed: Vec<_> = leases(&fixture, Select::All)?
        .iter()
        .map(|lease| lease.key.bytes().to_vec())
        .collect();
    listed.sort_unstable();
    odd.sort_unstable();
    assert_eq!(listed, odd);
    for key in odd {
        let listed = leases(&fixture, Select::Key(key))?;
        assert_eq!(listed.len(), 1, "{key:?}");
    }
    Ok(())
}

pub(super) fn text(key: &OwnedKey) -> String {
    String::from_utf8_lossy(key.bytes()).into_owned()
}
