//! The service that every protocol asks.

#[path = "support/away.rs"]
mod away;
#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Key, ManualClock, Request};
use tidegate_memory::MemoryStore;
use tidegate_service::{
    Acquired, Charge, Credential, Kind, MOST_RATES, OverrideTarget, Rate, Scope, Service,
    ServiceError, Sort,
};

use away::Away;
use support::{file, now};

const CHAT: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n\
                    running = { concurrency = 1 }\n";

fn service(text: &str) -> (Service, ManualClock) {
    let time = ManualClock::default();
    let service = Service::builder().clock(time.clock()).build(&file(text));
    (service.unwrap(), time)
}

fn left(service: &Service, limit: &str) -> u64 {
    let caller = service.enter(None).unwrap();
    let chat = service.policy(&caller, Scope::Observe, "chat").unwrap();
    let peek = chat.peek("k", &[(limit, 1)]).wait().unwrap();
    peek.standing(limit).unwrap().remaining
}

#[test]
fn an_exchange_of_policies_resets_nobody() {
    let (service, _) = service(CHAT);
    let caller = service.enter(None).unwrap();
    let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
    let four = Request::named(&[("rpm", 4), ("running", 0)]);
    assert!(chat.check("k", four).wait().unwrap().admitted());
    let raised = CHAT.replace("calls = 10", "calls = 12") + "more = { rate = 5, per = '1h' }\n";
    let changes = service.exchange("test", &file(&raised)).unwrap();
    let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "~ limit chat.rpm: calls 10 -> 12 (from the next decision on; no request waits longer)",
            "+ limit chat.more (from the next decision on; nothing of it is used yet)"
        ]
    );
    assert_eq!((left(&service, "rpm"), left(&service, "more")), (8, 5));
    assert!(service.exchange("test", &file(&raised)).unwrap().is_empty());
    // Whoever held the policy before goes on with the new limits.
    assert_eq!(chat.set().limits().len(), 3);
}

/// As texts, `9.05` is more than `10`.
#[test]
fn a_decimal_amount_is_raised_and_lowered_as_any_other() {
    let spend = |budget: &str| {
        let limit = format!("usd = {{ budget = '{budget}', per = '1h', unit = '0.01' }}");
        file(&format!("[policy.spend.limits]\n{limit}\n"))
    };
    let time = ManualClock::default();
    let service = Service::builder().clock(time.clock()).build(&spend("9.05"));
    let service = service.unwrap();
    for (budget, sort) in [
        ("10", Sort::Raised),
        ("9.50", Sort::Lowered),
        ("9.5", Sort::Changed),
    ] {
        let changes = service.exchange("test", &spend(budget)).unwrap();
        let sorts: Vec<_> = changes.iter().map(|change| change.sort).collect();
        match sort {
            // It says the same otherwise.
            Sort::Changed => assert_eq!(sorts, [], "{budget}"),
            sort => assert_eq!(sorts, [sort], "{budget}"),
        }
    }
}

#[test]
fn a_policy_that_is_gone_is_not_found() {
    let (service, _) = service(CHAT);
    service
        .exchange("test", &file(&CHAT.replace("chat", "talk")))
        .unwrap();
    let caller = service.enter(None).unwrap();
    let gone = service.policy(&caller, Scope::Decide, "chat").unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
    assert_eq!(
        gone.to_string(),
        "there is no policy `chat`; there is `talk`"
    );
}

#[test]
fn a_token_opens_its_policies_only() {
    let (service, _) = service(CHAT);
    service.replace_credentials([Credential {
        name: "ci".into(),
        sha256: Credential::hash("secret"),
        scopes: vec![Scope::Decide],
        policies: vec!["chat".into()],
        namespace: None,
    }]);
    assert_eq!(
        service.enter(None).unwrap_err(),
        ServiceError::Unauthenticated
    );
    // It said that a token is needed, of one that was sent.
    let guess = service.enter(Some("guess")).unwrap_err();
    assert_eq!(guess, ServiceError::UnknownToken);
    assert_eq!(guess.kind(), Kind::Unauthenticated);
    let caller = service.enter(Some("secret")).unwrap();
    assert!(service.policy(&caller, Scope::Decide, "chat").is_ok());
    for (scope, name) in [(Scope::Administer, "chat"), (Scope::Decide, "other")] {
        let refused = service.policy(&caller, scope, name).unwrap_err();
        assert_eq!(refused.kind(), Kind::Forbidden, "{scope} {name}");
    }
    assert!(service.policies(&caller).is_empty());
}

#[test]
fn who_may_use_some_policies_is_not_told_the_names_of_others() {
    let (service, _) = service(&format!(
        "{CHAT}[policy.web-eu.limits]\nrpm = {{ calls = 1, per = '1s' }}\n"
    ));
    service.replace_credentials([Credential {
        name: "web".into(),
        sha256: Credential::hash("secret"),
        scopes: vec![Scope::Decide],
        policies: vec!["web-*".into()],
        namespace: None,
    }]);
    let caller = service.enter(Some("secret")).unwrap();
    let unknown = service
        .policy(&caller, Scope::Decide, "web-us")
        .unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no policy `web-us`; there is `web-eu`"
    );
}

#[test]
fn a_lease_is_settled_by_its_id() {
    let (service, time) = service(CHAT);
    let caller = service.enter(None).unwrap();
    let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
    let Acquired::Granted(granted) = now(chat.acquire(Key::from("k"), Request::default())).unwrap()
    else {
        panic!("it fits");
    };
    let again = now(chat.acquire(Key::from("k"), Request::default())).unwrap();
    assert!(matches!(again, Acquired::Refused(_)));
    chat.cancel(Key::from("k"), granted.id).wait().unwrap();
    assert_eq!((left(&service, "rpm"), left(&service, "running")), (10, 1));
    assert!(
        chat.release(Key::from("k"), granted.id)
            .wait()
            .unwrap()
            .repeated()
    );
    time.advance(Duration::from_secs(3_600));
    let forgotten = chat.release(Key::from("k"), granted.id).wait().unwrap_err();
    assert_eq!(forgotten.kind(), Kind::NotFound);
}

/// It counted as a store that cannot tell, so whoever filled a table lifted all
/// limits of a policy whose failure mode is to admit.
#[test]
fn a_full_table_is_an_answer_of_its_own_whatever_the_failure_mode() {
    for mode in ["'admit'", "'deny'", "'share'\nshare = 50"] {
        let text = format!(
            "[policy.chat]\nmax_keys = 1\nmax_leases = 2\nmax_leases_per_root = 1\n\
             failure_mode = {mode}\n{CHAT}"
        );
        let (service, _) = service(&text);
        let caller = service.enter(None).unwrap();
        let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
        let request = Request::named(&[("running", 0)]);
        assert!(matches!(
            chat.check("a", request).wait(),
            Ok(Charge::Decided(_))
        ));
        let full = chat.check("b", request).wait().unwrap_err();
        assert_eq!((full.kind(), full.kind().code()), (Kind::Full, "full"));
        let acquire = || now(chat.acquire(Key::from("a"), request));
        assert!(matches!(acquire(), Ok(Acquired::Granted(_))));
        assert_eq!(acquire().unwrap_err().kind(), Kind::Full);
    }
}

#[test]
fn a_store_that_is_away_is_answered_as_the_failure_mode_says() {
    let open = "[policy.chat]\nfailure_mode = 'admit'\n".to_owned() + CHAT;
    let service = Service::builder().store(Arc::new(Away));
    let service = service.build(&file(&open)).unwrap();
    let caller = service.enter(None).unwrap();
    let request = Request::named(&[("running", 0)]);
    let check = || {
        let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
        chat.check("b", request).wait()
    };
    assert!(matches!(check(), Ok(Charge::Degraded(_))));
    let closed = open.replace("'admit'", "'deny'");
    service.exchange("test", &file(&closed)).unwrap();
    assert_eq!(check().unwrap_err().kind(), Kind::Unavailable);
}

#[test]
fn a_service_that_closes_answers_everyone_who_waits() {
    let (service, _) = service(CHAT);
    let caller = service.enter(None).unwrap();
    let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
    let _held = now(chat.acquire(Key::from("k"), Request::default())).unwrap();
    let request = Request::default().within(Duration::from_secs(10));
    let mut waiting = Box::pin(chat.acquire(Key::from("k"), request));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    service.close();
    assert_eq!(now(waiting).unwrap_err().kind(), Kind::Unavailable);
}

/// `count` each second, two at once.
fn rate(count: u64) -> Rate {
    Rate {
        capacity: 2,
        count,
        period_secs: 1,
    }
}

#[test]
fn a_rate_that_comes_with_the_call_is_the_policy_throttle_to_tokens() {
    let (service, _) = service(CHAT);
    let anyone = service.enter(None).unwrap();
    let active = service.ad_hoc(&anyone, rate(1)).wait().unwrap();
    assert!(active.check("k", 2).wait().unwrap().admitted());
    assert!(!active.check("k", 1).wait().unwrap().admitted());
    let token = |name: &str, policy: &str| Credential {
        name: name.into(),
        sha256: Credential::hash(name),
        scopes: vec![Scope::Decide],
        policies: vec![policy.into()],
        namespace: None,
    };
    let before = service.generation();
    service.replace_credentials([token("a", "throttle"), token("b", "chat")]);
    assert!(service.generation() > before);
    assert!(service.readmit(&anyone).is_err());
    let may = |token| {
        service
            .ad_hoc(&service.enter(Some(token)).unwrap(), rate(1))
            .wait()
    };
    assert!(may("a").is_ok());
    assert_eq!(may("b").unwrap_err().kind(), Kind::Forbidden);
}

#[test]
fn rates_that_come_with_the_call_are_bounded_and_spent_ones_make_room() {
    let (service, time) = service(CHAT);
    let caller = service.enter(None).unwrap();
    let check = |count| {
        let active = service.ad_hoc(&caller, rate(count)).wait()?;
        Ok(active.check("k", 2).wait()?.admitted())
    };
    for count in 1..=MOST_RATES as u64 {
        assert_eq!(check(count), Ok(true));
    }
    let one_more = MOST_RATES as u64 + 1;
    let full: Result<bool, ServiceError> = check(one_more);
    assert_eq!(full.unwrap_err().kind(), Kind::Busy);
    // Half a second later most are as good as new; the slowest are not.
    time.advance(Duration::from_millis(500));
    assert_eq!(check(one_more), Ok(true));
    assert_eq!(
        (check(1), check(2), check(4)),
        (Ok(false), Ok(false), Ok(true))
    );
}

/// As `tidegate serve` has it: all state in one store.
fn service_with_store(text: &str) -> (Service, ManualClock) {
    let time = ManualClock::default();
    let builder = Service::builder().clock(time.clock());
    let builder = builder.store(Arc::new(MemoryStore::default()));
    (builder.build(&file(text)).unwrap(), time)
}

/// With a store, a thousand rates since the start were all that there ever were.
#[test]
fn rates_that_nobody_has_used_for_long_make_room_in_a_store() {
    let (service, time) = service_with_store(CHAT);
    let caller = service.enter(None).unwrap();
    let check = |count| {
        let active = service.ad_hoc(&caller, rate(count)).wait()?;
        Ok(active.check("k", 2).wait()?.admitted())
    };
    let most = MOST_RATES as u64;
    for count in 1..=3 * most {
        let admitted: Result<bool, ServiceError> = check(count);
        assert_eq!(admitted, Ok(true), "{count}");
        // Some are used more than once.
        assert!(!count.is_multiple_of(3) || check(count) == Ok(false));
        if count % most == 0 {
            time.advance(Duration::from_secs(2));
        }
    }
    // One that had made room begins anew.
    assert_eq!((check(1), check(1)), (Ok(true), Ok(false)));
}

#[test]
fn one_token_cannot_take_all_rates_that_come_with_the_call() {
    let (service, _) = service_with_store(CHAT);
    let token = |name: &str| Credential {
        name: name.into(),
        sha256: Credential::hash(name),
        scopes: vec![Scope::Decide],
        policies: vec!["throttle".into()],
        namespace: None,
    };
    service.replace_credentials([token("hostile"), token("victim")]);
    let request = |name: &str, count| {
        let caller = service.enter(Some(name)).unwrap();
        let active = service.ad_hoc(&caller, rate(count)).wait()?;
        active.check("k", 1).wait().map(drop)
    };
    let most = MOST_RATES as u64 / 4;
    for count in 1..=most {
        request("hostile", count).unwrap();
    }
    let full = request("hostile", most + 1).unwrap_err();
    assert_eq!(full, ServiceError::TooManyRates(MOST_RATES / 4));
    assert_eq!(full.kind(), Kind::Busy);
    request("hostile", 1).expect("it is there already");
    request("victim", most + 1).expect("there is room for others");
    request("hostile", most + 1).expect("somebody else asked for it first");
}

/// With a store, which a server always has, it was not looked at.
#[test]
fn bounds_of_a_policy_hold_in_the_services_store() {
    let text = "[policy.chat]\nmax_keys = 2\nmax_leases = 9\nmax_leases_per_root = 1\n\
                remember = '1s'\n[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n";
    let (service, time) = service_with_store(text);
    let caller = service.enter(None).unwrap();
    let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
    let acquire = |key| now(chat.acquire(Key::from(key), Request::default()));
    let Ok(Acquired::Granted(granted)) = acquire("a") else {
        panic!("it fits");
    };
    assert!(acquire("a").is_err(), "one lease for each key");
    assert!(chat.check("b", 1).wait().unwrap().admitted());
    assert!(chat.check("c", 1).wait().is_err(), "two keys");
    chat.release(Key::from("a"), granted.id).wait().unwrap();
    assert!(
        chat.release(Key::from("a"), granted.id)
            .wait()
            .unwrap()
            .repeated()
    );
    time.advance(Duration::from_secs(1));
    let forgotten = chat.release(Key::from("a"), granted.id).wait().unwrap_err();
    assert_eq!(forgotten.kind(), Kind::NotFound);
}

/// The store kept its table for good, and a policy of that name went on with it.
#[test]
fn the_state_of_a_policy_that_is_gone_is_forgotten_in_the_store() {
    let (service, _) = service_with_store(CHAT);
    let used = || {
        let caller = service.enter(None).unwrap();
        let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
        let four = Request::named(&[("rpm", 4), ("running", 0)]);
        assert!(chat.check("k", four).wait().unwrap().admitted());
        chat
    };
    used();
    service
        .exchange("test", &file(&CHAT.replace("chat", "talk")))
        .unwrap();
    service.exchange("test", &file(CHAT)).unwrap();
    assert_eq!(left(&service, "rpm"), 10);
    // Also while somebody is being answered by the old one.
    let old = used();
    service
        .exchange("test", &file(&CHAT.replace("chat", "talk")))
        .unwrap();
    service.exchange("test", &file(CHAT)).unwrap();
    assert_eq!(left(&service, "rpm"), 10);
    drop(old);
}

#[test]
fn a_change_of_a_tier_says_what_of_its_units_may_be_out() {
    let with = |tier: &str| {
        file(&format!(
            "[policy.a]\n{tier}\n[policy.a.limits]\nrpm = {{ calls = 6_000, per = '1m' }}\n"
        ))
    };
    let effect = |old: &str, new: &str| {
        let changes = tidegate_service::compare(&with(old), &with(new));
        let [change] = &changes[..] else {
            panic!("one change: {changes:?}");
        };
        assert_eq!(change.setting.as_deref(), Some("tier"));
        change.effect.to_string()
    };
    let few = "tier = { mode = 'leased', batch = 100, outstanding = 1_000, hold = '5s' }";
    let any = "tier = { mode = 'leased', batch = 100 }";
    let refusals = "tier = { mode = 'refusals' }";
    assert_eq!(
        effect("", few),
        "from the next start on; up to 1000 units of `rpm` may be out for 5s"
    );
    assert_eq!(
        effect(few, any),
        "from the next start on; each server takes 100 units of `rpm` at a time, or what all \
         requests that wait for them need, for 1s, and no number bounds all that is out; what a \
         server has out goes back when it stops, or is lost for 5s at most"
    );
    let large = "tier = { mode = 'leased', batch = 10_000 }";
    assert!(effect("", large).contains("takes 6000 units"));
    assert_eq!(
        effect(any, refusals),
        "from the next start on; what a server has out goes back when it stops, or is lost for 1s \
         at most"
    );
    assert_eq!(effect(refusals, ""), "from the next start on");
}

/// Of the limits of an exact tier 300 may be too few: 400 may be out.
#[test]
fn an_override_of_a_policy_that_exact_leaves_nothing_is_refused_or_passed_over() {
    let limits = "[policy.chat.limits]\nrps = { calls = 1_000, per = '1s' }\n";
    let exact = "[policy.chat]\ntier = { mode = 'leased', batch = 50, outstanding = 400, \
                 hold = '2s', exact = true }\n";
    let store = Arc::new(MemoryStore::default());
    let start = |text: &str| {
        let store = Arc::<MemoryStore>::clone(&store);
        let service = Service::builder().store(store).build(&file(text));
        service.expect("a server starts")
    };
    let own = [tidegate::Limit::calls("rps", 300, Duration::from_secs(1))];
    let everything = OverrideTarget::everything();
    for target in [everything.clone().of_policy("chat"), everything] {
        let service = start(&format!("{exact}{limits}"));
        let caller = service.enter(None).unwrap();
        let told = service.set_override(&caller, &target, &own).wait();
        assert!(matches!(told, Err(ServiceError::Override(_))), "{told:?}");
        drop(service);
        drop(start(&format!("{exact}{limits}")));
        // Another policy may have one of that name; or it was there before the tier.
        let other = limits.replace("chat", "other");
        let (before, then) = match target.policy {
            None => (format!("{exact}{limits}{other}"), None),
            Some(_) => (limits.to_owned(), Some(format!("{exact}{limits}"))),
        };
        let service = start(&before);
        let kept = service.set_override(&caller, &target, &own).wait();
        assert!(kept.is_ok(), "{kept:?}");
        drop(service);
        let service = start(&then.unwrap_or(before));
        let chat = service.policy(&caller, Scope::Observe, "chat").unwrap();
        let peek = chat.peek("k", &[("rps", 1)]).wait().unwrap();
        assert_eq!(peek.standing("rps").unwrap().limit, 600, "{target}");
        let shown = service.override_at(&caller, &target).unwrap().unwrap();
        let is_inert = target.policy.is_some();
        assert_eq!(!shown.inert.is_empty(), is_inert, "{target}");
        let removed = service.remove_override(&caller, &target).wait();
        assert!(removed.unwrap());
    }
}

/// The tier by which a server was started binds until the next start.
#[test]
fn an_exchange_whose_limits_do_not_fit_the_running_tier_changes_nothing() {
    let text = |calls: u64, rps: u64, tier: &str| {
        let other =
            |nth| format!("[policy.p{nth}.limits]\nrpm = {{ calls = {calls}, per = '1h' }}\n");
        let others = (0..8).map(other).collect::<String>();
        format!(
            "{others}[policy.b]\ntier = {{ mode = 'leased', batch = 5, exact = true, {tier} }}\n\
             [policy.b.limits]\nrps = {{ calls = {rps}, per = '1s' }}\n"
        )
    };
    let few = "outstanding = 5, hold = '10ms'";
    let (service, _) = service(&text(10, 1_000, "outstanding = 400, hold = '2s'"));
    let caller = service.enter(None).unwrap();
    let all_have = |limit: u64| {
        for nth in 0..8 {
            let policy = service.policy(&caller, Scope::Observe, &format!("p{nth}"));
            let peek = policy.unwrap().peek("k", &[("rpm", 1)]).wait().unwrap();
            assert_eq!(peek.standing("rpm").unwrap().limit, limit, "p{nth}");
        }
    };
    let done = service.exchange("test", &file(&text(20, 300, few)));
    assert!(done.is_err(), "{done:?}");
    all_have(10);
    let done = service.exchange("test", &file(&text(20, 500, few)));
    assert!(done.is_ok(), "{done:?}");
    all_have(20);
}

#[test]
fn what_changes_is_told_setting_by_setting_with_what_it_means() {
    let old = "[policy.a]\nkey = 'org/user'\n[policy.a.limits]\n\
        rpm = { calls = 10, per = '60s' }\nslots = { concurrency = 4 }\n\
        [policy.b.limits]\nx = { concurrency = 1 }\n\
        [policy.c]\nbalancer = 'random'\nmember.eu.limits.x = { calls = 5, per = '1m' }\n\
        member.us.limits.x = { calls = 5, per = '1m' }\n";
    let new = "[policy.a]\nkey = 'org/team/user'\nttl = '5s'\n[policy.a.limits]\n\
        rpm = { calls = 12, per = '1m', algorithm = 'sliding_log' }\nslots = { concurrency = 3 }\n\
        [policy.c]\nbalancer = 'weighted'\nmember.eu.limits.x = { calls = 5, per = '1m' }\n\
        member.eu.weight = 2\nmember.asia.limits.x = { calls = 5, per = '1m' }\n\
        [policy.d.limits]\nx = { concurrency = 1 }\n";
    let changes = tidegate_service::compare(&file(old), &file(new));
    let told = |change: &tidegate_service::Change| {
        let setting = change.setting.clone().unwrap_or_default();
        format!("{} {} {setting}", change.sort.name(), change.subject())
    };
    let told: Vec<String> = changes.iter().map(told).collect();
    assert_eq!(
        told,
        [
            "removed policy b ",
            "changed policy a ttl",
            "changed policy a key",
            "raised limit a.rpm calls",
            "changed limit a.rpm algorithm",
            "lowered limit a.slots concurrency",
            "changed policy c balancer",
            "removed member c/us ",
            "changed member c/eu weight",
            "added member c/asia ",
            "added policy d ",
        ]
    );
    assert_eq!(
        changes[2].effect,
        "keys are others: their state begins anew"
    );
    assert_eq!(changes[3].was.as_deref(), Some("10"));
    assert_eq!(changes[4].becomes.as_deref(), Some("sliding_log"));
    assert!(tidegate_service::compare(&file(new), &file(new)).is_empty());
}
