//! What a lease holds, how it ends, and what is left of it afterwards.

use std::time::Duration;

use tidegate::StoreError;
use tidegate::{
    DecisionError, Lease, LeaseError, Limit, LimitSet, LimitSetBuilder, ManualClock, Request,
    RequestError, Usage,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

fn builder(time: &ManualClock) -> LimitSetBuilder {
    LimitSet::builder().clock(time.clock())
}

fn calls_and_tokens(time: &ManualClock) -> LimitSet {
    let limits = [
        Limit::calls("calls", 10, HOUR),
        Limit::rate("tpm", 1_000, HOUR),
    ];
    builder(time).limits(limits).build().unwrap()
}

fn take<'a>(set: &LimitSet, request: impl Into<Request<'a>>) -> Lease {
    let admission = set.try_acquire("k", request).wait().expect("no error");
    admission.granted().expect("it fits")
}

fn left(set: &LimitSet, limit: &str) -> u64 {
    let standings = set.peek("k", 1).wait().expect("no error");
    standings.standing(limit).expect("it is there").remaining
}

/// Survey of peers, 5: "adjust on a limit not consumed at first is dropped".
#[test]
fn use_of_a_limit_that_was_not_taken_is_charged_at_settlement() {
    let set = calls_and_tokens(&ManualClock::default());
    let mut lease = take(&set, &[("calls", 1), ("tpm", 0)]);
    let settlement = lease.settle(&[("tpm", 400)]).wait().unwrap();
    let untaken = Usage {
        taken: 0,
        used: 400,
    };
    assert_eq!(settlement.usage("tpm"), Some(untaken));
    assert_eq!(left(&set, "tpm"), 600);
}

#[test]
fn a_lease_is_settled_and_adjusted_by_cost_as_it_was_asked_for() {
    let time = ManualClock::default();
    let limits = [
        Limit::calls("calls", 10, HOUR),
        Limit::rate("tpm", 1_000, HOUR),
        Limit::budget("daily", 5_000, HOUR),
        Limit::concurrency("running", 2),
    ];
    let set = builder(&time).limits(limits).build().unwrap();
    let all_left = || ["calls", "tpm", "daily", "running"].map(|limit| left(&set, limit));

    let mut lease = take(&set, 400);
    lease.adjust(500).wait().unwrap();
    assert_eq!(all_left(), [9, 500, 4_500, 1]);
    let settlement = lease.settle(120).wait().unwrap();
    let of_cost = Usage {
        taken: 500,
        used: 120,
    };
    assert_eq!(settlement.usage("tpm"), Some(of_cost));
    assert_eq!(all_left(), [9, 880, 4_880, 2]);

    // A name goes before the cost, as in asking; with neither all was used as taken.
    let mut lease = take(&set, 100);
    lease
        .settle(Request::named(&[("daily", 7)]).cost(30))
        .wait()
        .unwrap();
    assert_eq!(all_left(), [8, 850, 4_873, 2]);
    take(&set, 100).settle(()).wait().unwrap();
    assert_eq!(all_left(), [7, 750, 4_773, 2]);

    let mut lease = take(&set, 100);
    let id = lease.id();
    let too_much = lease.settle(u64::MAX).wait();
    assert!(
        matches!(
            too_much,
            Err(LeaseError::Request(RequestError::Amount { .. }))
        ),
        "{too_much:?}"
    );
    set.settle("k", id, 10).wait().unwrap();
    assert_eq!(all_left(), [6, 740, 4_763, 2]);
}

#[test]
fn use_of_a_limit_added_meanwhile_is_charged_at_settlement() {
    let set = calls_and_tokens(&ManualClock::default());
    let mut lease = take(&set, 10);
    set.put_limit(Limit::rate("cents", 100, HOUR)).unwrap();
    lease.settle(&[("cents", 30)]).wait().unwrap();
    assert_eq!(left(&set, "cents"), 70);
}

#[test]
fn the_same_idempotency_key_gives_the_same_lease() {
    let set = calls_and_tokens(&ManualClock::default());
    let request = || Request::from(100).idempotency(b"request 1");
    let (first, again) = (take(&set, request()), take(&set, request()));
    assert_eq!(first.id(), again.id());
    assert!(!first.is_repeated() && again.is_repeated());
    assert_eq!(left(&set, "tpm"), 900);
    let other = take(&set, Request::from(100).idempotency(b"request 2"));
    assert_ne!(other.id(), first.id());
}

#[test]
fn when_a_lease_was_granted_stays_as_it_was() {
    let time = ManualClock::default();
    let set = calls_and_tokens(&time);
    let request = || Request::from(100).idempotency(b"request 1");
    let granted_at = set.now();
    let mut lease = take(&set, request());
    assert_eq!(lease.granted_at(), granted_at);
    time.advance(SECOND);
    lease.renew(HOUR).wait().expect("it is held");
    time.advance(SECOND);
    let adjusted = lease.adjust(&[("tpm", 200)]).wait();
    assert!(adjusted.expect("it is held").admitted());
    assert_eq!(lease.granted_at(), granted_at);
    assert_eq!(take(&set, request()).granted_at(), granted_at);
    assert_eq!(take(&set, 1).granted_at(), set.now());
}

#[test]
fn dropping_a_repeated_lease_takes_nothing_from_its_first_holder() {
    let set = builder(&ManualClock::default());
    let set = set.limit(Limit::concurrency("slots", 1)).build().unwrap();
    let request = || Request::default().idempotency(b"once");
    let mut first = take(&set, request());
    drop(take(&set, request()));
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_none());
    first.release().wait().unwrap();
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_some());
}

/// A lease that has ended is never handed out as held: the retry asks anew.
#[test]
fn a_retry_after_the_end_is_an_ask_like_any_other() {
    let set = calls_and_tokens(&ManualClock::default());
    let request = || Request::from(100).idempotency(b"once");
    let mut first = take(&set, request());
    first.settle(&[("tpm", 40)]).wait().unwrap();
    let again = take(&set, request());
    assert!(!again.is_repeated());
    assert_ne!(again.id(), first.id());
    assert_eq!(left(&set, "tpm"), 860);
    let repeated = set.settle("k", first.id(), &[("tpm", 500)]).wait().unwrap();
    assert!(repeated.repeated(), "its first answer is remembered");
    let used = repeated.usage("tpm").map(|usage| usage.used);
    assert_eq!((used, left(&set, "tpm")), (Some(40), 860));
}

#[test]
fn a_reset_leaves_held_slots_to_their_holders() {
    let time = ManualClock::default();
    let set = builder(&time).limit(Limit::concurrency("mutex", 1));
    let set = set.build().unwrap();
    let mut held = take(&set, ());
    set.reset("k").wait().unwrap();
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_none());
    assert!(held.renew(SECOND).wait().is_ok());
    let fence = held.fence();
    drop(held);
    assert!(take(&set, ()).fence() > fence);
}

#[test]
fn a_lease_from_before_a_reset_gives_nothing_back_after_it() {
    let set = builder(&ManualClock::default());
    let limit = Limit::rate("tpm", 100, HOUR).algorithm(tidegate::Algorithm::FixedWindow);
    let set = set.limit(limit).build().unwrap();
    let mut before = take(&set, 100);
    set.reset("k").wait().unwrap();
    let _after = take(&set, 100);
    before.settle(&[("tpm", 0)]).wait().unwrap();
    assert_eq!(left(&set, "tpm"), 0);
}

#[test]
fn a_lease_lasts_from_a_millisecond_to_400_days() {
    let set = calls_and_tokens(&ManualClock::default());
    let day = 24 * HOUR;
    for length in [Duration::ZERO, Duration::from_micros(999), 401 * day] {
        let error = set
            .try_acquire("k", Request::from(1).ttl(length))
            .wait()
            .unwrap_err();
        assert_eq!(
            error,
            DecisionError::Request(RequestError::LeaseLength(length))
        );
        let error = set
            .acquire("k", Request::from(1).ttl(length))
            .wait()
            .unwrap_err();
        assert_eq!(
            error,
            DecisionError::Request(RequestError::LeaseLength(length))
        );
    }
    let mut lease = take(&set, Request::from(1).ttl(400 * day));
    assert_eq!(
        lease.renew(Duration::ZERO).wait(),
        Err(LeaseError::Request(RequestError::LeaseLength(
            Duration::ZERO
        )))
    );
    assert_eq!(left(&set, "calls"), 9);
}

#[test]
fn no_more_leases_are_held_than_there_is_room_for() {
    let time = ManualClock::default();
    let set = builder(&time).limit(Limit::rate("r", 1_000, SECOND));
    let set = set.max_leases(10).build().unwrap();
    let key = |number: usize| format!("key {number}");
    let held: Vec<_> = (0..10)
        .map(|n| {
            set.try_acquire(&key(n), 1)
                .wait()
                .unwrap()
                .granted()
                .unwrap()
        })
        .collect();
    let full = set.try_acquire(&key(11), 1).wait().unwrap_err();
    assert_eq!(
        full,
        DecisionError::Store(StoreError::LeasesFull { max_leases: 10 })
    );
    assert_eq!(set.count().wait().map(|all| all.keys), Ok(10));
    drop(held);
    assert!(
        set.try_acquire(&key(11), 1)
            .wait()
            .unwrap()
            .granted()
            .is_some()
    );
}

/// A full store refuses new keys, but charges a debt that is owed all the same.
#[test]
fn a_full_store_still_answers_peeks_and_settles() {
    let time = ManualClock::default();
    let set = builder(&time).limit(Limit::rate("r", 10, SECOND));
    let set = set.max_keys(1).build().unwrap();
    let request = Request::from(1).ttl(HOUR);
    let mut lease = set
        .try_acquire("a", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    time.advance(SECOND);
    assert!(set.check("b", 10).wait().unwrap().admitted());
    assert!(set.peek("c", 1).wait().unwrap().admitted());
    assert!(set.check("c", 1).wait().is_err());
    lease.settle(&[("r", 21)]).wait().unwrap();
    assert_eq!(
        set.peek("a", 1).wait().unwrap().standing("r").unwrap().debt,
        10
    );
}

#[test]
fn a_key_that_is_too_short_for_every_limit_asked_is_an_error() {
    let levels = builder(&ManualClock::default()).levels(["org", "user"]);
    let levels = levels.partial_keys();
    let limits = [
        Limit::calls("each", 1, HOUR),
        Limit::rate("all", 10, HOUR).at_level("org"),
    ];
    let set = levels.limits(limits).build().unwrap();
    let short = set.check("acme", &[("each", 1)]).wait().unwrap_err();
    assert_eq!(
        short,
        DecisionError::Request(RequestError::KeyTooShort {
            depth: 1,
            levels: 2
        })
    );
    assert!(set.check("acme", &[("all", 1)]).wait().unwrap().admitted());
    assert!(
        set.check("acme/alice", &[("each", 1)])
            .wait()
            .unwrap()
            .admitted()
    );
}

/// Its key does not reach there: nothing more is charged, and it is told all the same.
#[test]
fn what_was_taken_of_a_limit_that_moved_to_another_level_is_told() {
    let limit = |name: &str, level: &str| Limit::rate(name, 100, HOUR).at_level(level);
    let set = builder(&ManualClock::default())
        .levels(["org", "user"])
        .partial_keys()
        .limits([limit("a", "org"), limit("b", "org")])
        .build()
        .unwrap();
    let lease = set.try_acquire("acme", 5).wait().unwrap().granted();
    set.put_limit(limit("b", "user")).unwrap();
    let settled = lease.unwrap().settle(3).wait().unwrap();
    let usage = |taken, used| Some(Usage { taken, used });
    assert_eq!(settled.usage("a"), usage(5, 3));
    assert_eq!(settled.usage("b"), usage(5, 5));
}
