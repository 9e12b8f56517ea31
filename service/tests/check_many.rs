//! The checks of one request: one command for each policy, all under way at once.

#[path = "support/counted.rs"]
mod counted;
use std::sync::Arc;

use tidegate::{Key, ManualClock, Request};
use tidegate_policy::parse;
use tidegate_service::{Check, Checked, Kind, Scope, Service, ServiceError, check_many};

use counted::Counted;

const POLICIES: &str = "\
[policy.web.limits]
rpm = { rate = 3, per = '1m' }
[policy.chat.limits]
tpm = { rate = 100, per = '1m' }
running = { concurrency = 1 }
[policy.pool.member.eu.limits]
rpm = { calls = 1, per = '1m' }
[policy.pool.member.us.limits]
rpm = { calls = 1, per = '1m' }
";

fn service(store: &Counted) -> Service {
    let builder = Service::builder().clock(ManualClock::default().clock());
    let service = builder.store(Arc::new(store.clone()));
    let service = service
        .build(&parse("test.toml", POLICIES).unwrap())
        .unwrap();
    store.take();
    service
}

/// A check of each policy for its key, of so much.
fn answers(service: &Service, asked: &[(&str, &str, u64)]) -> Vec<Result<Checked, ServiceError>> {
    let caller = service.enter(None).unwrap();
    let checks = asked.iter().map(|&(policy, key, cost)| {
        let active = service.policy(&caller, Scope::Decide, policy)?;
        let request = match policy {
            "chat" => Request::named(&[("running", 0)]).cost(cost),
            _ => Request::from(cost),
        };
        Ok::<Check<'_>, ServiceError>((active, Key::from(key), request))
    });
    check_many(checks.collect()).wait()
}

fn admitted(answers: &[Result<Checked, ServiceError>]) -> Vec<Option<bool>> {
    let answers = answers.iter();
    answers
        .map(|answer| answer.as_ref().ok().map(|(_, answer)| answer.admitted()))
        .collect()
}

/// They went one after the other, a command and a round trip each.
#[test]
fn the_checks_of_one_policy_are_one_command() {
    let store = Counted::default();
    let service = service(&store);
    let asked = [
        ("web", "alice", 2),
        ("chat", "bob", 60),
        ("web", "carol", 1),
        ("chat", "bob", 60),
        ("web", "alice", 2),
    ];
    // Neither is answered before both are under way.
    store.await_together(2);
    let answers = answers(&service, &asked);
    let expected = [true, true, true, false, false];
    assert_eq!(admitted(&answers), expected.map(Some));
    let commands = store.take();
    assert_eq!(commands, [("chat".to_owned(), 2), ("web".to_owned(), 3)]);
    let meant = answers
        .iter()
        .flatten()
        .map(|(active, _)| active.policy().name.clone());
    assert!(meant.eq(asked.map(|(policy, ..)| policy)));
}

#[test]
fn what_makes_no_sense_is_an_error_in_its_place_and_the_others_are_decided() {
    let store = Counted::default();
    let service = service(&store);
    let asked = [
        ("web", "a", 1),
        ("nowhere", "a", 1),
        ("web", "", 1),
        ("web", "a", 9),
        ("web", "a", 2),
        ("web", "a", 1),
    ];
    let answers = answers(&service, &asked);
    let expected = [Some(true), None, None, None, Some(true), Some(false)];
    assert_eq!(admitted(&answers), expected);
    let kinds = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err().map(ServiceError::kind));
    let expected = [Kind::NotFound, Kind::Invalid, Kind::Never];
    assert!(kinds.eq(expected));
    assert_eq!(store.take(), [("web".to_owned(), 4)]);
}

#[test]
fn a_pool_is_asked_for_one_after_the_other() {
    let store = Counted::default();
    let service = service(&store);
    let answers = answers(
        &service,
        &[("pool", "a", 1), ("pool", "a", 1), ("pool", "a", 1)],
    );
    assert_eq!(admitted(&answers), [Some(true), Some(true), Some(false)]);
}
