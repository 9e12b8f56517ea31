//! A limit that is found by its name once goes wherever its name goes, for as long as the
//! set has it, and nowhere else.

use std::time::Duration;

use tidegate::{DecisionError, LeaseError, Limit, LimitSet, Request, RequestError, Usage};

const MINUTE: Duration = Duration::from_secs(60);

fn limits() -> [Limit; 3] {
    [
        Limit::calls("rpm", 9, MINUTE),
        Limit::rate("tpm", 100, MINUTE),
        Limit::concurrency("running", 2),
    ]
}

fn set() -> LimitSet {
    LimitSet::new(limits()).expect("sound limits")
}

#[test]
fn a_limit_found_once_goes_where_its_name_goes() {
    let set = set();
    let [rpm, tpm, running] = ["rpm", "tpm", "running"].map(|name| set.limit(name).expect("there"));
    let asked = [(tpm, 40), (running, 0)];
    let request = Request::named(&asked).standings();
    let mut lease = set.acquire("k", request).wait().unwrap().granted().unwrap();
    let decision = lease.decision().expect("it was asked for");
    assert_eq!(decision.remaining(tpm), Some(60));
    assert_eq!(decision.standing(tpm), decision.standing("tpm"));
    assert_eq!(decision.limit(rpm).map(Limit::name), Some("rpm"));
    let adjusted = lease.adjust(&[(tpm, 50)]).wait().unwrap();
    assert_eq!(adjusted.remaining(tpm), Some(50));
    let settled = lease.settle(&vec![(tpm, 20)]).wait().unwrap();
    let (taken, used) = (50, 20);
    assert_eq!(settled.usage(tpm), Some(Usage { taken, used }));
    assert_eq!(settled.usage(rpm), settled.usage("rpm"));
    assert_eq!(settled.usage(running), None);
    let checked = set.check("k", &[(tpm, 80), (running, 0)]).wait().unwrap();
    assert!(checked.admitted());
    assert_eq!(checked.remaining(tpm), Some(0));
}

#[test]
fn a_limit_found_once_is_named_like_its_name_in_errors() {
    let set = set();
    let tpm = set.limit("tpm").expect("it is there");
    let twice = set.try_acquire("k", &[(tpm, 1), (tpm, 2)]).wait();
    let named = RequestError::NamedTwice("tpm".to_owned());
    assert_eq!(twice.unwrap_err(), DecisionError::Request(named));
    let unknown = set.limit("tmp").unwrap_err().to_string();
    assert_eq!(
        unknown,
        "there is no limit `tmp` here; there is `rpm`, `tpm`, `running`"
    );
}

#[test]
fn a_limit_found_once_stays_good_while_the_limits_around_it_change() {
    let set = set();
    let tpm = set.limit("tpm").expect("it is there");
    let (early, late) = (
        Limit::calls("early", 9, MINUTE),
        Limit::calls("late", 9, MINUTE),
    );
    let tighter = Limit::rate("tpm", 50, MINUTE);
    set.replace_limits(&[early, late, tighter])
        .expect("sound limits");
    let decision = set.check("k", &[(tpm, 20)]).wait().expect("it is there");
    assert_eq!(decision.remaining(tpm), Some(30));
    set.set_override("k", &[Limit::rate("tpm", 200, MINUTE)])
        .wait()
        .expect("it fits");
    let decision = set.check("k", &[(tpm, 20)]).wait().expect("it is there");
    assert_eq!(decision.remaining(tpm), decision.remaining("tpm"));
    assert!(decision.remaining(tpm) > Some(30));
}

#[test]
fn a_limit_that_was_removed_or_renamed_is_refused_until_it_is_found_again() {
    let set = set();
    let tpm = set.limit("tpm").expect("it is there");
    let mut lease = set.try_acquire("k", 1).wait().unwrap().granted().unwrap();
    let renamed = Limit::rate("tokens", 100, MINUTE);
    set.replace_limits(&[renamed]).expect("a sound limit");
    let known = "`tokens`".to_owned();
    let gone = RequestError::LimitRemoved { known };
    let asked = set.check("k", &[(tpm, 1)]).wait().unwrap_err();
    assert_eq!(asked, DecisionError::Request(gone.clone()));
    let settled = lease.settle(&[(tpm, 1)]).wait().unwrap_err();
    assert_eq!(settled, LeaseError::Request(gone));
    let decision = set.check("k", 1).wait().expect("a rate");
    assert_eq!(decision.remaining(tpm), None);
    set.put_limit(Limit::rate("tpm", 100, MINUTE))
        .expect("a sound limit");
    assert!(set.check("k", &[(tpm, 1)]).wait().is_err());
    let tpm = set.limit("tpm").expect("it is back");
    assert!(set.check("k", &[(tpm, 1)]).wait().unwrap().admitted());
    lease.settle(&[(tpm, 1)]).wait().expect("it is held still");
}

/// What a store knows a limit by is a hash of its name. These two have the same (FNV-1a of
/// 32 bits): whoever had found the first charged the second, once that was in its place.
#[test]
fn a_limit_that_was_found_is_no_other_whose_name_has_the_same_hash() {
    let (one, other) = ("costarring", "liquid");
    let set = LimitSet::new([Limit::rate(one, 100, MINUTE)]).expect("a sound limit");
    let found = set.limit(one).expect("it is there");
    let taken = set.check("k", &[(found, 1)]).wait().expect("it is there");
    assert!(taken.admitted());
    set.replace_limits(&[Limit::rate(other, 100, MINUTE)])
        .expect("a sound limit");
    let before = set.peek("k", 1).wait().expect("a rate").remaining(other);
    let known = format!("`{other}`");
    let charged = set.check("k", &[(found, 1)]).wait().unwrap_err();
    let gone = RequestError::LimitRemoved { known };
    assert_eq!(charged, DecisionError::Request(gone));
    let after = set.peek("k", 1).wait().expect("a rate");
    assert_eq!(after.remaining(other), before);
    assert_eq!(after.remaining(found), None);
    assert_ne!(set.limit(other).expect("it is there"), found);
}

#[test]
fn a_limit_of_another_set_is_refused_whatever_its_name() {
    let (set, other) = (set(), set());
    let theirs = other.limit("tpm").expect("it is there");
    let asked = set.try_acquire("k", &[(theirs, 1)]).wait().unwrap_err();
    assert_eq!(asked, DecisionError::Request(RequestError::OtherSet));
    let decision = set.try_acquire("k", Request::from(1).standings());
    let mut lease = decision.wait().unwrap().granted().unwrap();
    assert_eq!(lease.decision().and_then(|one| one.remaining(theirs)), None);
    let settled = lease.settle(&[(theirs, 1)]).wait().unwrap_err();
    assert_eq!(settled, LeaseError::Request(RequestError::OtherSet));
    let (ours, clone) = (set.limit("tpm").expect("it is there"), set.clone());
    assert!(clone.try_acquire("k", &[(ours, 1)]).wait().is_ok());
}

/// Where it stood when it was found is no part of which limit it is.
#[test]
fn one_limit_found_before_and_after_a_change_is_one_limit() {
    let set = set();
    let before = set.limit("tpm").expect("there");
    set.remove_limit("rpm").expect("there");
    let after = set.limit("tpm").expect("there");
    assert_eq!(before, after);
    let twice = set.try_acquire("k", &[(before, 40), (after, 10)]).wait();
    let named = RequestError::NamedTwice("tpm".to_owned());
    assert_eq!(
        twice.map(|_| ()).unwrap_err(),
        DecisionError::Request(named)
    );
}
