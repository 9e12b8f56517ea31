//! Limits changed while in use, and tables used again.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Algorithm, BuildError, Limit, LimitSet, LimitSetBuilder, ManualClock, Period, Tier, Timestamp,
};
use tidegate::{Store, StoreError};
use tidegate_memory::MemoryStore;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

fn builder(time: &ManualClock, limit: Limit) -> LimitSetBuilder {
    LimitSet::builder().limit(limit).clock(time.clock())
}

fn on(store: &Arc<MemoryStore>, time: &ManualClock, limit: Limit) -> Result<LimitSet, BuildError> {
    let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(store);
    builder(time, limit).store(store).build()
}

/// A key that nobody asks about in the meantime must not drain at the old rate.
#[test]
fn a_raised_rate_fills_idle_keys_from_the_change_on() {
    let time = ManualClock::default();
    let set = builder(&time, Limit::rate("r", 1, DAY).burst(10))
        .build()
        .unwrap();
    assert!(set.check("idle", 10).wait().unwrap().admitted());
    set.put_limit(Limit::rate("r", 24, DAY).burst(10)).unwrap();
    time.advance(10 * HOUR);
    assert!(set.check("idle", 10).wait().unwrap().admitted());
}

#[test]
fn a_lowered_rate_slows_idle_keys_from_the_change_on() {
    let time = ManualClock::default();
    let set = builder(&time, Limit::rate("r", 24, DAY).burst(10))
        .build()
        .unwrap();
    assert!(set.check("idle", 10).wait().unwrap().admitted());
    set.put_limit(Limit::rate("r", 1, DAY).burst(10)).unwrap();
    time.advance(10 * HOUR);
    assert!(!set.check("idle", 1).wait().unwrap().admitted());
}

/// What has left a window is nobody's to give back; the next entry is another's.
#[test]
fn a_lease_whose_charge_has_left_a_log_gives_nothing_back_after_its_window_grew() {
    let time = ManualClock::default();
    let log = |seconds| {
        let limit = Limit::rate("r", 10, Duration::from_secs(seconds));
        limit.algorithm(Algorithm::SlidingLog)
    };
    let set = builder(&time, log(10)).build().unwrap();
    let mut early = set.try_acquire("k", 5).wait().unwrap().granted().unwrap();
    time.advance(Duration::from_secs(12));
    set.put_limit(log(60)).unwrap();
    assert!(
        set.check("k", 10).wait().unwrap().admitted(),
        "what left is gone"
    );
    time.advance(Duration::from_secs(1));
    early.cancel().wait().unwrap();
    let more = set.check("k", 5).wait().unwrap();
    assert!(!more.admitted(), "15 within a second, of 10 in any minute");
}

/// Counts that a window had left stay gone when it grows by more sub-windows.
#[test]
fn stale_and_absent_keys_decide_alike_after_a_sliding_window_grew() {
    let time = ManualClock::default();
    let ring = |seconds: u32| {
        let limit = Limit::rate("r", 10, Duration::from_secs(seconds.into()));
        limit
            .algorithm(Algorithm::SlidingWindow)
            .sub_windows(seconds)
    };
    let set = builder(&time, ring(10)).build().unwrap();
    assert!(set.check("stale", 10).wait().unwrap().admitted());
    time.advance(Duration::from_secs(30));
    set.put_limit(ring(60)).unwrap();
    for key in ["absent", "stale"] {
        assert!(set.check(key, 10).wait().unwrap().admitted(), "{key}");
    }
}

/// The second lease uses 50 of what is now 10, whatever becomes of the first.
#[test]
fn a_lease_cancelled_after_its_limit_was_lowered_frees_nothing_that_another_uses() {
    let rate = |count| Limit::rate("r", count, HOUR);
    let after_lowering = |with_first: bool| {
        let time = ManualClock::default();
        let set = builder(&time, rate(100)).build().unwrap();
        let first = with_first.then(|| set.try_acquire("k", 50).wait().unwrap().granted().unwrap());
        let _second = set.try_acquire("k", 50).wait().unwrap().granted().unwrap();
        set.put_limit(rate(10)).unwrap();
        if let Some(mut first) = first {
            first.cancel().wait().unwrap();
        }
        set.check("k", 10).wait().unwrap().admitted()
    };
    assert!(!after_lowering(false));
    assert!(!after_lowering(true), "as if the first had never been");
}

/// What a lowered limit forgave counts again by a larger one.
#[test]
fn a_limit_lowered_and_raised_again_admits_no_more_than_the_larger_alone() {
    let time = ManualClock::default();
    let rate = |count| Limit::rate("r", count, HOUR);
    let set = builder(&time, rate(40)).build().unwrap();
    let mut admitted = 0;
    for _ in 0..5 {
        while set.check("k", 1).wait().unwrap().admitted() {
            admitted += 1;
        }
        set.put_limit(rate(20)).unwrap();
        assert!(!set.check("k", 1).wait().unwrap().admitted());
        set.put_limit(rate(40)).unwrap();
    }
    assert_eq!(admitted, 40);
    // By the lower one nobody is in debt for what the larger had granted.
    set.put_limit(rate(20)).unwrap();
    time.advance(HOUR / 20);
    assert!(set.check("k", 1).wait().unwrap().admitted());
}

/// 2023-11-14 at noon UTC, a Tuesday.
fn noon() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(1_699_963_200_000_000))
}

#[test]
fn a_budget_by_the_month_changed_to_one_by_the_day_ends_with_the_day() {
    let time = noon();
    let by = |period| Limit::budget("b", 1_000, period);
    let set = builder(&time, by(Period::month("UTC"))).build().unwrap();
    assert!(set.check("k", 1_000).wait().unwrap().admitted());
    set.put_limit(by(Period::day("UTC"))).unwrap();
    time.advance(12 * HOUR - Duration::from_micros(1));
    assert!(!set.check("k", 1).wait().unwrap().admitted());
    time.advance(Duration::from_micros(1));
    assert!(set.check("k", 1_000).wait().unwrap().admitted());
}

#[test]
fn a_window_changed_to_a_budget_by_the_month_is_counted_to_its_end() {
    let time = noon();
    let set = builder(&time, Limit::rate("b", 1_000, 30 * DAY))
        .build()
        .unwrap();
    assert!(set.check("k", 1_000).wait().unwrap().admitted());
    set.put_limit(Limit::budget("b", 1_000, Period::month("UTC")))
        .unwrap();
    time.advance(16 * DAY);
    assert!(!set.check("k", 1).wait().unwrap().admitted());
    time.advance(DAY);
    assert!(set.check("k", 1_000).wait().unwrap().admitted());
}

/// Two sets on one table would undo each other's changes.
#[test]
fn a_table_serves_one_set_at_a_time() {
    let (time, store) = (ManualClock::default(), Arc::default());
    let first = on(&store, &time, Limit::rate("r", 10, HOUR)).unwrap();
    let second = on(&store, &time, Limit::concurrency("s", 1)).unwrap_err();
    assert_eq!(
        second,
        BuildError::Store(StoreError::InUse("default".into()))
    );
    drop(first);
    assert!(on(&store, &time, Limit::concurrency("s", 1)).is_ok());
}

#[test]
fn a_table_used_again_goes_on_by_the_names_of_its_limits() {
    let (time, store) = (ManualClock::default(), Arc::default());
    let first = on(&store, &time, Limit::rate("tokens", 10, HOUR)).unwrap();
    assert!(first.check("k", 8).wait().unwrap().admitted());
    drop(first);
    let limits = [
        Limit::rate("other", 10, HOUR),
        Limit::rate("tokens", 12, HOUR),
    ];
    let again = LimitSet::builder().limits(limits).clock(time.clock());
    let again = again.store(store as Arc<dyn Store>).build().unwrap();
    let decision = again.peek("k", 1).wait().unwrap();
    assert_eq!(decision.standing("tokens").unwrap().remaining, 4);
    assert_eq!(decision.standing("other").unwrap().remaining, 10);
}

#[test]
fn a_burst_where_there_can_be_none_is_an_error() {
    let monthly = Limit::budget("b", 10, Period::month("UTC")).burst(20);
    assert!(matches!(
        LimitSet::new([monthly]),
        Err(BuildError::Limit { .. })
    ));
    let held = Limit::concurrency("s", 10).burst(20);
    assert!(matches!(
        LimitSet::new([held]),
        Err(BuildError::Limit { .. })
    ));
}

/// What is kept by the old levels would not be found by the new ones: every
/// budget would be granted again.
#[test]
fn a_table_used_again_with_other_levels_is_an_error() {
    let (time, store) = (ManualClock::default(), Arc::<MemoryStore>::default());
    let first = on(&store, &time, Limit::rate("r", 10, HOUR)).unwrap();
    assert!(first.check("acme/alice", 10).wait().unwrap().admitted());
    drop(first);
    let deeper = builder(&time, Limit::rate("r", 10, HOUR)).levels(["org", "user"]);
    let store_too = Arc::<MemoryStore>::clone(&store) as Arc<dyn Store>;
    let other = StoreError::OtherLevels {
        name: "default".into(),
        kept: 1,
        wanted: 2,
    };
    let refused = deeper.store(store_too).build().unwrap_err();
    assert_eq!(refused, BuildError::Store(other));
    let again = on(&store, &time, Limit::rate("r", 10, HOUR)).unwrap();
    assert!(!again.check("acme/alice", 1).wait().unwrap().admitted());
}

/// They keep the limits that they have seen, and go by the newest all the same.
#[test]
fn a_handle_and_a_lease_from_before_a_change_go_by_the_new_limits() {
    let time = ManualClock::default();
    let old = [Limit::rate("r", 10, DAY), Limit::concurrency("c", 5)];
    let set = LimitSet::builder().limits(old).clock(time.clock());
    let set = set.build().unwrap();
    let handle = set.handle("k").unwrap();
    let take = |amount| handle.try_acquire(amount).wait().unwrap().granted();
    let mut lease = take(4).unwrap();
    set.put_limit(Limit::rate("r", 5, DAY)).unwrap();
    set.put_limit(Limit::rate("later", 100, DAY)).unwrap();
    assert!(take(2).is_none(), "4 of 5 are in use");
    // What it settles by is known to the new limits alone.
    lease.settle(&[("r", 1), ("later", 30)]).wait().unwrap();
    let remaining = |name| set.peek("k", 1).wait().unwrap().remaining(name);
    assert_eq!((remaining("r"), remaining("later")), (Some(4), Some(70)));
    assert!(take(5).is_none());
    let mut lease = take(4).unwrap();
    set.set_override("k", &[Limit::rate("r", 50, DAY)])
        .wait()
        .unwrap();
    assert!(take(40).is_some());
    lease.cancel().wait().unwrap();
}

#[test]
fn a_handle_in_a_tier_spends_grants_and_goes_by_the_new_limits() {
    let time = ManualClock::default();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let builder = builder(&time, Limit::rate("r", 100, DAY)).store(store);
    let set = builder.tier(Tier::leased(10)).build().unwrap();
    let handle = set.handle("k").unwrap();
    let admits = || handle.check(1).wait().unwrap().admitted();
    assert!((0..20).all(|_| admits()) && handle.admit(1).wait().unwrap().admitted());
    let counted = set.tier_statistics().unwrap();
    assert_eq!((counted.admitted, counted.requested), (21, 3));
    let (by_handle, by_key) = (handle.check(1).wait(), set.check("k", 1).wait());
    let left = |told: tidegate::Decision| told.remaining("r").unwrap();
    assert_eq!((left(by_handle.unwrap()), left(by_key.unwrap())), (78, 77));
    assert_eq!(set.statistics().admitted, 22, "the lean one is not counted");
    set.put_limit(Limit::rate("r", 50, DAY)).unwrap();
    assert_eq!((0..100).filter(|_| admits()).count(), 27);
    set.put_limit(Limit::rate("r", 100, DAY)).unwrap();
    set.put_limit(Limit::rate("s", 10, DAY)).unwrap();
    let told = handle.check(1).wait().unwrap();
    assert_eq!(
        (told.remaining("r"), told.remaining("s")),
        (Some(49), Some(9))
    );
    assert_eq!((0..100).filter(|_| admits()).count(), 9);
    set.set_override("k", &[Limit::rate("s", 12, DAY)])
        .wait()
        .unwrap();
    assert_eq!((0..100).filter(|_| admits()).count(), 2);
}

/// What remains of a lone bucket is computed for who asks.
#[test]
fn what_remains_is_what_the_standing_says() {
    let time = ManualClock::default();
    let wide = Duration::from_micros(3_600_000_011);
    let windows = Limit::rate("r", 90, DAY).algorithm(Algorithm::SlidingLog);
    let prime = Limit::rate("r", 999_999_999_989, wide);
    for limit in [Limit::rate("r", 90, DAY), prime, windows] {
        let set = builder(&time, limit).build().unwrap();
        let handle = set.handle("k").unwrap();
        for amount in [1, 40, 40, 40] {
            time.advance(Duration::from_millis(1));
            for decision in [handle.check(amount).wait(), set.check("k", amount).wait()] {
                let decision = decision.unwrap();
                let standing = decision.standing("r").unwrap();
                assert_eq!(decision.remaining("r"), Some(standing.remaining));
                assert_eq!(decision.standings().collect::<Vec<_>>(), [("r", standing)]);
                assert_eq!(
                    (decision.remaining("s"), decision.standing("s")),
                    (None, None)
                );
            }
        }
    }
}
