//! Limits that only some keys have: no one else is asked for anything of them.

use std::sync::Arc;
use std::time::Duration;

use tidegate::internal::SetInternals;
use tidegate::{BuildError, Limit, LimitError, LimitSet, ManualClock, Period, Store, Tier, Unit};
use tidegate_memory::MemoryStore;

const HOUR: Duration = Duration::from_secs(3_600);

fn calls(name: &str, count: u64) -> Limit {
    Limit::calls(name, count, HOUR)
}

fn set() -> LimitSet {
    LimitSet::new([calls("rpm", 100)]).unwrap()
}

fn give(set: &LimitSet, key: &str, limits: &[Limit]) {
    set.set_override(key, limits).wait().unwrap();
}

fn refusal(set: &LimitSet, key: &str, limits: &[Limit]) -> BuildError {
    set.set_override(key, limits).wait().unwrap_err()
}

/// How many calls are admitted, a hundred at most.
fn admitted(set: &LimitSet, key: &str) -> usize {
    let admit = |_: &u32| set.check(key, ()).wait().unwrap().admitted();
    (0..100).take_while(admit).count()
}

/// The names of the limits that `key` has, and what is left of each.
fn left(set: &LimitSet, key: &str) -> Vec<(String, u64)> {
    let decision = set.peek(key, ()).wait().unwrap();
    let named = decision.standings();
    named
        .map(|(name, standing)| (name.to_owned(), standing.remaining))
        .collect()
}

fn named(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs
        .iter()
        .map(|(name, left)| ((*name).to_owned(), *left))
        .collect()
}

#[test]
fn a_limit_that_one_key_has_refuses_that_key_and_no_other() {
    let set = set();
    give(&set, "acme", &[calls("gpu", 3).added()]);
    assert_eq!(admitted(&set, "acme"), 3);
    assert_eq!(admitted(&set, "other"), 100);
    assert_eq!(left(&set, "acme"), named(&[("rpm", 97), ("gpu", 0)]));
    assert_eq!(left(&set, "third"), named(&[("rpm", 100)]));
    let refused = set.check("acme", ()).wait().unwrap();
    assert_eq!(refused.binding(), Some("gpu"));
    assert!(set.limits().iter().all(|limit| limit.name() == "rpm"));
}

#[test]
fn a_limit_is_added_changed_and_removed_on_a_key_in_use() {
    let set = set();
    let handle = set.handle("acme").unwrap();
    assert!(handle.check(1).wait().unwrap().admitted());
    give(&set, "acme", &[calls("gpu", 2).added()]);
    assert!(handle.check(()).wait().unwrap().admitted());
    assert_eq!(left(&set, "acme"), named(&[("rpm", 98), ("gpu", 1)]));
    give(&set, "acme", &[calls("gpu", 5).added(), calls("rpm", 50)]);
    assert_eq!(left(&set, "acme"), named(&[("rpm", 48), ("gpu", 4)]));
    assert!(set.remove_override("acme").wait().unwrap());
    assert_eq!(left(&set, "acme"), named(&[("rpm", 98)]));
    assert!(handle.check(()).wait().unwrap().admitted());
    // What was there of it is forgotten.
    give(&set, "acme", &[calls("gpu", 2).added()]);
    assert_eq!(left(&set, "acme"), named(&[("rpm", 97), ("gpu", 2)]));
}

#[test]
fn every_kind_of_limit_can_be_added() {
    let time = ManualClock::default();
    let kinds = [
        calls("extra", 3),
        Limit::rate("extra", 3, HOUR),
        Limit::rate("extra", 3, HOUR).algorithm(tidegate::Algorithm::Gcra),
        Limit::budget("extra", 3, Period::day("UTC")),
        calls("extra", 3).algorithm(tidegate::Algorithm::SlidingWindow),
        calls("extra", 3).algorithm(tidegate::Algorithm::SlidingLog),
        calls("extra", 3).algorithm(tidegate::Algorithm::FirstUseWindow),
        Limit::concurrency("extra", 3),
    ];
    for kind in kinds {
        let builder = LimitSet::builder()
            .limit(calls("rpm", 100))
            .clock(time.clock());
        let set = builder.build().unwrap();
        give(&set, "acme", &[kind.clone().added()]);
        let lease = |key: &str| {
            let lease = set.try_acquire(key, &[("extra", 2)]).wait().unwrap();
            lease.granted()
        };
        let (held, other) = (lease("acme"), lease("other"));
        assert!(held.is_some() && other.is_some(), "{kind:?}");
        assert!(
            lease("acme").is_none() && lease("other").is_some(),
            "{kind:?}"
        );
        let mut held = held.unwrap();
        held.cancel().wait().unwrap();
        assert!(lease("acme").is_some(), "{kind:?}");
        give(&set, "acme", &[kind.with_capacity(9).added()]);
        assert!(lease("acme").is_some());
    }
}

/// A platform adds a limit to a customer while its callers know nothing of it.
#[test]
fn a_request_that_knows_nothing_of_an_added_limit_is_answered_as_before() {
    let set = set();
    let added = [
        Limit::rate("tpm", 5, HOUR).added(),
        Limit::concurrency("running", 1).added(),
    ];
    give(&set, "acme", &added);
    assert!(set.check("acme", ()).wait().unwrap().admitted());
    let held = set.try_acquire("acme", ()).wait().unwrap().granted();
    assert!(held.is_some());
    let second = set.try_acquire("acme", ()).wait().unwrap().refused();
    assert_eq!(second.unwrap().binding(), Some("running"));
    let named = set.check("acme", &[("running", 1)]).wait();
    assert!(named.is_err(), "what is held is asked with a lease");
    let short = set.check("acme", 6).wait().unwrap();
    assert_eq!((short.is_never(), short.binding()), (true, Some("tpm")));
    assert!(set.check("other", 6).wait().unwrap().admitted());
}

#[test]
fn what_another_key_has_can_be_named_and_what_none_has_cannot() {
    let set = set();
    let named = |key: &str| set.check(key, &[("gpu", 1)]).wait().map(|d| d.admitted());
    assert!(named("other").is_err());
    give(&set, "acme", &[calls("gpu", 1).added()]);
    assert_eq!((named("acme"), named("acme")), (Ok(true), Ok(false)));
    assert_eq!(named("other"), Ok(true));
    set.remove_override("acme").wait().unwrap();
    assert!(named("other").is_err());
}

#[test]
fn a_lease_that_was_granted_before_a_limit_came_or_went_is_settled() {
    let set = set();
    let lease = |key: &str| set.try_acquire(key, &[("gpu", 0), ("rpm", 1)]).wait();
    give(&set, "other", &[calls("gpu", 9).added()]);
    let mut before = lease("acme").unwrap().granted().unwrap();
    give(&set, "acme", &[calls("gpu", 9).added()]);
    before.settle(&[("gpu", 2), ("rpm", 5)]).wait().unwrap();
    assert_eq!(left(&set, "acme"), named(&[("rpm", 95), ("gpu", 7)]));
    let mut while_there = set
        .try_acquire("acme", ())
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    set.remove_override("acme").wait().unwrap();
    while_there
        .settle(&[("gpu", 3), ("rpm", 2)])
        .wait()
        .unwrap();
    assert_eq!(left(&set, "acme"), named(&[("rpm", 93)]));
}

#[test]
fn a_limit_of_an_ancestor_is_about_all_below_it_and_of_a_key_about_itself() {
    let builder = LimitSet::builder().levels(["org", "user"]);
    let limits = [calls("rpm", 100).at_level("user")];
    let set = builder.limits(limits).build().unwrap();
    give(&set, "acme", &[calls("all", 5).added()]);
    give(&set, "acme/alice", &[calls("own", 2).added()]);
    assert_eq!(admitted(&set, "acme/alice"), 2);
    assert_eq!(admitted(&set, "acme/bob"), 3);
    assert_eq!(admitted(&set, "other/bob"), 100);
    assert_eq!(left(&set, "acme/bob"), named(&[("all", 0), ("rpm", 97)]));
    let refusal = refusal(&set, "acme/bob", &[calls("all", 5).added()]);
    assert!(
        matches!(refusal, BuildError::OtherLevel { .. }),
        "{refusal}"
    );
}

#[test]
fn what_cannot_be_added_is_refused_and_changes_nothing() {
    let set = set();
    give(&set, "acme", &[calls("gpu", 3).added()]);
    let unlike = [
        calls("rpm", 3).added(),
        Limit::rate("gpu", 3, HOUR).added(),
        Limit::budget("gpu", 3, HOUR).added(),
        calls("gpu", 3).postpaid().added(),
    ];
    for limit in unlike {
        let wrong = refusal(&set, "other", &[limit]);
        let is_so = |source: &LimitError| matches!(source, LimitError::NotAddable(_));
        assert!(
            matches!(&wrong, BuildError::Limit { source, .. } if is_so(source)),
            "{wrong}"
        );
    }
    for limit in [calls("gpu", 3), calls("none", 3)] {
        let wrong = refusal(&set, "other", &[limit]);
        assert!(matches!(wrong, BuildError::UnknownLimit { .. }), "{wrong}");
    }
    let wrong = refusal(&set, "other", &[calls("none", 0).added()]);
    assert!(matches!(wrong, BuildError::Limit { .. }), "{wrong}");
    assert!(set.remove_limit("gpu").is_err());
    assert_eq!(
        (admitted(&set, "other"), set.overrides(None, 9).len()),
        (100, 1)
    );
}

/// One of a kind that no tier takes in advance would have kept the set from being opened again.
#[test]
fn nothing_is_added_where_units_are_taken_in_advance() {
    let builder = LimitSet::builder().limit(calls("rpm", 100));
    let set = builder.tier(Tier::leased(10)).build().unwrap();
    let wrong = refusal(&set, "acme", &[Limit::concurrency("gpu", 1).added()]);
    assert!(wrong.to_string().contains("`tier`"), "{wrong}");
    give(&set, "acme", &[calls("rpm", 5)]);
    assert_eq!(admitted(&set, "other"), 100);
}

#[test]
fn a_set_has_32_names_of_added_limits_at_most() {
    let set = set();
    for nth in 0..32 {
        give(
            &set,
            &format!("key {nth}"),
            &[calls(&format!("limit {nth}"), 1).added()],
        );
    }
    let wrong = refusal(&set, "acme", &[calls("one more", 1).added()]);
    assert_eq!(wrong, BuildError::TooManyAdded(32));
    give(&set, "acme", &[calls("limit 7", 1).added()]);
    assert_eq!((admitted(&set, "acme"), admitted(&set, "other")), (1, 100));
}

#[test]
fn a_limit_that_comes_for_every_key_takes_the_name_over_and_keeps_the_keys_numbers() {
    let set = set();
    give(&set, "acme", &[calls("gpu", 3).added()]);
    assert!(set.check("acme", ()).wait().unwrap().admitted());
    set.put_limit(calls("gpu", 50)).unwrap();
    assert_eq!(left(&set, "acme"), named(&[("rpm", 99), ("gpu", 2)]));
    assert_eq!(left(&set, "other"), named(&[("rpm", 100), ("gpu", 50)]));
    set.remove_limit("gpu").unwrap();
    assert_eq!(left(&set, "other"), named(&[("rpm", 100)]));
    assert_eq!(left(&set, "acme"), named(&[("rpm", 99), ("gpu", 2)]));
}

#[test]
fn a_set_that_is_opened_again_has_what_its_keys_were_added_and_what_they_used() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let open = || {
        let builder = LimitSet::builder().limit(calls("rpm", 100));
        builder.store(Arc::clone(&store)).build().unwrap()
    };
    let set = open();
    give(&set, "acme", &[calls("gpu", 3).added()]);
    assert!(set.check("acme", ()).wait().unwrap().admitted());
    drop(set);
    let set = open();
    assert_eq!(left(&set, "acme"), named(&[("rpm", 99), ("gpu", 2)]));
    assert_eq!(left(&set, "other"), named(&[("rpm", 100)]));
}

#[test]
fn many_keys_are_asked_at_once_though_one_was_added_what_is_held() {
    let set = set();
    give(&set, "acme", &[Limit::concurrency("running", 1).added()]);
    let answers = set
        .check_many([("acme", ()), ("other", ())])
        .wait()
        .unwrap();
    let admitted: Vec<_> = answers
        .into_iter()
        .map(|one| one.map(|d| d.admitted()))
        .collect();
    assert_eq!(admitted, [Ok(true), Ok(true)]);
    let named = [("running", 1)];
    let answers = set
        .check_many([("acme", &named), ("other", &named)])
        .wait()
        .unwrap();
    assert!(answers[0].is_err(), "what is held is asked with a lease");
    assert!(answers[1].as_ref().is_ok_and(tidegate::Decision::admitted));
}

#[test]
fn one_override_brings_no_more_names_than_there_is_room_for() {
    let set = set();
    let many: Vec<_> = (0..40)
        .map(|nth| calls(&format!("n{nth}"), 9).added())
        .collect();
    assert_eq!(refusal(&set, "acme", &many), BuildError::TooManyAdded(32));
    for nth in 0..31 {
        give(
            &set,
            &format!("key {nth}"),
            &[calls(&format!("m{nth:02}"), 1).added()],
        );
    }
    let two = [calls("a1", 9).added(), calls("a2", 9).added()];
    assert_eq!(refusal(&set, "acme", &two), BuildError::TooManyAdded(32));
    assert_eq!(admitted(&set, "key 30"), 1);
    give(&set, "acme", &two[..1]);
    assert_eq!((admitted(&set, "acme"), admitted(&set, "key 30")), (9, 0));
}

/// Of two servers that give the last name at the same time both may.
#[test]
fn what_there_is_no_room_for_takes_no_other_keys_limit_away() {
    let set = set();
    for nth in 0..32 {
        give(
            &set,
            &format!("key {nth}"),
            &[calls(&format!("m{nth:02}"), 1).added()],
        );
    }
    let beyond = Arc::from([calls("a", 1).added()]);
    let given = set.give(b"acme", Some(beyond));
    assert_eq!(given, Err(BuildError::TooManyAdded(32)));
    assert_eq!((admitted(&set, "key 31"), admitted(&set, "acme")), (1, 100));
    let inert = set.override_of("acme").map(|given| given.inert);
    assert_eq!(inert, Some(vec!["a".to_owned()]));
    set.remove_override("key 31").wait().unwrap();
    assert!(left(&set, "acme").contains(&("a".to_owned(), 1)));
}

/// A set that has limits for every key is told what only some have by overrides alone: one
/// marked so went with the first override of any key.
#[test]
fn a_set_has_no_added_limits_of_its_own() {
    let is_refused = |wrong: BuildError| {
        let BuildError::Limit { limit, source } = &wrong else {
            panic!("{wrong}");
        };
        assert!(matches!(source, LimitError::NotAddable(_)), "{wrong}");
        assert_eq!(limit, "gpu");
    };
    let gpu = || calls("gpu", 3).added();
    is_refused(LimitSet::new([calls("rpm", 100), gpu()]).unwrap_err());
    let set = set();
    is_refused(set.put_limit(gpu()).unwrap_err());
    is_refused(set.replace_limits(&[gpu(), calls("rpm", 5)]).unwrap_err());
    assert_eq!(set.limits(), [calls("rpm", 100)]);
}

#[test]
fn a_request_that_names_what_another_key_has_and_no_more_takes_nothing() {
    let tokens = LimitSet::new([Limit::rate("tpm", 100, HOUR)]).unwrap();
    let gpu = [("gpu", 1)];
    give(&tokens, "acme", &[calls("gpu", 3).added()]);
    assert!(tokens.check("other", &gpu).wait().unwrap().admitted());
    let lease = tokens.try_acquire("other", &gpu).wait().unwrap().granted();
    lease.unwrap().settle(&gpu).wait().unwrap();
    let answers = tokens.check_many([("other", &gpu)]).wait().unwrap();
    assert!(answers[0].as_ref().is_ok_and(tidegate::Decision::admitted));
    assert!(tokens.debit("other", &gpu).wait().unwrap().admitted());
    assert!(tokens.forecast("other", &gpu).wait().unwrap().is_empty());
    // What asked for nothing before is as wrong as it was.
    assert!(tokens.check("other", 0).wait().is_err());
    assert!(tokens.check("other", &[("gpu", 0)]).wait().is_err());
    assert!(tokens.debit("other", 0).wait().is_err());
    assert_eq!(
        tokens.peek("other", 0).wait().unwrap().remaining("tpm"),
        Some(100)
    );
    let set = set();
    give(&set, "acme", &[Limit::concurrency("running", 1).added()]);
    give(&set, "third", &[calls("gpu", 3).added()]);
    assert!(set.debit("other", &[("gpu", 3)]).wait().unwrap().admitted());
    let only_gpu = [("gpu", 1), ("rpm", 0)];
    assert!(set.check("acme", &only_gpu).wait().unwrap().admitted());
    assert_eq!(
        set.peek("acme", 0).wait().unwrap().remaining("rpm"),
        Some(100)
    );
}

#[test]
fn a_set_without_limits_admits_what_it_did_when_one_key_is_added_one() {
    for added in [
        calls("gpu", 3),
        Limit::rate("gpu", 3, HOUR),
        Limit::concurrency("gpu", 3),
    ] {
        let set = LimitSet::unlimited().unwrap();
        give(&set, "acme", &[added.added()]);
        assert_eq!(
            set.peek("acme", &[("gpu", 1)])
                .wait()
                .unwrap()
                .remaining("gpu"),
            Some(3)
        );
        let mut lease = set
            .try_acquire("other", ())
            .wait()
            .unwrap()
            .granted()
            .unwrap();
        lease.release().wait().unwrap();
        let named = set.try_acquire("other", &[("tokens", 9)]).wait().unwrap();
        named
            .granted()
            .unwrap()
            .settle(&[("tokens", 3)])
            .wait()
            .unwrap();
        for cost in [0, 9, 1 << 41] {
            assert!(set.check("other", cost).wait().unwrap().admitted());
            assert!(set.debit("other", cost).wait().unwrap().admitted());
        }
        let handle = set.handle("other").unwrap();
        assert!(handle.check(1 << 41).wait().unwrap().admitted());
        assert!(set.check("acme", ()).wait().unwrap().admitted());
    }
}

/// Money is one unit, tokens another: a cost in money was charged to the tokens.
#[test]
fn a_cost_is_not_charged_to_an_added_rate_of_another_unit() {
    let unit = Unit::decimal(6);
    let usd = || Limit::rate("usd", 10_000_000, HOUR).unit(unit);
    // So large a rate comes back while a test runs.
    let time = ManualClock::default();
    let builder = LimitSet::builder().limit(usd()).clock(time.clock());
    let set = builder.build().unwrap();
    let tokens = Limit::rate("tokens", 100_000, HOUR).added();
    give(
        &set,
        "acme",
        &[
            tokens,
            Limit::rate("more", 9_000_000, HOUR).unit(unit).added(),
        ],
    );
    let remaining = |decision: tidegate::Decision| {
        ["usd", "tokens", "more"].map(|name| decision.remaining(name).unwrap())
    };
    let standing = || remaining(set.peek("acme", 0).wait().unwrap());
    assert!(set.check("acme", 250_000).wait().unwrap().admitted());
    assert_eq!(standing(), [9_750_000, 100_000, 8_750_000]);
    set.debit("acme", 250_000).wait().unwrap();
    assert_eq!(standing(), [9_500_000, 100_000, 8_500_000]);
    let lease = set.try_acquire("acme", 250_000).wait().unwrap().granted();
    lease.unwrap().settle(500_000).wait().unwrap();
    assert_eq!(standing(), [9_000_000, 100_000, 8_000_000]);
    let both = tidegate::Request::named(&[("tokens", 600)]).cost(250_000);
    assert!(set.check("acme", both).wait().unwrap().admitted());
    assert_eq!(standing(), [8_750_000, 99_400, 7_750_000]);
}

#[test]
fn the_one_key_that_has_a_limit_can_change_what_it_is() {
    let set = set();
    give(&set, "acme", &[calls("gpu", 3).added()]);
    assert_eq!(admitted(&set, "acme"), 3);
    give(&set, "acme", &[Limit::concurrency("gpu", 2).added()]);
    assert_eq!(
        set.peek("acme", &[("gpu", 1)])
            .wait()
            .unwrap()
            .remaining("gpu"),
        Some(2)
    );
    let held = set.try_acquire("acme", &[("gpu", 2)]).wait().unwrap();
    assert!(held.granted().is_some());
    give(&set, "other", &[Limit::concurrency("gpu", 5).added()]);
    let wrong = refusal(&set, "acme", &[calls("gpu", 3).added()]);
    assert!(wrong.to_string().contains("another key"), "{wrong}");
}

#[test]
fn what_means_nothing_to_an_added_limit_is_refused() {
    let builder = LimitSet::builder().levels(["org", "user"]);
    let set = builder.limit(calls("rpm", 100)).build().unwrap();
    let slots = Limit::concurrency("gpu", 1);
    let wrong = refusal(&set, "acme/alice", &[slots.clone().adaptive().added()]);
    assert!(wrong.to_string().contains("adaptive"), "{wrong}");
    let wrong = refusal(&set, "acme/alice", &[slots.clone().at_level("org").added()]);
    assert!(matches!(wrong, BuildError::OtherLevel { .. }), "{wrong}");
    assert!(
        set.set_override("acme/alice", &[slots.clone().at_level("none").added()])
            .wait()
            .is_err()
    );
    give(&set, "acme/alice", &[slots.at_level("user").added()]);
    assert_eq!(set.overrides(None, 9).len(), 1);
}
