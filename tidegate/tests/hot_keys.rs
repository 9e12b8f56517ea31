//! A key that a thread asks for again and again is decided in its own cell:
//! faster, and otherwise the same in every respect.

use std::time::Duration;

use tidegate::{Limit, LimitSet, ManualClock, Verdict};

const HOUR: Duration = Duration::from_secs(3_600);

fn set(time: &ManualClock, burst: u64, max_keys: usize) -> LimitSet {
    let builder = LimitSet::builder().limit(Limit::rate("r", burst, HOUR));
    let builder = builder.max_keys(max_keys).clock(time.clock());
    builder.build().expect("a sound limit")
}

fn admitted(set: &LimitSet, key: &str, asks: usize) -> usize {
    let asks = (0..asks).map(|_| set.admit(key, 1).wait().expect("no error"));
    asks.filter(|verdict| verdict.admitted()).count()
}

#[test]
fn a_hot_key_is_granted_exactly_its_limit() {
    let set = set(&ManualClock::default(), 10, 100);
    assert_eq!(admitted(&set, "hot", 30), 10);
    assert!(!set.check("hot", 1).wait().unwrap().admitted());
}

#[test]
fn two_sets_do_not_share_a_hot_key() {
    let time = ManualClock::default();
    let (one, other) = (set(&time, 10, 100), set(&time, 20, 100));
    assert_eq!(admitted(&one, "hot", 30), 10);
    assert_eq!(admitted(&other, "hot", 30), 20);
    assert_eq!(admitted(&one, "hot", 30), 0);
}

#[test]
fn threads_share_a_hot_key() {
    let set = set(&ManualClock::default(), 1_000, 100);
    let granted: usize = std::thread::scope(|scope| {
        let request = |_| scope.spawn(|| admitted(&set, "hot", 600));
        let threads: Vec<_> = (0..4).map(request).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(granted, 1_000);
}

#[test]
fn a_changed_limit_holds_for_a_hot_key_at_once() {
    let set = set(&ManualClock::default(), 10, 100);
    assert_eq!(admitted(&set, "hot", 8), 8);
    set.put_limit(Limit::rate("r", 9, HOUR)).unwrap();
    assert_eq!(admitted(&set, "hot", 30), 1);
    set.put_limit(Limit::rate("r", 29, HOUR)).unwrap();
    assert_eq!(admitted(&set, "hot", 30), 20);
}

#[test]
fn a_reset_holds_for_a_hot_key() {
    let set = set(&ManualClock::default(), 10, 100);
    assert_eq!(admitted(&set, "hot", 30), 10);
    set.reset("hot").wait().unwrap();
    assert_eq!(admitted(&set, "hot", 30), 10);
}

/// What a thread holds is no reason to refuse another key its room.
#[test]
fn a_hot_key_gives_up_its_room_once_it_equals_never_seen() {
    let time = ManualClock::default();
    let set = set(&time, 10, 2);
    assert_eq!(admitted(&set, "hot", 30), 10);
    let handle = set.handle("held").unwrap();
    assert_eq!(handle.admit(1).wait(), Ok(Verdict::Admit));
    assert!(set.admit("cold", 1).wait().is_err());
    time.advance(HOUR);
    assert_eq!(admitted(&set, "cold", 1), 1);
    assert_eq!(admitted(&set, "colder", 1), 1);
    time.advance(HOUR);
    assert_eq!(admitted(&set, "hot", 30), 10);
    assert_eq!(handle.admit(10).wait(), Ok(Verdict::Admit));
}

/// A rate so odd that no 64-bit word holds its arithmetic.
fn odd(burst: u64) -> Limit {
    Limit::rate("r", 999_999_937, Duration::from_secs(1)).burst(burst)
}

#[test]
fn a_rate_that_fits_no_word_is_shared_by_its_handles_and_the_table() {
    let time = ManualClock::default();
    let set = LimitSet::builder().limit(odd(10)).clock(time.clock());
    let set = set.build().expect("a sound limit");
    let (one, other) = (set.handle("hot").unwrap(), set.handle("hot").unwrap());
    assert_eq!(one.admit(3).wait(), Ok(Verdict::Admit));
    assert!(other.check(2).wait().unwrap().admitted());
    assert_eq!(admitted(&set, "hot", 1), 1);
    // A lease may give back: the table has the state for as long.
    let mut lease = set.try_acquire("hot", 4).wait().unwrap().granted().unwrap();
    let full = one.check(1).wait().unwrap();
    assert!(!full.admitted());
    assert_eq!(full.binding(), Some("r"));
    assert_eq!(
        full.standing("r").map(|standing| standing.remaining),
        Some(0)
    );
    lease.settle(&[("r", 1)]).wait().unwrap();
    assert_eq!(
        one.check(2)
            .wait()
            .unwrap()
            .standing("r")
            .unwrap()
            .remaining,
        1
    );
    assert_eq!(other.admit(1).wait(), Ok(Verdict::Admit));
    assert!(!other.admit(1).wait().unwrap().admitted());
    // A changed limit holds for both.
    set.put_limit(odd(12)).unwrap();
    assert_eq!(one.admit(2).wait(), Ok(Verdict::Admit));
    assert!(!one.admit(1).wait().unwrap().admitted());
    set.reset("hot").wait().unwrap();
    assert_eq!(other.admit(12).wait(), Ok(Verdict::Admit));
    drop((one, other));
    assert_eq!(admitted(&set, "hot", 1), 0);
    time.advance(Duration::from_secs(1));
    assert_eq!(admitted(&set, "hot", 30), 12);
}

#[test]
fn a_handle_of_a_rate_that_fits_no_word_gives_up_its_room() {
    let time = ManualClock::default();
    let set = LimitSet::builder().limit(odd(10)).max_keys(1);
    let set = set.clock(time.clock()).build().expect("a sound limit");
    let handle = set.handle("held").unwrap();
    assert_eq!(handle.admit(10).wait(), Ok(Verdict::Admit));
    assert!(set.admit("cold", 1).wait().is_err());
    time.advance(Duration::from_secs(1));
    assert_eq!(admitted(&set, "cold", 1), 1);
    time.advance(Duration::from_secs(1));
    assert_eq!(handle.admit(10).wait(), Ok(Verdict::Admit));
    assert!(!handle.admit(1).wait().unwrap().admitted());
}

#[test]
fn threads_share_a_rate_that_fits_no_word() {
    let time = ManualClock::default();
    let set = LimitSet::builder().limit(odd(1_000)).clock(time.clock());
    let set = set.build().expect("a sound limit");
    let request = || {
        let handle = set.handle("hot").unwrap();
        let asks = (0..600).map(|_| handle.admit(1).wait().expect("no error"));
        asks.filter(|verdict| verdict.admitted()).count()
    };
    let granted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(request)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(granted, 1_000);
}

#[test]
fn a_check_by_handle_answers_as_one_by_key() {
    let time = ManualClock::default();
    let (one, other) = (set(&time, 10, 100), set(&time, 10, 100));
    let handle = one.handle("hot").unwrap();
    for cost in [1, 3, 2, 5, 4, 1] {
        let by_handle = handle.check(cost).wait().unwrap();
        let by_key = other.check("hot", cost).wait().unwrap();
        assert_eq!(by_handle.verdict(), by_key.verdict());
        assert_eq!(by_handle.binding(), by_key.binding());
        assert_eq!(by_handle.standing("r"), by_key.standing("r"));
        time.advance(Duration::from_secs(200));
    }
    assert_eq!(one.statistics(), other.statistics());
    assert_eq!(
        handle.check(11).wait().err(),
        other.check("hot", 11).wait().err()
    );
    assert_eq!(
        handle.check(()).wait().err(),
        other.check("hot", ()).wait().err()
    );
}

/// A thread that ends gives its cells back.
#[test]
fn a_thread_leaves_no_cell_behind() {
    let set = set(&ManualClock::default(), 10, 100);
    std::thread::scope(|scope| {
        let _ = scope.spawn(|| admitted(&set, "hot", 6)).join();
    });
    assert_eq!(admitted(&set, "hot", 30), 4);
    drop(set);
}
