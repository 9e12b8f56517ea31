//! What a set holds, a page at a time.
#![cfg(feature = "memory")]

use std::time::Duration;

use tidegate::{
    DecisionError, LONGEST_PAGE, LeaseId, Limit, LimitSet, ListedLease, ManualClock, PageOf,
};
use tidegate::{Select, StoreError};

const ALL: PageOf<'_> = PageOf {
    select: Select::All,
    after: None,
    most: LONGEST_PAGE,
};

fn set() -> (LimitSet, ManualClock) {
    let time = ManualClock::default();
    let limits = [
        Limit::budget("tokens", 100, Duration::from_secs(60)),
        Limit::concurrency("running", 2),
    ];
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    (set.build().unwrap(), time)
}

fn leases(set: &LimitSet) -> Vec<ListedLease> {
    set.list_leases(ALL).wait().unwrap().items
}

#[test]
fn a_key_is_listed_with_the_standing_of_every_limit() {
    let (set, _) = set();
    let lease = set.try_acquire("k", &[("tokens", 30)]).wait().unwrap();
    let page = set.list_keys(ALL).wait().unwrap();
    assert!(page.next.is_none());
    let key = &page.items[0];
    assert_eq!((page.items.len(), &key.key[..]), (1, &b"k"[..]));
    let left = |name| key.decision.standing(name).unwrap().remaining;
    assert_eq!((left("tokens"), left("running")), (70, 1));
    drop(lease);
}

#[test]
fn a_lease_is_listed_with_its_limits_names_until_it_ends() {
    let (set, time) = set();
    let lease = set.try_acquire("k", &[("tokens", 30)]).wait().unwrap();
    let mut lease = lease.granted().unwrap();
    let listed = leases(&set);
    assert_eq!(
        (listed[0].id, listed[0].granted_at, listed[0].expires_at),
        (lease.id(), lease.granted_at(), lease.expires_at())
    );
    let mut taken = listed[0].taken.clone();
    taken.sort_unstable();
    assert_eq!(
        taken,
        [("running".to_owned(), 1), ("tokens".to_owned(), 30)]
    );
    assert_eq!(set.count().wait().unwrap().leases, Some(1));
    lease.settle(&[("tokens", 3)]).wait().unwrap();
    assert!(leases(&set).is_empty());
    assert_eq!(set.count().wait().unwrap().leases, Some(0));
    let other = set
        .try_acquire("k", &[("tokens", 1)])
        .wait()
        .unwrap()
        .granted();
    time.advance(Duration::from_secs(3_600));
    assert!(leases(&set).is_empty());
    assert_eq!(set.count().wait().unwrap().leases, Some(0));
    drop(other);
}

#[test]
fn a_page_holds_no_more_than_is_asked_and_the_next_goes_on() {
    let (set, _) = set();
    let held: Vec<_> = (0..50)
        .map(|n| {
            set.try_acquire(format!("k{n}").as_str(), &[("tokens", 1)])
                .wait()
                .unwrap()
        })
        .collect();
    let (mut ids, mut after) = (Vec::<LeaseId>::new(), None::<Vec<u8>>);
    loop {
        let page = PageOf {
            after: after.as_deref(),
            most: 7,
            ..ALL
        };
        let page = set.list_leases(page).wait().unwrap();
        assert!(page.items.len() <= 7);
        ids.extend(page.items.iter().map(|lease| lease.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let all = ids.len();
    ids.sort_unstable_by_key(ToString::to_string);
    ids.dedup();
    assert_eq!((ids.len(), all), (50, 50));
    drop(held);
    let odd = PageOf {
        after: Some(b"odd"),
        ..ALL
    };
    let odd = set.list_keys(odd).wait().unwrap_err();
    assert_eq!(odd, DecisionError::Store(StoreError::UnknownPage));
}
