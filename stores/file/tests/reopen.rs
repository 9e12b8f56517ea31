//! What was decided before a file was closed still holds when it is opened again.

mod support;

use std::time::Duration;

use support::{Place, limits, remaining, set};
use tidegate::{Algorithm, BuildError, Lease, Limit, LimitSet, LimitSetBuilder, ManualClock};
use tidegate::{PageOf, Request, Select, Store, StoreError};
use tidegate_core::{Span, Timestamp};
use tidegate_file::SyncMode;

const MINUTE: Duration = Duration::from_secs(60);

fn take(set: &LimitSet, key: &str) -> Lease {
    let admission = set.try_acquire(key, 1).wait().expect("no error");
    admission.granted().expect("room")
}

fn spend(set: &LimitSet, key: &str, amount: u64) {
    let ask = [
        ("budget", amount),
        ("slots", 0),
        ("calls", u64::from(amount < 7)),
    ];
    let known = set.limits();
    let known = |name: &str| known.iter().any(|limit| limit.name() == name);
    let ask: Vec<_> = ask.into_iter().filter(|(name, _)| known(name)).collect();
    assert!(
        set.check(key, &ask[..])
            .wait()
            .expect("no error")
            .admitted()
    );
}

#[test]
fn budgets_go_on_where_they_stood() {
    let (place, clock) = (Place::new(), ManualClock::default());
    {
        let set = set(place.open(), &clock, limits());
        spend(&set, "alice", 7);
        assert_eq!(remaining(&set, "alice", "budget"), 3);
    }
    let set = set(place.open(), &clock, limits());
    assert_eq!(remaining(&set, "alice", "budget"), 3);
    assert_eq!(remaining(&set, "bob", "budget"), 10);
}

/// A sub-window of a microsecond each: what is accepted must not make the file, with
/// every policy in it, unreadable.
#[test]
fn a_window_with_as_many_sub_windows_as_microseconds_is_read_back() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let limit = Limit::rate("r", 10, Duration::from_millis(2))
        .algorithm(Algorithm::SlidingWindow)
        .sub_windows(2_000);
    let set_again = || set(place.open(), &clock, vec![limit.clone()]);
    assert!(
        set_again()
            .check("k", 10)
            .wait()
            .expect("no error")
            .admitted()
    );
    assert!(
        !set_again()
            .check("k", 1)
            .wait()
            .expect("no error")
            .admitted()
    );
}

/// One bucket alone was locked for as long as the clock had gone back, since what it is packed as
/// does not say when it was written.
#[test]
fn a_clock_that_was_set_back_meanwhile_locks_nothing_for_longer_than_its_refill() {
    let start = Timestamp::from_micros(1_700_000_000_000_000);
    let kinds = [
        Limit::rate("r", 60, MINUTE),
        Limit::rate("r", 60, MINUTE).algorithm(Algorithm::FixedWindow),
        Limit::rate("r", 60, MINUTE).algorithm(Algorithm::SlidingWindow),
        Limit::rate("r", 60, MINUTE).algorithm(Algorithm::SlidingLog),
    ];
    for kind in kinds {
        let place = Place::new();
        let used = set(
            place.open(),
            &ManualClock::starting_at(start),
            vec![kind.clone()],
        );
        assert!(used.check("k", 60).wait().expect("no error").admitted());
        drop(used);
        let back = ManualClock::starting_at(start - Span::from_secs(7_200));
        let used = set(place.open(), &back, vec![kind.clone()]);
        assert!(!used.check("k", 60).wait().expect("no error").admitted());
        back.advance(2 * MINUTE);
        assert!(
            used.check("k", 60).wait().expect("no error").admitted(),
            "{kind:?}"
        );
    }
}

#[test]
fn every_algorithm_goes_on_where_it_stood() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let hour = Duration::from_secs(3_600);
    let all = || {
        vec![
            Limit::rate("bucket", 10, hour),
            Limit::budget("window", 10, hour),
            Limit::rate("ring", 10, hour)
                .algorithm(Algorithm::SlidingWindow)
                .sub_windows(7),
            Limit::rate("log", 10, hour)
                .algorithm(Algorithm::SlidingLog)
                .max_entries(9),
            Limit::concurrency("slots", 10).ttl(MINUTE),
        ]
    };
    let names = ["bucket", "window", "ring", "log", "slots"];
    let left = |set: &LimitSet| names.map(|name| remaining(set, "k", name));
    let before = {
        let set = set(place.open(), &clock, all());
        set.try_acquire("k", 4)
            .wait()
            .expect("no error")
            .granted()
            .expect("room")
            .detach();
        clock.advance(MINUTE / 2);
        left(&set)
    };
    assert_eq!(before, [6, 6, 6, 6, 9]);
    let set = set(place.open(), &clock, all());
    assert_eq!(left(&set), before);
}

#[test]
fn a_key_of_a_single_bucket_goes_on_where_it_stood() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let single_bucket = || vec![Limit::calls("rps", 5, Duration::from_secs(5))];
    for left in [4, 3, 2] {
        let set = set(place.open(), &clock, single_bucket());
        let handle = set.handle("k").expect("a key");
        assert!(handle.admit(1).wait().expect("no error").admitted());
        assert_eq!(remaining(&set, "k", "rps"), left);
    }
    clock.advance(Duration::from_secs(1));
    let set = set(place.open(), &clock, single_bucket());
    assert_eq!(remaining(&set, "k", "rps"), 3);
}

#[test]
fn a_lease_is_settled_after_its_file_was_opened_again() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let id = {
        let set = set(place.open(), &clock, limits());
        set.try_acquire("alice", 5)
            .wait()
            .expect("no error")
            .granted()
            .expect("room")
            .detach()
    };
    {
        let set = set(place.open(), &clock, limits());
        assert_eq!(remaining(&set, "alice", "slots"), 1);
        let settlement = set
            .settle("alice", id, &[("budget", 2)])
            .wait()
            .expect("live");
        assert!(!settlement.repeated() && !settlement.expired());
        assert_eq!(remaining(&set, "alice", "slots"), 2);
        assert_eq!(remaining(&set, "alice", "budget"), 8);
    }
    let set = set(place.open(), &clock, limits());
    let again = set
        .settle("alice", id, &[("budget", 9)])
        .wait()
        .expect("remembered");
    assert!(again.repeated());
    assert_eq!(again.usage("budget").expect("a use").used, 2);
    assert_eq!(remaining(&set, "alice", "budget"), 8);
}

#[test]
fn a_lease_that_expired_meanwhile_gives_its_slots_back() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let id = {
        let set = set(place.open(), &clock, limits());
        take(&set, "alice").detach()
    };
    clock.advance(MINUTE);
    let set = set(place.open(), &clock, limits());
    assert_eq!(remaining(&set, "alice", "slots"), 2);
    let settlement = set
        .settle("alice", id, &[("budget", 3)])
        .wait()
        .expect("remembered");
    assert!(settlement.expired());
    assert_eq!(remaining(&set, "alice", "budget"), 7);
}

#[test]
fn an_idempotent_ask_gives_the_same_lease_after_its_file_was_opened_again() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let ask = Request::from(1).idempotency(b"once");
    let ask_for = |set: &LimitSet| {
        let admission = set.try_acquire("alice", ask).wait().expect("no error");
        admission.granted().expect("room")
    };
    let first = ask_for(&set(place.open(), &clock, limits())).detach();
    let set = set(place.open(), &clock, limits());
    let again = ask_for(&set);
    assert!(again.is_repeated());
    assert_eq!(again.id(), first);
    assert_eq!(remaining(&set, "alice", "budget"), 9);
}

#[test]
fn fences_grow_although_the_clock_was_set_back_meanwhile() {
    let place = Place::new();
    let noon = Timestamp::from_micros(1_767_268_800_000_000);
    let before = {
        let clock = ManualClock::starting_at(noon);
        let set = set(place.open(), &clock, limits());
        ["alice", "bob"].map(|key| take(&set, key).fence())
    };
    let clock = ManualClock::starting_at(noon - Span::from_secs(3_600));
    let set = set(place.open(), &clock, limits());
    for key in ["alice", "bob", "a key never seen"] {
        let fence = take(&set, key).fence();
        assert!(
            before.iter().all(|earlier| fence > *earlier),
            "{key}: {fence:?}"
        );
    }
}

/// Fences that are lost with the last interval are not given again either.
#[test]
fn fences_grow_beyond_those_that_are_lost_although_the_clock_was_set_back() {
    let place = Place::new();
    let noon = Timestamp::from_micros(1_767_268_800_000_000);
    let by_hand = SyncMode::Interval(Duration::from_secs(60));
    let clock = ManualClock::starting_at(noon);
    let store = support::open(&place.path(), by_hand).expect("a new file");
    let set = support::set(store.clone(), &clock, limits());
    take(&set, "alice").release().wait().expect("live");
    store.flush().expect("room on the disk");
    let killed = place.path().with_extension("killed");
    std::fs::copy(place.path(), &killed).expect("room on the disk");
    clock.advance(Duration::from_secs(59));
    let lost = ["alice", "bob"].map(|key| take(&set, key).fence());
    let clock = ManualClock::starting_at(noon - Span::from_secs(3_600));
    let store = support::open(&killed, by_hand).expect("a file that opens");
    let set = support::set(store, &clock, limits());
    for key in ["alice", "bob", "a key never seen"] {
        let fence = take(&set, key).fence();
        assert!(lost.iter().all(|lost| fence > *lost), "{key}: {fence:?}");
    }
}

#[test]
fn a_clock_set_back_meanwhile_admits_nothing_more() {
    let place = Place::new();
    let noon = Timestamp::from_micros(1_767_268_800_000_000);
    let limits = || {
        vec![
            Limit::calls("rps", 10, Duration::from_secs(1)),
            Limit::concurrency("slots", 10),
        ]
    };
    {
        let set = set(place.open(), &ManualClock::starting_at(noon), limits());
        assert!(
            set.check("k", &[("rps", 10), ("slots", 0)])
                .wait()
                .expect("no error")
                .admitted()
        );
    }
    for back in [1, 500, 3_600_000_u64] {
        let then = noon - Span::from_micros(back * 1_000);
        let set = set(place.open(), &ManualClock::starting_at(then), limits());
        assert!(
            !set.check("k", &[("rps", 1), ("slots", 0)])
                .wait()
                .expect("no error")
                .admitted()
        );
    }
}

#[test]
fn limits_changed_before_and_after_keep_what_was_used() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let day = Duration::from_secs(86_400);
    {
        let set = set(place.open(), &clock, limits());
        spend(&set, "alice", 7);
        set.put_limit(Limit::budget("budget", 20, day))
            .expect("a change");
        assert_eq!(remaining(&set, "alice", "budget"), 13);
        set.put_limit(Limit::calls("calls", 3, day))
            .expect("a change");
        spend(&set, "alice", 1);
    }
    let other = || {
        vec![
            Limit::calls("calls", 4, day),
            Limit::budget("budget", 30, day),
        ]
    };
    {
        let set = set(place.open(), &clock, other());
        assert_eq!(remaining(&set, "alice", "budget"), 22);
        assert_eq!(remaining(&set, "alice", "calls"), 3);
    }
    let set = set(place.open(), &clock, other());
    assert_eq!(remaining(&set, "alice", "budget"), 22);
}

#[test]
fn a_reset_is_kept() {
    let (place, clock) = (Place::new(), ManualClock::default());
    {
        let set = set(place.open(), &clock, limits());
        spend(&set, "alice", 10);
        set.reset("alice").wait().expect("no error");
    }
    let set = set(place.open(), &clock, limits());
    assert_eq!(remaining(&set, "alice", "budget"), 10);
}

#[test]
fn ancestors_go_on_where_they_stood() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let day = Duration::from_secs(86_400);
    let open = || {
        LimitSet::builder()
            .levels(["org", "user"])
            .limit(Limit::budget("of the org", 10, day).at_level("org"))
            .limit(Limit::budget("of the user", 4, day).at_level("user"))
            .clock(clock.clock())
            .store(place.open())
            .build()
            .expect("sensible limits")
    };
    {
        let set = open();
        assert!(
            set.check("acme/alice", 3)
                .wait()
                .expect("no error")
                .admitted()
        );
        assert!(
            set.check("acme/bob", 2)
                .wait()
                .expect("no error")
                .admitted()
        );
    }
    let set = open();
    assert_eq!(remaining(&set, "acme/alice", "of the org"), 5);
    assert_eq!(remaining(&set, "acme/alice", "of the user"), 1);
    assert_eq!(remaining(&set, "acme/bob", "of the user"), 2);
}

#[test]
fn a_set_opened_with_other_levels_is_an_error_and_loses_nothing() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let day = Duration::from_secs(86_400);
    let flat = || set(place.open(), &clock, vec![Limit::budget("b", 10, day)]);
    assert!(
        flat()
            .check("acme/alice", 3)
            .wait()
            .expect("no error")
            .admitted()
    );
    let levels = LimitSet::builder()
        .name("set")
        .levels(["org", "user"])
        .limit(Limit::budget("b", 10, day).at_level("org"))
        .clock(clock.clock())
        .store(place.open());
    assert!(levels.build().is_err());
    assert_eq!(remaining(&flat(), "acme/alice", "b"), 7);
}

#[test]
fn what_is_spent_is_deleted() {
    let (place, clock) = (Place::new(), ManualClock::default());
    {
        let set = set(place.open(), &clock, limits());
        for key in 0..100 {
            take(&set, &key.to_string()).cancel().wait().expect("live");
        }
        clock.advance(2 * Duration::from_secs(86_400));
        spend(&set, "last", 1);
    }
    {
        // Here they are found to be spent, and are deleted.
        let set = set(place.open(), &clock, limits());
        spend(&set, "last", 1);
        let rows = set.count().wait().expect("no error").keys;
        assert!(rows <= 65, "{rows}");
    }
}

/// By limits that no longer count they were kept for good, and listed again.
#[test]
fn what_was_used_goes_when_it_would_have_gone_though_nothing_is_counted_any_more() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let open = |keep: Option<Duration>| {
        let set = LimitSet::builder().name("set").limits(limits());
        let set = set.clock(clock.clock()).store(place.open());
        let set = keep.into_iter().fold(set, LimitSetBuilder::keep_usage);
        set.build().expect("sensible limits")
    };
    let used = |set: &LimitSet| {
        let page = PageOf {
            select: Select::All,
            after: None,
            most: 100,
        };
        let page = set.list_usage(page, Timestamp::MIN, Timestamp::MAX);
        let items = page.wait().expect("a page").items.into_iter();
        items.map(|used| used.amount).sum::<u64>()
    };
    {
        let set = open(Some(60 * MINUTE));
        (0..9).for_each(|key| spend(&set, &key.to_string(), 1));
        assert_eq!(used(&set), 9);
    }
    {
        let set = open(None);
        spend(&set, "later", 1);
        assert_eq!(used(&set), 9, "it is not over yet");
    }
    clock.advance(180 * MINUTE);
    for _ in 0..2 {
        let set = open(None);
        assert_eq!(used(&set), 0);
        spend(&set, "later", 1);
    }
}

#[test]
fn a_table_is_used_by_one_set_at_a_time() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let store = place.open();
    let first = set(store.clone(), &clock, limits());
    let second = LimitSet::builder()
        .name("set")
        .limits(limits())
        .store(store.clone())
        .build();
    assert!(matches!(
        second.err(),
        Some(BuildError::Store(StoreError::InUse(_)))
    ));
    drop(first);
    set(store, &clock, limits());
}

#[test]
fn a_file_becomes_smaller_when_what_it_held_is_spent() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let store = support::open(&place.path(), SyncMode::Never).expect("a new file");
    let day = Duration::from_secs(86_400);
    let set = set(store.clone(), &clock, vec![Limit::budget("budget", 5, day)]);
    (0..3_000).for_each(|key| spend(&set, &key.to_string(), 1));
    store.flush().expect("room on the disk");
    let length = || std::fs::metadata(place.path()).expect("a file").len();
    let before = length();
    (0..2_999).for_each(|key| set.reset(&key.to_string()).wait().expect("no error"));
    store.flush().expect("room on the disk");
    assert!(store.compact().expect("room on the disk"));
    assert!(length() < before, "{before} became {}", length());
    assert_eq!(remaining(&set, "2999", "budget"), 4);
}

/// What nobody asks any more is deleted from the file, some of it at a time; a set
/// of that name begins anew, at once and later.
#[test]
fn a_table_that_is_forgotten_is_deleted() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let others = |store| {
        let set = LimitSet::builder().name("other").limits(limits());
        let set = set.clock(clock.clock()).store(store).build();
        set.expect("sensible limits")
    };
    {
        let store = support::open(&place.path(), SyncMode::Never).expect("a new file");
        let (gone, other) = (set(store.clone(), &clock, limits()), others(store.clone()));
        spend(&other, "k", 3);
        for key in 0..10_000 {
            let key = key.to_string();
            let id = take(&gone, &key).detach();
            gone.release(&key, id).wait().expect("held");
        }
        store.flush().expect("room on the disk");
        store.forget("set");
        assert_eq!(store.names(), ["other"]);
        let anew = set(store.clone(), &clock, limits());
        assert_eq!(
            (
                remaining(&anew, "1", "budget"),
                anew.count().wait().map(|all| all.keys)
            ),
            (10, Ok(0))
        );
        spend(&anew, "1", 2);
        spend(&gone, "2", 1);
    }
    let store = place.open();
    assert_eq!(store.names(), ["other", "set"]);
    {
        let anew = set(store.clone(), &clock, limits());
        assert_eq!(
            (
                remaining(&anew, "1", "budget"),
                anew.count().wait().map(|all| all.keys)
            ),
            (8, Ok(1))
        );
        assert_eq!(remaining(&others(store.clone()), "k", "budget"), 7);
        store.forget("set");
    }
    // A group deletes some of it, and what is left is deleted by the next.
    (0..5).for_each(|_| store.flush().expect("room on the disk"));
    drop(store);
    assert_eq!(place.open().names(), ["other"]);
}

#[test]
fn ten_thousand_keys_of_a_single_bucket_go_on_where_they_stood() {
    let place = Place::new();
    let single_bucket = || vec![Limit::calls("rps", 1_000, Duration::from_secs(86_400))];
    let open = || {
        let store = support::open(&place.path(), SyncMode::Never).expect("a file that opens");
        let set = LimitSet::builder().limits(single_bucket()).store(store);
        set.build().expect("sensible limits")
    };
    {
        let set = open();
        for key in 0..10_000 {
            assert!(
                set.admit(&key.to_string(), 1)
                    .wait()
                    .expect("no error")
                    .admitted()
            );
        }
    }
    let set = open();
    assert_eq!(set.count().wait().map(|all| all.keys), Ok(10_000));
}
