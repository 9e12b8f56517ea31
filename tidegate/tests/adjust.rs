//! A lease that is adjusted: more, all or nothing; less; into debt.

mod support;

use std::future::IntoFuture;
use std::time::Duration;

use support::Polled;
use tidegate::{
    Key, LeaseError, Limit, LimitPool, LimitSet, ManualClock, Request, RequestError, Timestamp,
    Usage,
};

const HOUR: Duration = Duration::from_secs(3_600);
const MINUTE: Duration = Duration::from_secs(60);

fn tokens_and_slots(time: &ManualClock) -> LimitSet {
    let set = LimitSet::builder().clock(time.clock());
    let set = set.limit(Limit::budget("tokens", 1_000, HOUR));
    let set = set.limit(Limit::concurrency("slots", 4));
    set.build().expect("sound limits")
}

fn left(set: &LimitSet, limit: &str) -> u64 {
    let standings = set.peek("k", 1).wait().expect("no error");
    standings.standing(limit).expect("it is there").remaining
}

/// A stream reserves as it grows, and pays for what it used.
#[test]
fn a_stream_takes_more_as_it_grows_and_settles_what_it_used() {
    let set = tokens_and_slots(&ManualClock::default());
    let request = [("tokens", 100), ("slots", 1)];
    let admission = set.try_acquire("k", &request).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    for tokens in [200, 300, 400] {
        let grown = lease.adjust(&[("tokens", tokens)]).wait();
        assert!(grown.expect("no error").admitted());
        assert_eq!(left(&set, "tokens"), 1_000 - tokens);
    }
    let settled = lease.settle(&[("tokens", 350)]).wait().expect("held");
    let usage = Usage {
        taken: 400,
        used: 350,
    };
    assert_eq!(settled.usage("tokens"), Some(usage));
    assert_eq!((left(&set, "tokens"), left(&set, "slots")), (650, 4));
}

#[test]
fn a_refusal_says_when_more_would_fit_and_changes_nothing() {
    let time = ManualClock::default();
    let set = tokens_and_slots(&time);
    let request = || Request::from(&[("tokens", 600), ("slots", 2)]).ttl(HOUR * 2);
    let admission = set.try_acquire("k", request()).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    assert!(set.debit("k", &[("tokens", 300)]).wait().is_ok());
    let refused = lease.adjust(&[("tokens", 701), ("slots", 3)]).wait();
    let refused = refused.expect("no error");
    assert_eq!(refused.binding(), Some("tokens"));
    let at = refused.not_until().expect("an instant");
    assert_eq!((left(&set, "tokens"), left(&set, "slots")), (100, 2));
    time.set(at);
    let more = lease.adjust(&[("tokens", 701), ("slots", 3)]).wait();
    assert!(more.expect("no error").admitted());
    assert_eq!((left(&set, "tokens"), left(&set, "slots")), (899, 1));
}

#[test]
fn what_is_used_already_becomes_debt() {
    let set = tokens_and_slots(&ManualClock::default());
    let request = [("tokens", 900), ("slots", 1)];
    let admission = set.try_acquire("k", &request).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    let over = lease.overdraw(&[("tokens", 1_200)]).wait().expect("held");
    assert!(over.admitted());
    assert_eq!(over.standing("tokens").expect("it is there").debt, 200);
    let slots = lease.overdraw(&[("slots", 5)]).wait().expect("held");
    assert_eq!((slots.is_never(), slots.most_at_once()), (true, Some(4)));
    lease.cancel().wait().expect("held");
    assert_eq!((left(&set, "tokens"), left(&set, "slots")), (1_000, 4));
}

#[test]
fn bad_input_is_an_error_and_changes_nothing() {
    let set = tokens_and_slots(&ManualClock::default());
    let request = [("tokens", 100), ("slots", 1)];
    let admission = set.try_acquire("k", &request).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    let mut adjust = |to: &[(&str, u64)]| lease.adjust(to).wait().map(|d| d.admitted());
    assert!(matches!(
        adjust(&[("pages", 1)]),
        Err(LeaseError::Request(RequestError::UnknownLimit { .. }))
    ));
    let twice = adjust(&[("tokens", 1), ("tokens", 2)]);
    assert!(
        matches!(twice, Err(LeaseError::Request(RequestError::NamedTwice(_)))),
        "{twice:?}"
    );
    let much = adjust(&[("tokens", u64::MAX)]);
    assert!(
        matches!(much, Err(LeaseError::Request(RequestError::Amount { .. }))),
        "{much:?}"
    );
    let never = adjust(&[("tokens", 1_101)]).expect("a refusal is an answer");
    assert!(!never);
    assert!(adjust(&[]).expect("nothing is asked"));
    assert_eq!((left(&set, "tokens"), left(&set, "slots")), (900, 3));
    let id = lease.id();
    let other = set.adjust("other", id, &[("tokens", 1)]).wait();
    let unknown = Err(LeaseError::Unknown);
    assert_eq!(other.map(drop), unknown);
    lease.release().wait().expect("held");
    let over = set.adjust("k", id, &[("tokens", 1)]).wait().map(drop);
    assert_eq!(over, unknown, "it is over, and was not to be remembered");
}

/// By a retry that does not know whether the first was heard.
#[test]
fn by_id_and_twice_it_is_the_same() {
    let set = tokens_and_slots(&ManualClock::default());
    let request = [("tokens", 100), ("slots", 1)];
    let admission = set.try_acquire("k", &request).wait().expect("no error");
    let id = admission.granted().expect("it fits").detach();
    for _ in 0..2 {
        let adjusted = set.adjust("k", id, &[("tokens", 500), ("slots", 3)]).wait();
        assert!(adjusted.expect("held").admitted());
        assert_eq!((left(&set, "tokens"), left(&set, "slots")), (500, 1));
    }
    let over = set.overdraw("k", id, &[("tokens", 2_000)]).wait();
    assert!(over.expect("held").admitted());
    set.cancel("k", id).wait().expect("held");
    assert_eq!((left(&set, "tokens"), left(&set, "slots")), (1_000, 4));
}

/// What one lease lets go of is what the next in line waits for.
#[test]
fn less_wakes_who_waits() {
    let set = tokens_and_slots(&ManualClock::default());
    let all = [("tokens", 1), ("slots", 4)];
    let admission = set.try_acquire("k", &all).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    let request = Request::from(&[("tokens", 1), ("slots", 3)]).within(MINUTE);
    let mut waits = Polled::waiting(set.acquire("k", request).into_future());
    // Who holds a part does not stand behind those who hold nothing.
    for slots in [2, 4, 2] {
        let adjusted = lease.adjust(&[("slots", slots)]).wait();
        assert!(adjusted.expect("held").admitted());
        assert!(waits.granted().is_none(), "three are not free");
    }
    waits.woken();
    let less = lease.adjust(&[("slots", 1)]).wait();
    assert!(less.expect("held").admitted());
    assert!(waits.woken());
    assert!(waits.granted().is_some());
}

#[test]
fn a_pools_lease_is_adjusted_at_the_member_that_gave_it() {
    let time = ManualClock::default();
    let (one, two) = (tokens_and_slots(&time), tokens_and_slots(&time));
    let pool = LimitPool::builder().member("one", one.clone());
    let pool = pool.member("two", two.clone()).build().expect("a pool");
    let request = [("tokens", 100), ("slots", 1)];
    let admission = pool
        .try_acquire(Key::from("k"), &request)
        .wait()
        .expect("no error");
    let mut lease = admission.granted().expect("it fits");
    let decision = lease.adjust(&[("tokens", 700)]).wait().expect("held");
    assert_eq!(decision.member(), lease.member());
    let (its, others) = match lease.member() {
        Some("one") => (&one, &two),
        _ => (&two, &one),
    };
    assert_eq!((left(its, "tokens"), left(others, "tokens")), (300, 1_000));
}

/// Less comes back in any case: also where others hold more than there now is.
#[test]
fn less_of_lowered_slots_is_given_back() {
    let set = LimitSet::new([Limit::concurrency("slots", 10)]).expect("a sound limit");
    let request = [("slots", 5)];
    let admit = || {
        set.try_acquire("k", &request)
            .wait()
            .expect("no error")
            .granted()
    };
    let (mut one, other) = (admit().expect("it fits"), admit().expect("it fits"));
    set.put_limit(Limit::concurrency("slots", 4))
        .expect("sound");
    let less = one.adjust(&[("slots", 3)]).wait().expect("held");
    assert!(less.admitted(), "{less:?}");
    drop(other);
}

#[test]
fn less_than_before_and_more_than_there_is_now_is_no_error() {
    let set = LimitSet::new([Limit::concurrency("slots", 10)]).expect("a sound limit");
    let request = [("slots", 8)];
    let admission = set.try_acquire("k", &request).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    set.put_limit(Limit::concurrency("slots", 4))
        .expect("sound");
    let less = lease.adjust(&[("slots", 6)]).wait();
    assert!(less.is_ok(), "{less:?}");
}

/// With tokens beside: they come back too, and do not.
#[test]
fn a_stream_that_ends_early_gives_its_tokens_back() {
    let set = LimitSet::new([
        Limit::budget("tokens", 1_000, HOUR),
        Limit::concurrency("slots", 10),
    ]);
    let set = set.expect("sound limits");
    let request = [("tokens", 100), ("slots", 8)];
    let admission = set.try_acquire("k", &request).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    set.put_limit(Limit::concurrency("slots", 4))
        .expect("sound");
    let less = lease.overdraw(&[("tokens", 10), ("slots", 6)]).wait();
    assert!(less.is_ok(), "{less:?}");
}

/// A key that reaches one level of two.
#[test]
fn all_of_a_short_keys_tokens_are_given_back() {
    let time = ManualClock::default();
    let set = LimitSet::builder()
        .levels(["org", "user"])
        .partial_keys()
        .clock(time.clock());
    let set = set.limit(Limit::budget("tokens", 100, HOUR).at_level("org"));
    let set = set.limit(Limit::budget("own", 100, HOUR).at_level("user"));
    let set = set.build().expect("sound limits");
    let request = [("tokens", 10)];
    let admission = set.try_acquire("acme", &request).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    assert!(
        lease
            .adjust(&[("tokens", 1)])
            .wait()
            .expect("held")
            .admitted()
    );
    let none = lease.adjust(&[("tokens", 0)]).wait();
    assert!(none.is_ok_and(|decision| decision.admitted()));
}

/// A clock that steps back locks no slots up for longer than their own time to live.
#[test]
fn an_adjusted_leases_slots_come_back_on_a_clock_that_stepped_back() {
    let time = ManualClock::default();
    let set = LimitSet::builder().clock(time.clock());
    let slots = Limit::concurrency("slots", 4).ttl(Duration::from_secs(10));
    let set = set.limit(slots).build().expect("a sound limit");
    let left = || {
        let peek = set.peek("k", 1).wait().expect("no error");
        peek.standing("slots").expect("it is there").remaining
    };
    time.set(Timestamp::from_micros(100_000_000_000));
    let admission = set.try_acquire("k", 1).wait().expect("no error");
    let id = admission.granted().expect("it fits").detach();
    time.set(Timestamp::from_micros(50_000_000_000));
    assert_eq!(left(), 3);
    let adjusted = set.adjust("k", id, &[("slots", 2)]).wait();
    assert!(adjusted.expect("held").admitted());
    time.set(Timestamp::from_micros(50_010_000_001));
    assert_eq!(left(), 4);
}

/// A key that reaches one level of two, and a cost for all of its rates.
#[test]
fn a_short_keys_lease_is_adjusted_by_the_cost_that_it_was_asked_for_with() {
    let time = ManualClock::default();
    let set = LimitSet::builder()
        .levels(["org", "user"])
        .partial_keys()
        .clock(time.clock());
    let set = set.limit(Limit::budget("tokens", 100, HOUR).at_level("org"));
    let set = set.limit(Limit::budget("own", 100, HOUR).at_level("user"));
    let set = set.build().expect("sound limits");
    let admission = set.try_acquire("acme", 10).wait().expect("no error");
    let mut lease = admission.granted().expect("it fits");
    let more = lease.adjust(20).wait();
    let same = lease.adjust(10).wait();
    assert!(more.is_ok_and(|decision| decision.admitted()));
    assert!(same.is_ok_and(|decision| decision.admitted()));
    lease.settle(15).wait().expect("it is held");
    let left = set.peek("acme", 1).wait().expect("a peek");
    assert_eq!(left.standing("tokens").map(|now| now.remaining), Some(85));
}

/// Each change is booked where it was charged; what is told is one sum.
#[test]
fn a_lease_that_grew_twice_is_settled_as_one() {
    let time = ManualClock::default();
    let day = Duration::from_secs(86_400);
    let limits = [Limit::rate("tpm", 100, day), Limit::rate("other", 100, day)];
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    let set = set.build().unwrap();
    let mut lease = set.try_acquire("k", 10).wait().unwrap().granted().unwrap();
    for to in [30, 50] {
        time.advance(Duration::from_micros(1));
        let changed = lease.adjust(&[("tpm", to)]).wait().unwrap();
        assert!(changed.admitted());
    }
    let settled = lease.settle(&[("tpm", 5)]).wait().unwrap();
    let told: Vec<_> = settled
        .usages()
        .map(|(name, one)| (name, one.taken, one.used))
        .collect();
    assert_eq!(told, [("tpm", 50, 5), ("other", 10, 10)]);
    let left = set.peek("k", 1).wait().unwrap();
    assert_eq!(
        (left.remaining("tpm"), left.remaining("other")),
        (Some(95), Some(90))
    );
}
