//! Pools in policy files, through the service.

#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Key, LeaseId, ManualClock, Outcome, PageOf, Request, Select};
use tidegate_service::{
    Acquired, ActivePolicy, Answer, Call, Charge, Finish, GrantedLease, Kind, Number, OfLease,
    PublicLease, Question, Report, Scope, Service, ServiceError, Terms, Uses, Whose,
};

use support::{file, now};

const CHAT: &str = "[policy.chat]\nbalancer = 'first_available'\nmetadata = { team = 'ml' }\n\
    [policy.chat.member.eu]\nmetadata = { region = 'eu-west' }\ncool_down = '30s'\n\
    limits.rpm = { calls = 2, per = '1h' }\nlimits.slots = { concurrency = 2 }\n\
    [policy.chat.member.us]\n\
    limits.rpm = { calls = 2, per = '1h' }\nlimits.slots = { concurrency = 1 }\n";

fn service(text: &str) -> (Service, ManualClock) {
    let time = ManualClock::default();
    let service = Service::builder().clock(time.clock()).build(&file(text));
    (service.unwrap(), time)
}

fn chat(service: &Service) -> Arc<ActivePolicy> {
    let caller = service.enter(None).unwrap();
    service.policy(&caller, Scope::Decide, "chat").unwrap()
}

fn acquire(chat: &ActivePolicy, key: &str) -> Acquired {
    now(chat.acquire(Key::from(key), Request::default())).unwrap()
}

fn granted(chat: &ActivePolicy, key: &str) -> GrantedLease {
    match acquire(chat, key) {
        Acquired::Granted(granted) => granted,
        other => panic!("{other:?}"),
    }
}

fn release(
    chat: &ActivePolicy,
    key: &str,
    id: LeaseId,
    report: &Report,
) -> tidegate_service::Finished {
    chat.finish(Key::from(key), id, Finish::Release, report)
        .wait()
        .unwrap()
}

#[test]
fn a_grant_names_its_member_and_brings_its_words() {
    let (service, _) = service(CHAT);
    let chat = chat(&service);
    let eu = granted(&chat, "k");
    assert_eq!(eu.member(), Some("eu"));
    assert_eq!(eu.metadata()["region"], "eu-west");
    assert_eq!(eu.metadata()["team"], "ml");
    assert_eq!(granted(&chat, "k").member(), Some("eu"));
    let us = granted(&chat, "k");
    assert_eq!(us.member(), Some("us"));
    assert!(!us.metadata().contains_key("region"));
    let Acquired::Refused(decision) = acquire(&chat, "k") else {
        panic!("both are used up");
    };
    assert!(decision.member().is_some());
}

#[test]
fn a_plain_policy_brings_its_words_too() {
    let (service, _) = service(
        "[policy.chat]\nmetadata = { owner = 'ops' }\nlimits.slots = { concurrency = 1 }\n",
    );
    let granted = granted(&chat(&service), "k");
    assert_eq!(
        (granted.member(), &*granted.metadata()["owner"]),
        (None, "ops")
    );
}

#[test]
fn a_lease_is_settled_renewed_and_released_by_its_id_wherever_it_was_given() {
    let (service, time) = service(CHAT);
    let chat = chat(&service);
    let key = Key::from("k");
    let leases: Vec<GrantedLease> = (0..3).map(|_| granted(&chat, "k")).collect();
    assert_eq!(leases[2].member(), Some("us"));
    for lease in &leases {
        let renewed = chat
            .renew(key, lease.id, Some(Duration::from_secs(300)))
            .wait()
            .unwrap();
        assert!(renewed.expires_at > lease.expires_at);
    }
    let settled = chat
        .settle(key, leases[2].id, &[("rpm", 1)])
        .wait()
        .unwrap();
    assert_eq!(settled.usage("rpm").unwrap().used, 1);
    assert!(
        chat.settle(key, leases[2].id, &[("rpm", 0)])
            .wait()
            .unwrap()
            .repeated()
    );
    assert!(!chat.release(key, leases[0].id).wait().unwrap().repeated());
    chat.cancel(key, leases[1].id).wait().unwrap();
    let unknown = chat
        .release(key, "0".repeat(32).parse().unwrap())
        .wait()
        .unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound);
    time.advance(Duration::from_secs(3_600));
    assert_eq!(granted(&chat, "k").member(), Some("eu"));
}

/// The pool went on to ask the member that had given it alone, until its expiry.
#[test]
fn an_ask_whose_lease_was_released_may_go_to_any_member() {
    let (service, _) = service(
        "[policy.chat]\nbalancer = 'first_available'\n\
         member.a.limits.slots = { concurrency = 1 }\n\
         member.b.limits.slots = { concurrency = 1 }\n",
    );
    let chat = chat(&service);
    let key = Key::from("k");
    let given = || match now(chat.acquire(key, Request::default().idempotency(b"job 7"))) {
        Ok(Acquired::Granted(granted)) => granted,
        other => panic!("{other:?}"),
    };
    let first = given();
    assert_eq!((given().id, first.member()), (first.id, Some("a")));
    release(&chat, "k", first.id, &Report::default());
    assert_eq!(granted(&chat, "k").member(), Some("a"));
    assert_eq!(given().member(), Some("b"));
}

#[test]
fn what_was_used_is_debited_at_a_member_that_is_named() {
    let (service, _) = service(CHAT);
    let chat = chat(&service);
    let request = || Request::named(&[("rpm", 2)]);
    let unsaid = chat.debit("k", request()).wait().unwrap_err();
    assert_eq!(
        (unsaid.kind(), unsaid.to_string().as_str()),
        (
            Kind::Invalid,
            "`member` is missing: the policy is a pool; there is `eu`, `us`"
        )
    );
    let unknown = chat
        .debit_at(Some("asia"), "k", request())
        .wait()
        .unwrap_err();
    assert!(unknown.to_string().contains("there is `eu`, `us`"));
    assert!(matches!(
        chat.debit_at(Some("eu"), "k", request()).wait(),
        Ok(Charge::Decided(_))
    ));
    assert_eq!(granted(&chat, "k").member(), Some("us"));
}

#[test]
fn a_forecast_is_given_for_each_member_or_for_one() {
    let (service, _) = service(CHAT);
    let chat = chat(&service);
    chat.debit_at(Some("eu"), "k", &[("rpm", 1)])
        .wait()
        .unwrap();
    let all = chat.forecast(None, "k", &[("rpm", 1)]).wait().unwrap();
    let spendable = |foreseen: &tidegate_service::MemberForecast| {
        let rpm = foreseen.limits.iter().find(|(name, _)| name == "rpm");
        (foreseen.member.clone().unwrap(), rpm.unwrap().1.spendable)
    };
    let told: Vec<_> = all.iter().map(spendable).collect();
    assert_eq!(told, [("eu".into(), 1), ("us".into(), 2)]);
    let one = chat
        .forecast(Some("us"), "k", &[("rpm", 1)])
        .wait()
        .unwrap();
    assert_eq!(one.len(), 1);
    let peeked = chat.peek_at(Some("eu"), "k", &[("rpm", 2)]).wait().unwrap();
    assert!(!peeked.admitted());
    assert!(chat.peek("k", &[("rpm", 2)]).wait().unwrap().admitted());
}

#[test]
fn a_member_that_dropped_work_cools_down() {
    let (service, time) = service(CHAT);
    let chat = chat(&service);
    let dropped = Report {
        outcome: Outcome::Dropped,
        cool_down: None,
    };
    let lease = granted(&chat, "k");
    let finished = release(&chat, "k", lease.id, &dropped);
    assert_eq!(finished.member.as_deref(), Some("eu"));
    let until = finished.cooling_until.unwrap();
    assert_eq!(
        until.since(chat.now()).as_duration(),
        Duration::from_secs(30)
    );
    // A retry does not make it longer.
    time.advance(Duration::from_secs(10));
    let again = release(&chat, "k", lease.id, &dropped);
    assert_eq!(again.cooling_until, Some(until));
    assert_eq!(granted(&chat, "other").member(), Some("us"));
    time.advance(Duration::from_secs(20));
    let lease = granted(&chat, "other");
    assert_eq!(lease.member(), Some("eu"));
    // The provider has said how long.
    let said = Report {
        cool_down: Some(Duration::from_secs(5)),
        ..Report::default()
    };
    let finished = release(&chat, "other", lease.id, &said);
    let until = finished.cooling_until.unwrap();
    assert_eq!(
        until.since(chat.now()).as_duration(),
        Duration::from_secs(5)
    );
}

#[test]
fn nothing_cools_down_where_there_is_no_pool() {
    let (service, _) = service("[policy.chat.limits]\nslots = { concurrency = 1 }\n");
    let chat = chat(&service);
    let lease = granted(&chat, "k");
    let report = Report {
        cool_down: Some(Duration::from_secs(1)),
        ..Report::default()
    };
    let refused = chat.finish(Key::from("k"), lease.id, Finish::Release, &report);
    assert!(matches!(refused.wait(), Err(ServiceError::NoPool)));
    assert!(
        chat.debit_at(Some("eu"), "k", &[("slots", 0)])
            .wait()
            .is_err()
    );
    assert!(chat.release(Key::from("k"), lease.id).wait().is_ok());
}

#[test]
fn the_least_loaded_member_is_told_by_leases_that_end_and_expire() {
    let text = "[policy.chat]\nbalancer = 'least_loaded'\nttl = '10s'\n\
        member.a.limits.slots = { concurrency = 9 }\nmember.b.limits.slots = { concurrency = 9 }\n";
    let (service, time) = service(text);
    let chat = chat(&service);
    let loads = || -> Vec<u64> { chat.members().iter().map(|m| m.load()).collect() };
    let leases: Vec<GrantedLease> = (0..4).map(|_| granted(&chat, "k")).collect();
    assert_eq!(loads(), [2, 2]);
    for lease in leases.iter().filter(|lease| lease.member() == Some("a")) {
        chat.release(Key::from("k"), lease.id).wait().unwrap();
    }
    assert_eq!(loads(), [0, 2]);
    assert_eq!(granted(&chat, "k").member(), Some("a"));
    time.advance(Duration::from_secs(11));
    assert_eq!(loads(), [0, 0]);
}

#[test]
fn members_come_and_go_and_nobody_is_reset() {
    let (service, _) = service(CHAT);
    let before = chat(&service);
    let eu = granted(&before, "k");
    let us = before.debit_at(Some("us"), "k", &[("rpm", 1)]);
    assert!(us.wait().is_ok());
    let asia = "[policy.chat.member.asia.limits]\nrpm = { calls = 5, per = '1h' }\n";
    let wider = CHAT.replace("calls = 2", "calls = 3") + asia;
    service.exchange("test", &file(&wider)).unwrap();
    let after = chat(&service);
    let left = |member: &str| {
        let peeked = after
            .peek_at(Some(member), "k", &[("rpm", 1)])
            .wait()
            .unwrap();
        peeked.standing("rpm").unwrap().remaining
    };
    assert_eq!((left("eu"), left("us"), left("asia")), (2, 2, 5));
    assert_eq!(after.members()[0].load(), 1);
    let finished = release(&after, "k", eu.id, &Report::default());
    assert_eq!(finished.member.as_deref(), Some("eu"));
    assert_eq!(after.members()[0].load(), 0);
    // And one goes; the others stay as they are, cool-downs included.
    after.members()[0].cool_down(Duration::from_secs(60));
    let without = wider.replace("member.us", "member.gone").replace(asia, "");
    let without = &without[..without.find("[policy.chat.member.gone]").unwrap()];
    service.exchange("test", &file(without)).unwrap();
    let last = chat(&service);
    let names: Vec<&str> = last.members().iter().map(|m| m.name()).collect();
    assert_eq!(names, ["eu"]);
    assert!(last.members()[0].cooling().is_some());
    assert!(matches!(acquire(&last, "k"), Acquired::Refused(_)));
}

#[test]
fn who_waits_for_a_pool_is_served_by_whichever_member_is_free_first() {
    let (service, time) = service(
        "[policy.chat]\nmember.a.limits.slots = { concurrency = 1 }\n\
         member.b.limits.slots = { concurrency = 1 }\n",
    );
    let chat = chat(&service);
    let (first, second) = (granted(&chat, "k"), granted(&chat, "k"));
    let request = Request::default().within(Duration::from_secs(60));
    let mut waiting = std::pin::pin!(chat.acquire(Key::from("k"), request));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    assert_eq!(chat.waiting(), 1);
    time.advance(Duration::from_secs(1));
    chat.release(Key::from("k"), second.id).wait().unwrap();
    let std::task::Poll::Ready(Ok(Acquired::Granted(granted))) =
        waiting.as_mut().poll(&mut context)
    else {
        panic!("a member is free");
    };
    assert_eq!(granted.member(), second.member());
    assert_ne!(granted.member(), first.member());
}

#[test]
fn a_policy_in_shadow_records_and_refuses_nobody() {
    let (service, _) = service(
        "[policy.chat]\nshadow = true\n[policy.chat.limits]\n\
        rpm = { calls = 1, per = '1h' }\nslots = { concurrency = 1 }\n",
    );
    let chat = chat(&service);
    assert!(!granted(&chat, "k").shadowed);
    assert!(granted(&chat, "k").shadowed);
    let Charge::Decided(decision) = chat.check("k", &[("slots", 0)]).wait().unwrap() else {
        panic!("it decides");
    };
    assert!(decision.admitted() && decision.shadowed());
}

#[test]
fn a_policys_ttl_is_that_of_leases_that_do_not_say() {
    let (service, _) = service("[policy.chat]\nttl = '7s'\nlimits.slots = { concurrency = 9 }\n");
    let chat = chat(&service);
    let lasts = |granted: &GrantedLease| granted.expires_at.since(chat.now()).as_duration();
    assert_eq!(lasts(&granted(&chat, "k")), Duration::from_secs(7));
    let request = Request::default().ttl(Duration::from_secs(2));
    match now(chat.acquire(Key::from("k"), request)).unwrap() {
        Acquired::Granted(granted) => assert_eq!(lasts(&granted), Duration::from_secs(2)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refusal_names_the_level() {
    let (service, _) = service(
        "[policy.chat]\nkey = 'org/user'\n[policy.chat.limits]\n\
        all = { calls = 2, per = '1h', level = 'org' }\neach = { calls = 1, per = '1h' }\n",
    );
    let chat = chat(&service);
    let refused = |key: &str| match chat.check(key, Request::default()).wait().unwrap() {
        Charge::Decided(decision) => decision.binding_level().map(str::to_owned),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused("acme/alice"), None);
    assert_eq!(refused("acme/alice").as_deref(), Some("user"));
    assert_eq!(refused("acme/bob"), None);
    assert_eq!(refused("acme/carol").as_deref(), Some("org"));
}

/// Leases are in the store, and so are found again after a restart.
#[test]
fn a_restart_finds_the_members_leases_again() {
    let time = ManualClock::default();
    let store: Arc<dyn tidegate::Store> = Arc::new(tidegate_memory::MemoryStore::default());
    let build = || {
        let builder = Service::builder()
            .clock(time.clock())
            .store(Arc::clone(&store));
        builder.build(&file(CHAT)).unwrap()
    };
    let ids: Vec<LeaseId> = {
        let service = build();
        let chat = chat(&service);
        (0..3).map(|_| granted(&chat, "k").id).collect()
    };
    let service = build();
    let chat = chat(&service);
    for id in ids {
        assert!(!chat.release(Key::from("k"), id).wait().unwrap().repeated());
    }
}

#[test]
fn a_pool_lists_its_keys_and_leases_member_by_member() {
    let (service, _) = service(CHAT);
    let chat = chat(&service);
    let caller = service.enter(None).unwrap();
    for key in ["ann", "ann", "bob"] {
        granted(&chat, key);
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = PageOf {
            select: Select::All,
            after: after.as_deref(),
            most: 1,
        };
        let page = chat.list_leases(page).wait().unwrap();
        seen.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let named = |held: &PublicLease| {
        let key = String::from_utf8(held.key.clone()).unwrap();
        (held.member.clone().unwrap(), key)
    };
    let mut names: Vec<_> = seen.iter().map(named).collect();
    names.sort();
    let pair = |member: &str, key: &str| (member.to_owned(), key.to_owned());
    assert_eq!(
        names,
        [pair("eu", "ann"), pair("eu", "ann"), pair("eu", "bob")]
    );
    let one = |member| PageOf {
        select: Select::Key(b"ann"),
        after: member,
        most: 10,
    };
    let page = chat.list_keys(one(None)).wait().unwrap();
    assert_eq!(page.items[0].decision.member(), Some("eu"));
    let end = page.next.expect("another member follows");
    assert_eq!(chat.list_keys(one(Some(&end))).wait().unwrap().next, None);
    let strange = chat.list_keys(one(Some(&[9, 9]))).wait().unwrap_err();
    assert_eq!(strange.kind(), Kind::Invalid);
    let of_bob = seen.iter().position(|held| held.key == b"bob").unwrap();
    let handle = seen[of_bob].handle;
    let bob = Key::from("bob");
    let lease = chat.find_lease(bob, handle).wait().unwrap();
    let ended = chat.revoke(&caller, bob, lease);
    assert_eq!(ended.wait().unwrap().member.as_deref(), Some("eu"));
}

/// One cost is that of one unit: the member's that is named, or else of all.
#[test]
fn a_cost_is_in_the_unit_of_the_member_that_is_named() {
    let (service, _) = service(
        "[policy.p.member.eu]\nlimits.usd = { budget = '2.00', per = '1h', unit = '0.01' }\n\
         [policy.p.member.us]\nlimits.tpm = { rate = 1000, per = '1h' }\n",
    );
    let caller = service.enter(None).unwrap();
    let request = |member, cost| Question {
        policy: "p",
        whose: Whose::Key(b"k"),
        member,
        cost: Some(Number::Decimal(cost)),
        ..Question::default()
    };
    let debit = |member, cost| now(service.call(&caller, Call::Debit(request(member, cost))));
    let Ok(Answer::Charged(decided)) = debit(Some("eu"), "0.75") else {
        panic!("it is charged");
    };
    let told = decided.told();
    let left: Vec<_> = told
        .limits()
        .map(|s| (s.name, s.standing.remaining))
        .collect();
    assert_eq!(left, [("usd", 125)]);
    assert!(matches!(debit(Some("us"), "7"), Ok(Answer::Charged(_))));
    let fraction = debit(Some("us"), "0.75").unwrap_err();
    assert!(
        fraction.to_string().starts_with("limit `tpm`: "),
        "{fraction}"
    );
    let any = now(service.call(&caller, Call::Check(request(None, "1")))).unwrap_err();
    assert_eq!(
        any.to_string(),
        "limits `usd` and `tpm` have different units, so that one cost cannot be of both; \
         name their amounts instead"
    );
}

#[test]
fn a_lease_of_a_pool_is_settled_and_adjusted_by_a_cost_in_the_one_unit_of_its_members() {
    let (service, _) = service(
        "[policy.p]\nbalancer = 'first_available'\n[policy.p.member.eu]\n\
         limits.usd = { budget = '2.00', per = '1h', unit = '0.01' }\n\
         limits.rpm = { calls = 9, per = '1h' }\n[policy.p.member.us]\n\
         limits.eur = { budget = '1.00', per = '1h', unit = '0.01' }\n\
         [policy.mixed.member.eu]\n\
         limits.usd = { budget = '2.00', per = '1h', unit = '0.01' }\n\
         [policy.mixed.member.us]\nlimits.tpm = { rate = 1000, per = '1h' }\n",
    );
    let caller = service.enter(None).unwrap();
    let of = |policy, lease| OfLease {
        policy,
        whose: Whose::Key(b"k"),
        lease,
    };
    let question = Question {
        policy: "p",
        whose: Whose::Key(b"k"),
        cost: Some(Number::Decimal("0.75")),
        ..Question::default()
    };
    let acquire = Call::Acquire(question, Terms::default());
    let Ok(Answer::Acquired(acquisition)) = now(service.call(&caller, acquire)) else {
        panic!("it is answered");
    };
    acquisition.lease.as_ref().unwrap().deliver();
    let Acquired::Granted(granted) = &acquisition.acquired else {
        panic!("it fits");
    };
    let cost = |cost| Uses {
        cost: Some(Number::Decimal(cost)),
        ..Uses::default()
    };
    let adjust = Call::Adjust(of("p", granted.id), cost("1.50"), false);
    let Ok(Answer::Decided(decided)) = now(service.call(&caller, adjust)) else {
        panic!("it fits");
    };
    let told = decided.told();
    let mut left = told.limits().map(|s| (s.name, s.standing.remaining));
    assert!(left.any(|left| left == ("usd", 50)));
    let settle = |policy, cost| Call::Settle(of(policy, granted.id), Report::default(), cost);
    let finer = now(service.call(&caller, settle("p", cost("0.125")))).unwrap_err();
    assert_eq!(finer.kind(), Kind::Invalid);
    let mixed = now(service.call(&caller, settle("mixed", cost("0.50")))).unwrap_err();
    assert!(mixed.to_string().contains("different units"), "{mixed}");
    let Ok(Answer::Finished(_, finished)) = now(service.call(&caller, settle("p", cost("0.50"))))
    else {
        panic!("it is held");
    };
    let usage = |name| finished.settlement.usage(name).map(|u| (u.taken, u.used));
    assert_eq!(
        (usage("usd"), usage("rpm")),
        (Some((150, 50)), Some((1, 1)))
    );
    let nothing = Call::Adjust(of("none", granted.id), Uses::default(), true);
    let nothing = now(service.call(&caller, nothing)).unwrap_err();
    assert!(nothing.to_string().starts_with("`amounts`: "), "{nothing}");
}
