//! What comes back of a lease that ends late: nothing that has drained since.
//! In sets of one bucket and of several limits, by key and by handle.

use std::time::Duration;

use tidegate::{Lease, Limit, LimitSet, LimitSetBuilder, ManualClock, OnFailure, Request, Usage};

const SECOND: Duration = Duration::from_secs(1);
const HALF: Duration = Duration::from_millis(500);

fn ten_a_second() -> Limit {
    Limit::rate("r", 10, SECOND)
}

fn builder(time: &ManualClock) -> LimitSetBuilder {
    LimitSet::builder()
        .limit(ten_a_second())
        .clock(time.clock())
}

fn lone(time: &ManualClock) -> LimitSet {
    builder(time).build().expect("a sound limit")
}

fn beside_another(time: &ManualClock) -> LimitSet {
    let other = Limit::concurrency("running", 1_000);
    builder(time).limit(other).build().expect("sound limits")
}

fn take(set: &LimitSet, key: &str, amount: u64) -> Lease {
    let admission = set.try_acquire(key, amount).wait().expect("no error");
    admission.granted().expect("it fits")
}

fn left(set: &LimitSet, key: &str) -> u64 {
    let standings = set.peek(key, &[("r", 1)]).wait().expect("no error");
    standings.standing("r").expect("it is there").remaining
}

/// It used to: two others then used twenty in an instant, of a burst of ten.
#[test]
fn a_lease_that_settles_late_gives_back_nothing_that_has_drained() {
    for shape in [lone, beside_another] {
        let time = ManualClock::default();
        let set = shape(&time);
        let mut first = take(&set, "k", 10);
        time.advance(SECOND);
        let mut second = take(&set, "k", 10);
        let settlement = first.settle(&[("r", 0)]).wait().unwrap();
        assert_eq!(settlement.usage("r"), Some(Usage { taken: 10, used: 0 }));
        assert_eq!(left(&set, "k"), 0);
        second.settle(&[("r", 4)]).wait().unwrap();
        assert_eq!(left(&set, "k"), 6);
    }
}

/// A burst a second could be banked in leases, and spent in one instant.
#[test]
fn a_hundred_unused_leases_bank_no_burst() {
    for shape in [lone, beside_another] {
        let time = ManualClock::default();
        let set = shape(&time);
        let grant = |_| {
            time.advance(SECOND);
            take(&set, "k", 10)
        };
        let held: Vec<Lease> = (0..100).map(grant).collect();
        for mut lease in held {
            lease.cancel().wait().unwrap();
        }
        // The last one's own, which nobody has used.
        assert_eq!(left(&set, "k"), 10);
        take(&set, "k", 10).release().wait().unwrap();
        assert_eq!(left(&set, "k"), 0);
    }
}

#[test]
fn a_lease_that_expires_unused_gives_back_nothing_that_has_drained() {
    let time = ManualClock::default();
    let limit = ten_a_second().on_failure(OnFailure::Refund);
    let builder = LimitSet::builder().limit(limit).clock(time.clock());
    let set = builder.build().unwrap();
    let _held = set
        .try_acquire("k", Request::from(10).ttl(SECOND))
        .wait()
        .unwrap();
    time.advance(HALF);
    assert_eq!(
        set.admit("k", 5).wait().map(|verdict| verdict.admitted()),
        Ok(true)
    );
    time.advance(HALF);
    assert_eq!(left(&set, "k"), 10);
}

/// The cell of a handle cannot hold what a refund goes by: while it matters,
/// the handle asks the table, and sees what everyone sees.
#[test]
fn a_handle_and_leases_share_a_key() {
    let time = ManualClock::default();
    let set = lone(&time);
    let before = set.handle("k").unwrap();
    assert!(before.admit(2).wait().unwrap().admitted());
    let mut lease = take(&set, "k", 6);
    let after = set.handle("k").unwrap();
    assert!(before.admit(1).wait().unwrap().admitted());
    assert!(after.admit(1).wait().unwrap().admitted());
    assert!(!before.admit(1).wait().unwrap().admitted());
    drop(before);
    lease.settle(&[("r", 1)]).wait().unwrap();
    assert_eq!(left(&set, "k"), 5);
    assert!(after.admit(5).wait().unwrap().admitted());
    time.advance(SECOND);
    assert!(after.admit(10).wait().unwrap().admitted());
    assert!(!after.admit(1).wait().unwrap().admitted());
    drop(after);
    assert_eq!(left(&set, "k"), 0);
}

/// The last handle of a key goes while a lease may give back; a new one comes.
#[test]
fn what_may_come_back_outlives_the_handles_of_its_key() {
    let time = ManualClock::default();
    let set = lone(&time);
    let handle = set.handle("k").unwrap();
    let mut first = take(&set, "k", 6);
    drop(handle);
    time.advance(HALF);
    let handle = set.handle("k").unwrap();
    assert!(handle.admit(9).wait().unwrap().admitted());
    first.cancel().wait().unwrap();
    assert_eq!(left(&set, "k"), 1);
    drop(handle);
    assert_eq!(left(&set, "k"), 1);
}

#[test]
fn what_may_come_back_outlives_a_change_of_limits() {
    let time = ManualClock::default();
    let set = lone(&time);
    let handle = set.handle("k").unwrap();
    let mut lease = take(&set, "k", 8);
    time.advance(HALF);
    set.put_limit(Limit::rate("r", 30, SECOND).burst(10))
        .unwrap();
    assert!(handle.admit(7).wait().unwrap().admitted());
    lease.settle(&[("r", 0)]).wait().unwrap();
    assert_eq!(left(&set, "k"), 3);
    let mut lease = take(&set, "k", 3);
    set.put_limit(Limit::concurrency("running", 5)).unwrap();
    lease.cancel().wait().unwrap();
    assert_eq!(left(&set, "k"), 3);
}

/// Keys of which only leases were taken are dropped like any others, whether a
/// handle shares them or not.
#[test]
fn keys_of_leases_give_up_their_room_once_they_equal_never_seen() {
    let time = ManualClock::default();
    let set = builder(&time).max_keys(2).build().unwrap();
    let handle = set.handle("shared").unwrap();
    let mut leases = [take(&set, "alone", 10), take(&set, "shared", 10)];
    assert!(set.admit("new", 1).wait().is_err());
    time.advance(SECOND);
    assert!(set.admit("new", 10).wait().unwrap().admitted());
    assert!(set.admit("newer", 10).wait().unwrap().admitted());
    time.advance(SECOND);
    assert!(handle.admit(10).wait().unwrap().admitted());
    for lease in &mut leases {
        lease.cancel().wait().unwrap();
    }
    assert!(!handle.admit(1).wait().unwrap().admitted());
}

/// A lease of before a reset used to be given back at its expiry all the same.
#[test]
fn a_lease_of_before_a_reset_gives_nothing_back_at_its_expiry() {
    let time = ManualClock::default();
    let limit = Limit::budget("r", 10, Duration::from_secs(60)).on_failure(OnFailure::Refund);
    let builder = LimitSet::builder().limit(limit).clock(time.clock());
    let set = builder.build().unwrap();
    let _held = set
        .try_acquire("k", Request::from(10).ttl(SECOND))
        .wait()
        .unwrap();
    set.reset("k").wait().unwrap();
    take(&set, "k", 10).release().wait().unwrap();
    time.advance(SECOND);
    assert_eq!(left(&set, "k"), 0);
}
