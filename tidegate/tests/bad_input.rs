//! Bad input is a typed error; nothing changes and nothing panics.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::KeyError;
use tidegate::{
    Algorithm, BuildError, DecisionError, LeaseError, Limit, LimitError, LimitPool, LimitSet,
    MAX_IDEMPOTENCY_KEY, ManualClock, OnFailure, Period, Request, RequestError, Unit,
};

const SECOND: Duration = Duration::from_secs(1);

fn set() -> LimitSet {
    let time = ManualClock::default();
    let limits = [Limit::rate("r", 10, SECOND), Limit::concurrency("slots", 2)];
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    builder.build().expect("sensible limits")
}

fn build_error(limit: Limit) -> BuildError {
    LimitSet::new([limit]).expect_err("no sensible limit")
}

#[test]
fn limits_that_make_no_sense_are_refused_by_name_and_parameter() {
    let day = Duration::from_secs(86_400);
    let senseless = [
        (Limit::rate("x", 0, SECOND), "amount"),
        (Limit::rate("x", 1 << 53, SECOND), "amount"),
        (Limit::rate("x", 1, SECOND).burst(0), "burst"),
        (Limit::rate("x", 1, Duration::ZERO), "period"),
        (Limit::rate("x", 1, Duration::from_micros(999)), "period"),
        (Limit::rate("x", 1, 401 * day), "period"),
        (Limit::budget("x", 0, SECOND), "capacity"),
        (Limit::concurrency("x", 0), "capacity"),
        (Limit::concurrency("x", 1).ttl(Duration::ZERO), "ttl"),
        (Limit::concurrency("x", 1).ttl(Duration::MAX), "ttl"),
        (
            Limit::rate("x", 1, SECOND)
                .algorithm(Algorithm::SlidingWindow)
                .sub_windows(0),
            "sub_windows",
        ),
        (
            Limit::rate("x", 1, SECOND)
                .algorithm(Algorithm::SlidingLog)
                .max_entries(1),
            "max_entries",
        ),
    ];
    for (limit, parameter) in senseless {
        let said = build_error(limit).to_string();
        assert!(said.contains("`x`") && said.contains(parameter), "{said}");
    }
    build_error(Limit::rate("", 1, SECOND));
    build_error(Limit::rate("x", 1, SECOND).at_level("nowhere"));
    build_error(Limit::rate("x", 1, Period::day("UTC")).algorithm(Algorithm::SlidingLog));
    build_error(Limit::budget("x", 1, SECOND).burst(2));
    let said = |limit| build_error(limit).to_string();
    let period = said(Limit::rate("x", 1, Duration::from_micros(999)));
    assert!(
        period.contains("period is 999us; it must be 1ms to 400 days"),
        "{period}"
    );
}

/// But for a burst they were passed over.
#[test]
fn a_setting_that_means_nothing_to_a_limit_of_its_kind_is_an_error() {
    let calls = || Limit::calls("x", 2, SECOND);
    let rate = || Limit::rate("x", 2, SECOND);
    let budget = || Limit::budget("x", 2, SECOND);
    let slots = || Limit::concurrency("x", 2);
    let wrong = [
        ("burst", slots().burst(3)),
        ("burst", budget().burst(3)),
        ("burst", rate().algorithm(Algorithm::SlidingLog).burst(3)),
        ("burst", Limit::rate("x", 2, Period::day("UTC")).burst(3)),
        ("ttl", rate().ttl(SECOND)),
        ("ttl", calls().ttl(SECOND)),
        ("algorithm", slots().algorithm(Algorithm::SlidingLog)),
        ("sub_windows", rate().sub_windows(9)),
        ("sub_windows", slots().sub_windows(9)),
        ("max_entries", budget().max_entries(9)),
        (
            "max_entries",
            rate().algorithm(Algorithm::SlidingWindow).max_entries(9),
        ),
        ("postpaid", slots().postpaid()),
        ("on_failure", slots().on_failure(OnFailure::Refund)),
        ("unit", calls().unit(Unit::decimal(2))),
        ("unit", slots().unit(Unit::decimal(2))),
    ];
    for (named, limit) in wrong {
        let error = build_error(limit);
        let BuildError::Limit {
            source: LimitError::NoSetting { setting, .. },
            ..
        } = &error
        else {
            panic!("{named}: {error}");
        };
        assert_eq!(*setting, named);
        let said = format!("limit `x`: `{named}` does not go with ");
        assert!(error.to_string().starts_with(&said), "{error}");
    }
    let right = [
        rate().burst(3).postpaid().on_failure(OnFailure::Refund),
        budget().unit(Unit::decimal(2)),
        rate().algorithm(Algorithm::SlidingWindow).sub_windows(9),
        slots().ttl(SECOND).shadow(),
    ];
    for limit in right {
        assert!(LimitSet::new([limit]).is_ok());
    }
}

/// They were bounded over HTTP alone: two thousand asks for one token of a million, each
/// with a key of 60 KB, took 120 MB for ten minutes.
#[test]
fn an_idempotency_key_that_is_too_long_is_refused_on_every_road() {
    let set = set();
    let pool = LimitPool::builder()
        .member("a", set.clone())
        .build()
        .unwrap();
    for length in [0, 256, 60_000] {
        let key = vec![b'x'; length];
        let wrong = || Request::named(&[("r", 1)]).idempotency(&key);
        let soon = || wrong().within(SECOND);
        let error = || DecisionError::Request(RequestError::IdempotencyKey(length));
        assert_eq!(set.try_acquire("k", wrong()).wait().unwrap_err(), error());
        assert_eq!(set.acquire("k", soon()).wait().unwrap_err(), error());
        assert_eq!(
            set.check(
                "k",
                Request::named(&[("r", 1), ("slots", 0)]).idempotency(&key)
            )
            .wait()
            .unwrap_err(),
            error()
        );
        assert_eq!(pool.try_acquire("k", wrong()).wait().unwrap_err(), error());
        assert_eq!(pool.acquire("k", soon()).wait().unwrap_err(), error());
    }
    let untouched = set.peek("k", 1).wait().unwrap();
    assert_eq!(untouched.standing("r").unwrap().remaining, 10);
    let longest = [b'x'; MAX_IDEMPOTENCY_KEY];
    let request = Request::named(&[("r", 1)]).idempotency(&longest);
    let first = set
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .expect("it fits");
    let again = set
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .expect("repeated");
    assert_eq!(first.id(), again.id());
}

#[test]
fn sets_need_limits_with_names_of_their_own_and_few_levels() {
    assert!(matches!(LimitSet::new([]), Err(BuildError::Nothing(_))));
    let twins = [Limit::rate("x", 1, SECOND), Limit::rate("x", 2, SECOND)];
    assert!(matches!(
        LimitSet::new(twins),
        Err(BuildError::DuplicateLimit(_))
    ));
    let deep = LimitSet::builder()
        .limit(Limit::rate("x", 1, SECOND))
        .levels(["l"; 9]);
    assert!(matches!(deep.build(), Err(BuildError::TooManyLevels(9))));
    assert!(set().remove_limit("nothing").is_err());
    let last = LimitSet::new([Limit::rate("x", 1, SECOND)]).unwrap();
    assert!(last.remove_limit("x").is_err());
    assert!(last.check("k", 1).wait().unwrap().admitted());
}

#[test]
fn empty_and_huge_keys_are_errors() {
    let set = set();
    let huge = "k".repeat(4_097);
    assert!(matches!(
        set.try_acquire("", 1).wait(),
        Err(DecisionError::Request(RequestError::Key(KeyError::Empty)))
    ));
    assert!(matches!(
        set.admit("", 1).wait(),
        Err(DecisionError::Request(RequestError::Key(KeyError::Empty)))
    ));
    assert!(matches!(
        set.peek(&huge, 1).wait(),
        Err(DecisionError::Request(RequestError::Key(
            KeyError::TooLong(4_097)
        )))
    ));
    assert!(set.handle(&huge).is_err());
    assert_eq!(set.count().wait().unwrap().keys, 0);
}

#[test]
fn asks_that_make_no_sense_change_nothing() {
    let set = set();
    assert!(matches!(
        set.try_acquire("k", ()).wait(),
        Err(DecisionError::Request(RequestError::NoAmount(_)))
    ));
    assert!(matches!(
        set.try_acquire("k", &[("r", 0), ("slots", 0)]).wait(),
        Err(DecisionError::Request(RequestError::NothingRequested))
    ));
    let never = set.try_acquire("k", &[("slots", 3)]).wait().unwrap();
    assert!(never.refused().is_some_and(|refusal| refusal.is_never()));
    assert!(matches!(
        set.check("k", 1).wait(),
        Err(DecisionError::Request(RequestError::NeedsLease(_)))
    ));
    assert!(matches!(
        set.debit("k", &[("slots", 1)]).wait(),
        Err(DecisionError::Request(RequestError::NeedsLease(_)))
    ));
    assert!(matches!(
        set.debit("k", 0).wait(),
        Err(DecisionError::Request(RequestError::NothingRequested))
    ));
    assert_eq!(set.count().wait().unwrap().keys, 0);
}

#[test]
fn a_lease_that_has_ended_cannot_be_used() {
    let set = set();
    let mut lease = set.try_acquire("k", 4).wait().unwrap().granted().unwrap();
    assert!(matches!(
        lease.settle(&[("q", 1)]).wait(),
        Err(LeaseError::Request(RequestError::UnknownLimit { .. }))
    ));
    assert!(matches!(
        lease.settle(&[("r", u64::MAX)]).wait(),
        Err(LeaseError::Request(RequestError::Amount { .. }))
    ));
    lease.settle(&[("r", 1)]).wait().unwrap();
    let ended = |error: LeaseError| matches!(error, LeaseError::Ended(_));
    assert!(ended(lease.settle(()).wait().expect_err("ended")));
    assert!(ended(lease.renew(SECOND).wait().expect_err("ended")));
    assert!(ended(lease.cancel().wait().expect_err("ended")));
    let another = set.settle("k", "abcd".repeat(8).parse().unwrap(), ());
    assert!(matches!(another.wait(), Err(LeaseError::Unknown)));
}

#[test]
fn a_lease_is_nobody_elses_to_end() {
    let set = set();
    let lease = set
        .try_acquire("alice", 4)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    let theirs = set.release("mallory", lease.id());
    assert!(matches!(theirs.wait(), Err(LeaseError::Unknown)));
    assert!(!format!("{:?}", lease.id()).contains(&lease.id().to_string()));
}

proptest! {
    /// Keys of any bytes, amounts of any size: an answer or an error.
    #[test]
    fn whatever_is_asked_nothing_panics_and_errors_change_nothing(
        key in prop::collection::vec(any::<u8>(), 0..80),
        name in "[a-z]{0,5}",
        amount in any::<u64>(),
        cost in prop::option::of(any::<u64>()),
    ) {
        let set = set();
        let named = [(name.as_str(), amount)];
        let mut request = tidegate::Request::named(&named);
        if let Some(cost) = cost {
            request = request.cost(cost);
        }
        if set.try_acquire(&key, request).wait().is_err() {
            prop_assert_eq!(set.count().wait().unwrap().keys, 0);
        }
        let _ = set.check(&key, request).wait();
        let _ = set.debit(&key, request).wait();
        let _ = set.admit(&key, amount).wait();
        let _ = set.forecast(&key, request).wait();
    }
}

/// Of two amounts of one limit the last was charged, and of a key that reaches none of the
/// limits nothing: what was used was lost, and the answer said that it was charged.
#[test]
fn a_debit_that_would_not_be_charged_in_full_is_refused() {
    let limits = [Limit::rate("tokens", 1_000, SECOND).at_level("user")];
    let builder = LimitSet::builder().levels(["org", "user"]).limits(limits);
    let builder = builder.partial_keys();
    let set = builder.clock(ManualClock::default().clock()).build();
    let set = set.expect("sensible limits");
    let twice = [("tokens", 600), ("tokens", 1)];
    let twice = set.debit("acme/alice", Request::named(&twice)).wait();
    assert_eq!(
        twice.unwrap_err(),
        DecisionError::Request(RequestError::NamedTwice("tokens".into()))
    );
    let short = set.debit("acme", &[("tokens", 600)]).wait();
    let short = short.expect_err("no limit is about an org");
    assert!(
        matches!(
            short,
            DecisionError::Request(RequestError::KeyTooShort { .. })
        ),
        "{short:?}"
    );
    set.debit("acme/alice", &[("tokens", 600)]).wait().unwrap();
    let left = set.peek("acme/alice", 1).wait().unwrap();
    assert_eq!(left.standing("tokens").unwrap().remaining, 400);
}

/// A look said that it would be admitted, and a forecast said nothing of no limit, where a
/// check of the same is an error.
#[test]
fn a_look_at_a_key_that_reaches_no_limit_is_refused_as_its_check_is() {
    let limits = [Limit::calls("calls", 5, SECOND).at_level("user")];
    let set = LimitSet::builder().levels(["org", "user"]).limits(limits);
    let set = set.partial_keys().build().expect("sensible limits");
    let checked = set.check("acme", ()).wait().unwrap_err();
    assert!(
        matches!(
            checked,
            DecisionError::Request(RequestError::KeyTooShort { .. })
        ),
        "{checked:?}"
    );
    assert_eq!(set.peek("acme", ()).wait().unwrap_err(), checked);
    assert_eq!(set.forecast("acme", ()).wait().unwrap_err(), checked);
    let pool = LimitPool::builder().member("a", set).build().unwrap();
    assert_eq!(pool.peek("acme", ()).wait().unwrap_err(), checked);
    assert!(pool.peek("acme/alice", ()).wait().unwrap().admitted());
}

/// A shorter key was decided without the limits of the levels that it lacked, and each `/`
/// too many began a count of its own.
#[test]
fn a_key_of_other_levels_than_its_sets_is_refused_by_every_verb() {
    let limits = || {
        [
            Limit::rate("org", 9, SECOND).at_level("org"),
            Limit::rate("user", 5, SECOND).at_level("user"),
        ]
    };
    let builder = || LimitSet::builder().levels(["org", "user"]).limits(limits());
    let set = builder().build().expect("sensible limits");
    let pool = LimitPool::builder().member("a", set.clone()).build();
    let pool = pool.expect("a sensible pool");
    for (key, levels) in [("acme", 1), ("acme/alice/1", 3), ("acme/alice/1/2", 4)] {
        let wrong = DecisionError::Request(RequestError::KeyDepth { levels, needed: 2 });
        assert_eq!(set.check(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(set.admit(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(set.peek(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(set.forecast(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(set.debit(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(set.try_acquire(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(set.acquire(key, 1).wait().unwrap_err(), wrong);
        let many = set
            .check_many([(key, 1)])
            .wait()
            .expect("an answer to each");
        assert_eq!(*many[0].as_ref().unwrap_err(), wrong);
        assert_eq!(DecisionError::from(set.handle(key).unwrap_err()), wrong);
        assert_eq!(pool.check(key, 1).wait().unwrap_err(), wrong);
        assert_eq!(pool.try_acquire(key, 1).wait().unwrap_err(), wrong);
    }
    let told = |key| set.check(key, 1).wait().unwrap_err().to_string();
    assert_eq!(
        told("acme"),
        "the key has 1 of 2 levels: write every level, as in `a/b`; or allow shorter keys with \
         `partial_keys = true` in the policy"
    );
    // The example had two levels, however many were needed.
    let levels = LimitSet::builder().levels(["org", "team", "user"]);
    let levels = levels.limits(limits()).build().expect("three levels");
    let short = levels.check("acme", 1).wait().unwrap_err().to_string();
    assert!(short.contains("as in `a/b/c`;"), "{short}");
    assert!(told("a/b/c").contains("%2F"), "{}", told("a/b/c"));
    assert!(set.check("acme/a%2Fb", 1).wait().unwrap().admitted());
    set.reset("acme").wait().expect("an ancestor can be reset");

    let set = builder().partial_keys().build().expect("sensible limits");
    let decision = set.check("acme", &[("org", 9)]).wait().unwrap();
    assert!(decision.admitted());
    let refused = set.check("acme/alice", 1).wait().unwrap();
    assert_eq!(refused.binding(), Some("org"));
    let deep = set.check("acme/alice/1", 1).wait().unwrap_err();
    let levels = 3;
    assert_eq!(
        deep,
        DecisionError::Request(RequestError::KeyDepth { levels, needed: 2 })
    );
}

#[test]
fn what_is_shown_of_a_request_tells_no_secret() {
    let shown = format!("{:?}", Request::from(3).idempotency(b"payment-4711"));
    assert!(shown.contains("cost: Some(3)"), "{shown}");
    assert!(
        !shown.contains("4711") && !shown.contains("52, 55"),
        "{shown}"
    );
}
