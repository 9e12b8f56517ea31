//! Limits of some keys' own: by every way a key is asked for.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Polled;
use tidegate::Store;
use tidegate::{BuildError, Limit, LimitError, LimitSet, ManualClock, Period, Request, Verdict};
use tidegate_memory::MemoryStore;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

fn rpm(count: u64) -> Limit {
    Limit::rate("rpm", count, MINUTE)
}

/// A set of one bucket, which keeps a word a key.
fn lone(time: &ManualClock) -> LimitSet {
    set(time, [rpm(10)])
}

fn set(time: &ManualClock, limits: impl IntoIterator<Item = Limit>) -> LimitSet {
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    builder.build().unwrap()
}

fn left(set: &LimitSet, key: &str) -> u64 {
    set.peek(key, 1)
        .wait()
        .unwrap()
        .standing("rpm")
        .unwrap()
        .remaining
}

/// How many single calls are admitted, by the lean path.
fn admitted(set: &LimitSet, key: &str) -> u64 {
    let admit = |_: &u64| set.admit(key, 1).wait().unwrap().admitted();
    (0..1_000).take_while(admit).count() as u64
}

#[test]
fn an_override_holds_for_its_key_alone_by_every_way_it_is_asked() {
    let time = ManualClock::default();
    let set = lone(&time);
    set.set_override("acme", &[rpm(25)]).wait().unwrap();
    assert_eq!(admitted(&set, "acme"), 25);
    assert_eq!(admitted(&set, "other"), 10);
    time.advance(MINUTE);
    let handle = set.handle("acme").unwrap();
    let by_handle = (0..100).take_while(|_| handle.admit(1).wait().unwrap().admitted());
    assert_eq!(by_handle.count(), 25);
    time.advance(MINUTE);
    assert!(set.check("acme", 25).wait().unwrap().admitted());
    assert!(
        set.try_acquire("acme", 1)
            .wait()
            .unwrap()
            .granted()
            .is_none()
    );
    assert_eq!(
        set.check("acme", 26).wait().unwrap().most_at_once(),
        Some(25)
    );
    assert_eq!(
        set.check("other", 11).wait().unwrap().most_at_once(),
        Some(10)
    );
    assert_eq!(set.admit("other", 11).wait(), Ok(Verdict::Never));
}

/// A handle, and what a thread keeps of a hot key, were made before.
#[test]
fn an_override_reaches_cells_that_are_held_already_and_leaves_them_again() {
    let time = ManualClock::default();
    let set = lone(&time);
    let handle = set.handle("acme").unwrap();
    for _ in 0..6 {
        assert!(set.admit("acme", 1).wait().unwrap().admitted());
    }
    set.set_override("acme", &[rpm(30)]).wait().unwrap();
    assert_eq!(left(&set, "acme"), 24);
    assert!((0..24).all(|_| handle.admit(1).wait().unwrap().admitted()));
    assert!(!handle.admit(1).wait().unwrap().admitted());
    assert!(!set.admit("acme", 1).wait().unwrap().admitted());
    assert!(set.remove_override("acme").wait().unwrap());
    assert!(!handle.admit(1).wait().unwrap().admitted());
    time.advance(MINUTE);
    assert_eq!(
        (0..100)
            .take_while(|_| handle.admit(1).wait().unwrap().admitted())
            .count(),
        10
    );
    assert!(!set.remove_override("acme").wait().unwrap());
}

#[test]
fn lowering_keeps_what_is_used_and_removing_returns_to_the_sets_limit() {
    let time = ManualClock::default();
    let set = lone(&time);
    assert!(set.check("acme", 4).wait().unwrap().admitted());
    set.set_override("acme", &[rpm(5)]).wait().unwrap();
    assert_eq!(left(&set, "acme"), 1);
    set.remove_override("acme").wait().unwrap();
    assert_eq!(left(&set, "acme"), 6);
}

#[test]
fn whoever_waits_and_fits_the_larger_limit_is_woken_by_the_override() {
    let time = ManualClock::default();
    let set = set(&time, [rpm(10), Limit::concurrency("running", 1)]);
    let held = set
        .try_acquire("acme", 1)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    let mut waiting = Polled::waiting(set.acquire("acme", 1));
    set.set_override("other", &[Limit::concurrency("running", 2)])
        .wait()
        .unwrap();
    assert!(waiting.poll().is_none());
    set.set_override("acme", &[Limit::concurrency("running", 2)])
        .wait()
        .unwrap();
    assert!(waiting.woken());
    assert!(waiting.granted().is_some());
    drop(held);
}

#[test]
fn ancestors_have_overrides_of_their_own() {
    let time = ManualClock::default();
    let org = |count| Limit::calls("org", count, MINUTE).at_level("org");
    let user = |count| Limit::calls("user", count, MINUTE).at_level("user");
    let built = LimitSet::builder().levels(["org", "user"]);
    let built = built.limit(org(10)).limit(user(4)).clock(time.clock());
    let set = built.build().unwrap();
    set.set_override("acme", &[Limit::calls("org", 20, MINUTE)])
        .wait()
        .unwrap();
    set.set_override("acme/a", &[Limit::calls("user", 15, MINUTE)])
        .wait()
        .unwrap();
    let count = |key| {
        (0..100)
            .take_while(|_| set.check(key, 1).wait().unwrap().admitted())
            .count()
    };
    assert_eq!(count("acme/a"), 15);
    assert_eq!(count("acme/b"), 4);
    assert_eq!(count("acme/c"), 1);
    assert_eq!(count("else/a"), 4);
    let refused = set
        .set_override("acme/a", &[Limit::calls("org", 9, MINUTE)])
        .wait()
        .unwrap_err();
    assert!(matches!(refused, BuildError::OtherLevel { .. }));
    let told = "limit `org` is about level `org` of a key, and this key ends at level `user`; \
                set the override for a key that ends at `org`";
    assert_eq!(refused.to_string(), told);
    set.remove_override("acme").wait().unwrap();
    time.advance(MINUTE);
    assert_eq!(count("acme/a"), 10);
}

#[test]
fn an_override_outlives_the_rows_of_its_key() {
    let time = ManualClock::default();
    let builder = LimitSet::builder().limit(rpm(10)).max_keys(4);
    let set = builder.clock(time.clock()).build().unwrap();
    set.set_override("acme", &[rpm(30)]).wait().unwrap();
    for round in 0..3 {
        assert_eq!(admitted(&set, "acme"), 30);
        for other in 0..3 {
            assert!(
                set.admit(&*format!("{round}/{other}"), 1)
                    .wait()
                    .unwrap()
                    .admitted()
            );
        }
        time.advance(2 * MINUTE);
        for other in 0..4 {
            assert!(
                set.admit(&*format!("{round}/x{other}"), 1)
                    .wait()
                    .unwrap()
                    .admitted()
            );
        }
        time.advance(2 * MINUTE);
    }
}

/// A key that is full by its own limit must not be dropped as idle by the set's.
#[test]
fn a_row_is_kept_for_as_long_as_its_own_limit_needs_it() {
    let time = ManualClock::default();
    let builder = LimitSet::builder().limit(rpm(10)).max_keys(2);
    let set = builder.clock(time.clock()).build().unwrap();
    set.set_override("acme", &[Limit::rate("rpm", 10, HOUR)])
        .wait()
        .unwrap();
    assert_eq!(admitted(&set, "acme"), 10);
    time.advance(2 * MINUTE);
    for other in 0..20 {
        assert!(
            set.admit(&*format!("x{other}"), 1)
                .wait()
                .unwrap()
                .admitted()
        );
        time.advance(MINUTE);
    }
    assert!(!set.check("acme", 5).wait().unwrap().admitted());
}

#[test]
fn overrides_are_put_over_limits_that_change_and_wait_for_those_that_are_gone() {
    let time = ManualClock::default();
    let set = set(&time, [rpm(10), Limit::concurrency("running", 1)]);
    set.set_override("acme", &[rpm(30), Limit::concurrency("running", 3)])
        .wait()
        .unwrap();
    assert!(
        set.check("acme", &[("rpm", 20), ("running", 0)])
            .wait()
            .unwrap()
            .admitted()
    );
    set.put_limit(rpm(12)).unwrap();
    assert_eq!((left(&set, "acme"), left(&set, "other")), (10, 12));
    set.remove_limit("running").unwrap();
    assert_eq!(set.override_of("acme").unwrap().inert, ["running"]);
    set.put_limit(Limit::calls("rpm", 9, MINUTE)).unwrap();
    assert_eq!(set.override_of("acme").unwrap().inert, ["rpm", "running"]);
    set.put_limit(rpm(12)).unwrap();
    assert!(set.override_of("acme").unwrap().inert == ["running"]);
    let standing = set.peek("acme", 1).wait().unwrap().standing("rpm").unwrap();
    assert_eq!(standing.limit, 30);
}

#[test]
fn overrides_are_listed_in_pages_in_the_order_of_keys() {
    let set = lone(&ManualClock::default());
    for key in ["c", "a", "b"] {
        set.set_override(key, &[rpm(30)]).wait().unwrap();
    }
    let page = |after: Option<&str>| -> Vec<_> {
        let page = set.overrides(after.map(str::as_bytes), 2);
        page.into_iter()
            .map(|given| String::from_utf8(given.key).unwrap())
            .collect()
    };
    assert_eq!(page(None), ["a", "b"]);
    assert_eq!(page(Some("b")), ["c"]);
    assert_eq!(page(Some("c")), [""; 0]);
    assert_eq!(set.override_of("a").unwrap().limits, [rpm(30)]);
}

#[test]
fn an_override_that_makes_no_sense_is_an_error_and_changes_nothing() {
    let daily = |zone: &str| Limit::budget("daily", 5, Period::day(zone));
    let set = set(&ManualClock::default(), [rpm(10), daily("UTC")]);
    let refuse = |limits: &[Limit]| set.set_override("acme", limits).wait().unwrap_err();
    assert_eq!(refuse(&[]), BuildError::Nothing("limit"));
    assert!(matches!(
        refuse(&[Limit::calls("rpn", 1, MINUTE)]),
        BuildError::UnknownLimit { .. }
    ));
    assert!(matches!(
        refuse(&[rpm(1), rpm(2)]),
        BuildError::DuplicateLimit(_)
    ));
    assert!(matches!(refuse(&[rpm(0)]), BuildError::Limit { .. }));
    assert!(matches!(refuse(&[rpm(1 << 60)]), BuildError::Limit { .. }));
    let unlike = [
        Limit::calls("rpm", 1, MINUTE),
        Limit::concurrency("rpm", 1),
        Limit::rate("rpm", 1, Period::day("UTC")),
        rpm(1).algorithm(tidegate::Algorithm::SlidingLog),
        rpm(1).postpaid(),
        daily("Europe/Berlin"),
        Limit::budget("daily", 5, HOUR),
    ];
    for limit in unlike {
        let source = match refuse(&[limit]) {
            BuildError::Limit { source, .. } => source,
            error => panic!("{error}"),
        };
        assert!(matches!(source, LimitError::Unlike(_)), "{source}");
    }
    assert!(set.override_of("acme").is_none());
    assert!(set.set_override("", &[rpm(1)]).wait().is_err());
    set.set_override("acme", &[daily("UTC").with_capacity(7)])
        .wait()
        .unwrap();
    assert_eq!(
        set.peek("acme", 1)
            .wait()
            .unwrap()
            .standing("daily")
            .unwrap()
            .limit,
        7
    );
}

#[test]
fn a_lease_taken_under_one_limit_is_settled_under_another() {
    let time = ManualClock::default();
    let set = set(
        &time,
        [
            Limit::rate("rpm", 10, HOUR),
            Limit::concurrency("running", 1),
        ],
    );
    set.set_override("acme", &[Limit::rate("rpm", 100, HOUR)])
        .wait()
        .unwrap();
    let mut lease = set
        .try_acquire("acme", 80)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    set.set_override("acme", &[Limit::rate("rpm", 50, HOUR)])
        .wait()
        .unwrap();
    lease.settle(&[("rpm", 20)]).wait().unwrap();
    assert!(left(&set, "acme") <= 50);
    set.remove_override("acme").wait().unwrap();
    assert!(set.try_acquire("acme", 1).wait().is_ok());
    time.advance(HOUR);
    assert_eq!(left(&set, "acme"), 10);
}

#[test]
fn slots_are_held_as_long_as_the_keys_own_limit_says() {
    let time = ManualClock::default();
    let set = set(&time, [Limit::concurrency("running", 1).ttl(MINUTE)]);
    let longer = Limit::concurrency("running", 1).ttl(HOUR);
    set.set_override("acme", &[longer]).wait().unwrap();
    let held = set
        .try_acquire("acme", 1)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    time.advance(2 * MINUTE);
    assert!(
        set.try_acquire("acme", 1)
            .wait()
            .unwrap()
            .granted()
            .is_none()
    );
    drop(held);
}

/// A hundred thousand keys of one plan: quickly set, and none in another's way.
#[test]
fn many_keys_with_one_override_share_it() {
    let set = lone(&ManualClock::default());
    for key in 0..2_000_u32 {
        set.set_override(&key.to_be_bytes(), &[rpm(30)])
            .wait()
            .unwrap();
    }
    assert_eq!(
        set.set_override(&7_u32.to_be_bytes(), &[rpm(40)]).wait(),
        Ok(())
    );
    assert_eq!(
        set.peek(&6_u32.to_be_bytes(), 1)
            .wait()
            .unwrap()
            .standing("rpm")
            .unwrap()
            .limit,
        30
    );
    assert_eq!(
        set.peek(&7_u32.to_be_bytes(), 1)
            .wait()
            .unwrap()
            .standing("rpm")
            .unwrap()
            .limit,
        40
    );
    assert_eq!(
        set.peek("none", 1)
            .wait()
            .unwrap()
            .standing("rpm")
            .unwrap()
            .limit,
        10
    );
    assert_eq!(set.overrides(None, usize::MAX).len(), 2_000);
}

#[test]
fn a_verdict_on_more_than_the_keys_limit_is_never() {
    let set = lone(&ManualClock::default());
    set.set_override("acme", &[rpm(3)]).wait().unwrap();
    assert_eq!(set.admit("acme", 4).wait(), Ok(Verdict::Never));
    assert_eq!(set.check("acme", 4).wait().unwrap().most_at_once(), Some(3));
    assert_eq!(set.admit("acme", 3).wait(), Ok(Verdict::Admit));
    let patient = Request::from(2_u64);
    assert!(
        set.peek("acme", patient)
            .wait()
            .unwrap()
            .not_until()
            .is_some()
    );
}

#[test]
fn one_store_serves_sets_with_overrides_of_their_own() {
    let store: Arc<dyn Store> = Arc::<MemoryStore>::default();
    let on = |name: &str| {
        let builder = LimitSet::builder().name(name).limit(rpm(10));
        builder.store(Arc::clone(&store)).build().unwrap()
    };
    let (one, two) = (on("one"), on("two"));
    one.set_override("acme", &[rpm(3)]).wait().unwrap();
    assert_eq!((left(&one, "acme"), left(&two, "acme")), (3, 10));
}
