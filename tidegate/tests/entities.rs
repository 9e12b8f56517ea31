//! Paths of entities: what is counted follows an entity that moves within its root.
#![cfg(feature = "memory")]

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{
    BuildError, DecisionError, Key, KeyError, LONGEST_PAGE, Limit, LimitSet, PageOf, RequestError,
    Select,
};

const SEARCH: &str = "/acme/search/alice";
const SALES: &str = "/acme/sales/alice";
const LEVELS: [&str; 3] = ["org", "team", "user"];

fn builder() -> tidegate::LimitSetBuilder {
    let minute = Duration::from_secs(60);
    let tokens = |level| Limit::budget(level, 1_000, minute).at_level(level);
    LimitSet::builder()
        .levels(LEVELS)
        .limits(LEVELS.map(tokens))
}

fn set() -> LimitSet {
    builder().build().expect("sound limits")
}

/// What is left at each level.
fn left(set: &LimitSet, key: &str) -> Vec<Option<u64>> {
    let peek = set.peek(key, 1).wait().expect("an answer");
    LEVELS.map(|level| peek.remaining(level)).into()
}

fn refused(set: &LimitSet, key: &str) -> RequestError {
    match set.check(key, 1).wait() {
        Err(DecisionError::Request(error)) => error,
        answer => panic!("{key} is answered by {answer:?}"),
    }
}

#[test]
fn an_entity_that_moves_keeps_what_it_has_used() {
    let set = set();
    assert!(set.check(SEARCH, 400).wait().unwrap().admitted());
    assert_eq!(left(&set, SALES), [Some(600), Some(1_000), Some(600)]);
    let composed = [Some(600), Some(1_000), Some(1_000)];
    assert_eq!(left(&set, "acme/search/alice"), composed);
    let by_ids = Key::entities(["acme", "sales", "alice"]);
    assert!(set.check(&by_ids, 500).wait().unwrap().admitted());
    assert_eq!(left(&set, SEARCH), [Some(100), Some(600), Some(100)]);
    set.reset(SALES).wait().unwrap();
    assert_eq!(left(&set, SEARCH), [Some(100), Some(600), Some(1_000)]);
}

#[test]
fn a_path_is_as_deep_as_the_levels() {
    let set = set();
    let too_deep = KeyError::TooManyEntities {
        entities: 4,
        levels: 3,
    };
    assert_eq!(refused(&set, "/acme/a/b/c"), RequestError::Key(too_deep));
    let short = |levels| RequestError::KeyDepth { levels, needed: 3 };
    assert_eq!(refused(&set, "/acme/search"), short(2));
    assert_eq!(refused(&set, "acme"), short(1));
    for empty in [
        "/",
        "//",
        "/acme",
        "/acme//",
        "//alice",
        "/acme//alice",
        "/acme/search/",
    ] {
        assert_eq!(
            refused(&set, empty),
            RequestError::Key(KeyError::EmptySegment)
        );
    }
    assert_eq!(set.count().wait().unwrap().keys, 0);

    let partial = builder().partial_keys().build().unwrap();
    assert!(partial.check("/acme/search", 1).wait().unwrap().admitted());
    let root = Key::entities(["acme"]);
    assert!(partial.check(&root, 1).wait().unwrap().admitted());
    assert_eq!(left(&partial, "acme")[0], Some(998));
    assert_eq!(
        refused(&partial, "/acme/a/b/c"),
        RequestError::Key(too_deep)
    );
}

#[test]
fn a_key_of_one_level_may_begin_with_a_slash() {
    let limit = Limit::calls("rpm", 10, Duration::from_secs(60));
    let set = LimitSet::new([limit]).unwrap();
    let left = |key| set.peek(key, 1).wait().unwrap().remaining("rpm");
    for key in ["/v1/users/7", "/v1/teams/7", "/v1//7", "//v1/a/7"] {
        assert!(set.check(key, 1).wait().unwrap().admitted());
        let handle = set.handle(key).unwrap();
        assert_eq!(handle.key(), key.as_bytes());
        assert!(handle.admit(1).wait().unwrap().admitted());
        assert_eq!(left(key), Some(8));
    }
    let own = [Limit::calls("rpm", 5, Duration::from_secs(60))];
    set.set_override("/v1/users/7", &own).wait().unwrap();
    assert_eq!(left("/v1/users/7"), Some(3));
    assert_eq!((left("/v1/teams/7"), left("/v1//7")), (Some(8), Some(8)));
    let listed: Vec<_> = set.overrides(None, 10).into_iter().map(|o| o.key).collect();
    assert_eq!(listed, [b"/v1/users/7"]);
    assert!(set.override_of("/v1//7").is_none());
    assert!(set.remove_override("/v1/users/7").wait().unwrap());
    set.reset("/v1//7").wait().unwrap();
    assert_eq!((left("/v1/users/7"), left("/v1//7")), (Some(8), Some(10)));
}

#[test]
fn a_lease_is_settled_where_it_was_granted_though_its_entity_has_moved() {
    let set = set();
    let lease = set.try_acquire(SEARCH, 500).wait().unwrap();
    let mut lease = lease.granted().expect("it fits");
    assert!(set.check(SALES, 100).wait().unwrap().admitted());
    assert!(lease.adjust(400).wait().unwrap().admitted());
    lease.settle(200).wait().unwrap();
    assert_eq!(left(&set, SALES), [Some(700), Some(900), Some(700)]);
    assert_eq!(left(&set, SEARCH), [Some(700), Some(800), Some(700)]);
}

#[test]
fn an_override_of_an_entity_holds_wherever_it_is() {
    let set = set();
    let own = [Limit::budget("user", 5_000, Duration::from_secs(60))];
    set.set_override(SEARCH, &own).wait().unwrap();
    assert_eq!(left(&set, SALES)[2], Some(5_000));
    assert_eq!(left(&set, "acme/sales/alice")[2], Some(1_000));
    assert_eq!(left(&set, "/other/sales/alice")[2], Some(1_000));
    let listed: Vec<_> = set.overrides(None, 10).into_iter().map(|o| o.key).collect();
    assert_eq!(listed, [b"/acme//alice"]);
    for name in [SEARCH, SALES, "/acme//alice"] {
        assert_eq!(set.override_of(name).unwrap().key, b"/acme//alice");
    }
    assert!(set.remove_override("/acme//alice").wait().unwrap());
    assert_eq!(left(&set, SALES)[2], Some(1_000));
    assert!(!set.remove_override(SALES).wait().unwrap());
    set.set_override("/acme//alice", &own).wait().unwrap();
    assert_eq!(left(&set, SEARCH)[2], Some(5_000));
    let too_deep = set.set_override("/acme/a/b/c", &own).wait();
    assert!(matches!(
        too_deep,
        Err(BuildError::Key(KeyError::TooManyEntities { .. }))
    ));
    let other_level = set.set_override("/acme/alice", &own).wait();
    assert!(matches!(other_level, Err(BuildError::OtherLevel { .. })));
}

#[test]
fn an_entity_is_listed_by_its_row_and_with_what_is_known_above_it() {
    let set = set();
    let held: Vec<_> = [SEARCH, SALES]
        .map(|key| set.try_acquire(key, 100).wait().unwrap().granted())
        .into();
    let page = |select| PageOf {
        select,
        after: None,
        most: LONGEST_PAGE,
    };
    let listed = |select| {
        let mut keys = set.list_keys(page(select)).wait().unwrap().items;
        keys.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        keys
    };
    let hers = listed(Select::Key(SALES.as_bytes()));
    assert_eq!((hers.len(), &*hers[0].key), (1, &b"/acme//alice"[..]));
    let standings = LEVELS.map(|level| hers[0].decision.remaining(level));
    assert_eq!(standings, [Some(800), None, Some(800)]);
    let all: Vec<_> = listed(Select::All).into_iter().map(|key| key.key).collect();
    let rows = ["/acme//alice", "/acme/sales", "/acme/search", "acme"];
    assert_eq!(all, rows.map(|row| row.as_bytes().to_vec()));
    let leases = set.list_leases(page(Select::Key(b"/acme//alice")));
    assert_eq!(leases.wait().unwrap().items.len(), 2);
    set.reset("/acme//alice").wait().unwrap();
    assert_eq!(left(&set, SEARCH), [Some(800), Some(900), Some(1_000)]);
    drop(held);
}

#[test]
fn who_waits_for_an_entity_is_served_when_it_is_given_back_elsewhere() {
    let limits = [
        Limit::concurrency("team", 10).at_level("team"),
        Limit::concurrency("running", 1).at_level("user"),
    ];
    let set = LimitSet::builder().levels(LEVELS).limits(limits);
    let set = set.build().unwrap();
    let held = set.try_acquire(SEARCH, ()).wait().unwrap().granted();
    let mut held = held.expect("it fits");
    let mut waiting = pin!(set.acquire(SALES, ()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    held.release().wait().unwrap();
    let Poll::Ready(answer) = waiting.as_mut().poll(&mut context) else {
        panic!("it was given back");
    };
    assert!(answer.unwrap().granted().is_some());
}
