//! Who is admitted, who is refused and until when, and what that changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use proptest::prelude::*;
use tidegate::StoreError;
use tidegate::{
    Admission, Algorithm, Clock, DecisionError, Handle, Lease, Limit, LimitSet, ManualClock,
    Request, Timestamp, Verdict,
};

use crate::history::{KEYS, builder, cases, faces, live, micros, past, rate, sets};

/// Full of keys or of leases.
fn is_full(error: &DecisionError) -> bool {
    matches!(
        error,
        DecisionError::Store(StoreError::KeysFull { .. } | StoreError::LeasesFull { .. })
    )
}

/// One ask, by any of the ways that there are; `None` if the store is full.
fn ask(set: &LimitSet, handles: &[Handle], way: u8, key: usize, amount: u64) -> Option<Verdict> {
    let name = format!("key {key}");
    let answer = match way {
        0 => set.admit(&name, amount).wait(),
        1 => handles[key % handles.len()].admit(amount).wait(),
        2 => set
            .check(&name, amount)
            .wait()
            .map(|decision| decision.verdict()),
        _ => set.try_acquire(&name, amount).wait().map(|a| match a {
            Admission::Granted(_) => Verdict::Admit,
            Admission::Refused(decision) => decision.verdict(),
        }),
    };
    match answer {
        Err(error) if is_full(&error) => None,
        answer => Some(answer.unwrap_or(Verdict::Never)),
    }
}

proptest! {
    #![proptest_config(cases())]

    /// A set of few keys, which must drop what is spent, beside one that never
    /// has to: the same answers, unless the first says that it is full.
    #[test]
    fn stale_state_and_absent_state_decide_alike(
        limit in rate("r"),
        asks in prop::collection::vec((0_u8..4, 0_usize..7, 1_u64..6, 0_u64..2_500), 1..60),
    ) {
        let time = ManualClock::default();
        let few = builder(&time, vec![limit.clone()]).max_keys(3).build().unwrap();
        let many = builder(&time, vec![limit]).build().unwrap();
        let handles = |set: &LimitSet| vec![set.handle("key 0").unwrap()];
        let (near, far) = (handles(&few), handles(&many));
        for (way, key, amount, gap) in asks {
            time.advance(micros(gap));
            let key = if way == 1 { 0 } else { key };
            if let Some(answer) = ask(&few, &near, way, key, amount) {
                prop_assert_eq!(Some(answer), ask(&many, &far, way, key, amount));
            }
        }
        prop_assert!(few.count().wait().unwrap().keys <= 3);
    }

    /// Neither rows, nor keys, nor the queue, nor what is remembered of leases.
    #[test]
    fn a_refusal_changes_nothing(limits in sets(), past in past(), key in 0..KEYS.len()) {
        let time = ManualClock::default();
        let set = builder(&time, limits).build().unwrap();
        let held = live(&set, &time, &past);
        let (before, keys) = (faces(&set), set.count().wait().map(|all| all.keys));
        let refused = |amount| {
            let request = Request::from(amount).idempotency(b"refused");
            !set.try_acquire(KEYS[key], request).wait().is_ok_and(|a| a.granted().is_some())
        };
        let first = (1..20).find(|&amount| refused(amount));
        let Some(amount) = first.filter(|&amount| amount == 1) else { return Ok(()) };
        prop_assert!(refused(amount));
        prop_assert_eq!(set.count().wait().map(|all| all.keys), keys);
        prop_assert_eq!(faces(&set), before);
        prop_assert_eq!(set.statistics().waiting, 0);
        ends_all(&time, held)?;
        let again = Request::from(1).idempotency(b"refused");
        if let Admission::Granted(lease) = set.try_acquire(KEYS[key], again).wait().unwrap() {
            prop_assert!(!lease.is_repeated(), "a refusal was remembered as a lease");
        }
    }

    #[test]
    fn the_instant_reported_is_exact(
        limits in sets(), past in past(), key in 0..KEYS.len(), amount in 1_u64..9,
    ) {
        let time = ManualClock::default();
        let set = builder(&time, limits).build().unwrap();
        // What is held is lost: nothing comes back but by itself.
        let _lost = std::mem::ManuallyDrop::new(live(&set, &time, &past));
        let admitted = || set.try_acquire(KEYS[key], amount).wait().map(Admission::refused);
        let Ok(Some(refusal)) = admitted() else { return Ok(()) };
        let Some(at) = refusal.not_until() else {
            prop_assert!(refusal.is_never());
            return Ok(());
        };
        time.set(Timestamp::from_micros(at.as_micros() - 1));
        let early = admitted().unwrap().expect("a microsecond before");
        prop_assert_eq!(early.not_until(), Some(at));
        time.set(at);
        prop_assert!(admitted().unwrap().is_none(), "at the instant");
    }

    #[test]
    fn in_any_window_at_most_burst_plus_rate_is_admitted(
        count in 1_u64..9, period in 1_000_u64..5_000, burst in 1_u64..9,
        asks in prop::collection::vec((0_u8..4, 1_u64..4, 0_u64..900), 1..60),
    ) {
        let bucket = Limit::rate("r", count, micros(period)).burst(burst);
        let grants = grants(bucket, &asks);
        for (first, from) in grants.iter().enumerate() {
            let mut sum = 0;
            for to in &grants[first..] {
                sum += to.1;
                prop_assert!(sum * period <= burst * period + (to.0 - from.0) * count);
            }
        }
    }

    #[test]
    fn in_any_rolling_window_at_most_the_capacity_is_admitted(
        count in 1_u64..9, period in 1_000_u64..5_000, log in any::<bool>(),
        asks in prop::collection::vec((0_u8..4, 1_u64..4, 0_u64..900), 1..60),
    ) {
        let algorithm = if log { Algorithm::SlidingLog } else { Algorithm::SlidingWindow };
        let grants = grants(Limit::rate("r", count, micros(period)).algorithm(algorithm), &asks);
        for (first, from) in grants.iter().enumerate() {
            let within = grants[first..].iter().filter(|to| to.0 - from.0 < period);
            prop_assert!(within.map(|to| to.1).sum::<u64>() <= count);
        }
    }

    /// A clock of the user's own, which steps back at every other reading.
    #[test]
    fn a_clock_that_steps_back_admits_nothing_more_and_locks_nobody_up(
        count in 1_u64..9, burst in 1_u64..9,
        steps in prop::collection::vec((0_i64..2_000, 0_i64..9_000_000), 1..40),
    ) {
        let wall = Arc::new(AtomicI64::new(1_700_000_000_000_000));
        let theirs = Arc::clone(&wall);
        let clock = Clock::custom(move || Timestamp::from_micros(theirs.load(Ordering::SeqCst)));
        let limit = Limit::rate("r", count, micros(1_000)).burst(burst);
        let set = LimitSet::builder().limit(limit).clock(clock).build().unwrap();
        let handle = set.handle("k").unwrap();
        let (mut granted, mut elapsed) = (0, 0);
        for (forward, back) in steps {
            wall.fetch_add(forward, Ordering::SeqCst);
            elapsed += forward as u64;
            while handle.admit(1).wait().unwrap().admitted() {
                granted += 1;
            }
            prop_assert!(granted * 1_000 <= burst * 1_000 + elapsed * count);
            wall.fetch_sub(back, Ordering::SeqCst);
            prop_assert!(!handle.admit(1).wait().unwrap().admitted(), "the step back itself");
        }
        let refill = (burst * 1_000).div_ceil(count) as i64;
        wall.fetch_add(refill, Ordering::SeqCst);
        prop_assert!(handle.admit(burst).wait().unwrap().admitted());
    }

    /// Keys that are used, and keys nobody asks about in the meantime.
    #[test]
    fn raising_a_limit_delays_no_one(
        limit in rate("each"), more in 0_u64..5, past in past(), wait in 0_u64..6_000,
    ) {
        let time = ManualClock::default();
        let make = || builder(&time, vec![limit.clone()]).build().unwrap();
        let (raised, kept) = (make(), make());
        for &(_, key, amount, gap) in &past {
            time.advance(micros(gap));
            for set in [&raised, &kept] {
                let _ = set.debit(KEYS[key], amount).wait();
            }
        }
        raised.put_limit(limit.clone().with_capacity(limit.capacity() + more)).unwrap();
        time.advance(micros(wait));
        for key in KEYS {
            let ours = raised.peek(key, 1).wait().unwrap();
            let theirs = kept.peek(key, 1).wait().unwrap();
            prop_assert!(!ours.verdict().outlasts(theirs.verdict()));
            let left = |d: &tidegate::Decision| d.standing("each").unwrap().remaining;
            prop_assert!(left(&ours) >= left(&theirs));
        }
    }

    /// On a set in use: a typed error, no panic, and everything as it was.
    #[test]
    fn bad_input_is_a_typed_error_and_changes_nothing(
        limits in sets(), past in past(), key in 0..KEYS.len(),
        huge in prop_oneof![(1_u64 << 53)..u64::MAX, Just(u64::MAX)],
        large in 100_u64..(1 << 53),
    ) {
        let time = ManualClock::default();
        let set = builder(&time, limits).build().unwrap();
        let mut held = live(&set, &time, &past);
        let before = faces(&set);
        for wrong in wrongs(&set, KEYS[key], huge) {
            prop_assert!(!matches!(wrong, DecisionError::Store(_)), "{:?}", wrong);
        }
        // What no limit ever grants is no mistake, but an answer; nobody waits for it.
        for request in [Request::from(large), Request::named(&[("few", 99)])] {
            let never = set.acquire(KEYS[key], request).wait().unwrap().refused();
            prop_assert!(never.is_some_and(|refusal| refusal.is_never()));
        }
        for lease in &mut held {
            prop_assert!(lease.settle(&[("nobody", 1)]).wait().is_err());
            prop_assert!(lease.settle(&[("each", 1 << 53)]).wait().is_err());
            prop_assert!(lease.renew(micros(0)).wait().is_err());
        }
        prop_assert_eq!(faces(&set), before);
        prop_assert_eq!(set.statistics().waiting, 0);
        ends_all(&time, held)?;
    }
}

/// What is asked of a set by mistake, one after the other.
fn wrongs(set: &LimitSet, key: &str, huge: u64) -> Vec<DecisionError> {
    let handle = set.handle(key).unwrap();
    let asks = [
        Request::from(huge),
        Request::from(1).ttl(micros(0)),
        Request::named(&[("nobody", 1)]),
        Request::named(&[("few", 0), ("many", 0), ("all", 0), ("each", 0)]),
        Request::named(&[("each", 1), ("each", 1)]),
    ];
    let mut wrongs = Vec::new();
    for request in asks {
        wrongs.push(set.try_acquire(key, request).wait().expect_err("a mistake"));
        wrongs.push(
            set.acquire(key, request)
                .wait()
                .expect_err("a mistake, and no wait"),
        );
        wrongs.push(set.check(key, request).wait().expect_err("a mistake"));
    }
    wrongs.push(set.admit(key, huge).wait().expect_err("a mistake"));
    wrongs.push(handle.admit(huge).wait().expect_err("a mistake"));
    wrongs.push(handle.admit(0).wait().expect_err("a mistake"));
    for bad in ["", "/", "acme/", "/alice"] {
        wrongs.push(set.try_acquire(bad, 1).wait().expect_err("no key"));
        wrongs.push(set.handle(bad).expect_err("no key").into());
    }
    wrongs
}

/// Every lease is still there to be ended, once.
fn ends_all(time: &ManualClock, held: Vec<Lease>) -> Result<(), TestCaseError> {
    let now = time.clock().now();
    for mut lease in held {
        let expired = lease.expires_at() <= now;
        let settlement = lease.settle(()).wait().expect("as it was held");
        prop_assert_eq!(
            (settlement.expired(), settlement.repeated()),
            (expired, false)
        );
    }
    Ok(())
}

/// When `limit` granted how much, by every way there is to ask.
fn grants(limit: Limit, asks: &[(u8, u64, u64)]) -> Vec<(u64, u64)> {
    let time = ManualClock::default();
    let set = builder(&time, vec![limit]).build().unwrap();
    let handles = [set.handle("key 0").unwrap()];
    let (mut elapsed, mut grants) = (0, Vec::new());
    for &(way, amount, gap) in asks {
        time.advance(micros(gap));
        elapsed += gap;
        if ask(&set, &handles, way, 0, amount) == Some(Verdict::Admit) {
            grants.push((elapsed, amount));
        }
    }
    grants
}

#[test]
fn all_or_nothing_across_limits_keys_and_ancestors() {
    let limits = vec![
        Limit::rate("all", 9, micros(1_000)).at_level("org"),
        Limit::rate("each", 9, micros(1_000)),
        Limit::concurrency("few", 9),
    ];
    let set = builder(&ManualClock::default(), limits);
    let set = set
        .max_keys(3)
        .max_keys_per_root(3)
        .max_leases(2)
        .max_leases_per_root(2)
        .build()
        .unwrap();
    let mut held = vec![
        set.try_acquire(KEYS[0], 9)
            .wait()
            .unwrap()
            .granted()
            .unwrap(),
    ];
    let face = faces(&set);
    // Room for the organisation, and none for its member.
    let full = DecisionError::Store(StoreError::KeysFull { max_keys: 3 });
    assert_eq!(set.try_acquire(KEYS[2], 1).wait().unwrap_err(), full);
    // Refused by the ancestor, by the key, and by neither but the leases' room.
    assert!(
        set.try_acquire(KEYS[1], 1)
            .wait()
            .unwrap()
            .granted()
            .is_none()
    );
    assert!(
        set.try_acquire(KEYS[0], 1)
            .wait()
            .unwrap()
            .granted()
            .is_none()
    );
    let free = [("all", 0), ("each", 0), ("few", 1)];
    held.extend(set.try_acquire(KEYS[0], &free).wait().unwrap().granted());
    let full = DecisionError::Store(StoreError::LeasesFull { max_leases: 2 });
    assert_eq!(set.try_acquire(KEYS[0], &free).wait().unwrap_err(), full);
    drop(held);
    let (after, left) = (faces(&set), |face: &[(String, tidegate::Standing)]| {
        face.iter().map(|(_, s)| s.remaining).collect::<Vec<_>>()
    });
    assert_eq!([left(&face[0]), left(&after[0])], [[0, 0, 8], [0, 0, 9]]);
    assert_eq!(left(&after[1]), [0, 9, 9]);
    assert_eq!(left(&after[2]), [9, 9, 9]);
}
