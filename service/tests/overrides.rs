//! Overrides at four levels: which holds, who may set them, what they outlive.

#[path = "support/faulty.rs"]
mod faulty;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use faulty::Faulty;
use proptest::prelude::*;
use tidegate::{BuildError, Limit, ManualClock, Store, Unit};
use tidegate_memory::MemoryStore;
use tidegate_policy::{PolicyFile, parse};
use tidegate_service::{
    Action, Answer, AuditListing, Call, Credential, Kind, Level, Number, OnlyIf, OverrideTarget,
    OverrideTerms, Scope, Service, ServiceError, Setting, Until, read_limits, settings_of,
};
use tidegate_store::{Change, Definition, Event, block_on};

const MINUTE: Duration = Duration::from_secs(60);
const TWO: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1m' }\n\
                   tpm = { rate = 20, per = '1m' }\n\
                   [policy.web.limits]\nrpm = { calls = 30, per = '1m' }\n";

fn file(text: &str) -> PolicyFile {
    parse("test.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn service_on(store: &Arc<dyn Store>, text: &str) -> Service {
    let time = ManualClock::default();
    let service = Service::builder()
        .clock(time.clock())
        .store(Arc::clone(store));
    service.build(&file(text)).unwrap()
}

fn service(text: &str) -> Service {
    service_on(&(Arc::<MemoryStore>::default() as _), text)
}

fn rpm(count: u64) -> Limit {
    Limit::calls("rpm", count, MINUTE)
}

fn set(service: &Service, target: &OverrideTarget, limit: Limit) {
    let caller = service.enter(None).unwrap();
    service
        .set_override(&caller, target, &[limit])
        .wait()
        .unwrap();
}

fn limit(service: &Service, policy: &str, key: &str, name: &str) -> u64 {
    let caller = service.enter(None).unwrap();
    let active = service.policy(&caller, Scope::Observe, policy).unwrap();
    let peek = active.peek(key, 1).wait().unwrap();
    peek.standing(name).unwrap().limit
}

/// At which levels the numbers of a key's limits are set.
fn levels_of(service: &Service, policy: &str, key: &str) -> Vec<Level> {
    let caller = service.enter(None).unwrap();
    let active = service.policy(&caller, Scope::Observe, policy).unwrap();
    let overridden = service.overridden(&active, None, key.into());
    overridden.into_iter().map(|(_, level)| level).collect()
}

const POLICIES: [(&str, u64); 2] = [("chat", 10), ("web", 30)];
const KEYS: [&str; 3] = ["acme", "else", "none"];

/// The places that a number stands for: every policy or one, every key or one.
fn target(policy_nth: usize, key_nth: usize) -> OverrideTarget {
    let mut target = OverrideTarget::everything();
    if let Some((policy, _)) = POLICIES.get(policy_nth) {
        target = target.of_policy(*policy);
    }
    match KEYS.get(key_nth) {
        Some(key) if key_nth < 2 => target.of_key(*key),
        _ => target,
    }
}

proptest! {
    // Each case opens many services.
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        cases: ProptestConfig::default().cases.min(500),
        ..ProptestConfig::default()
    })]

    /// Against a resolver without any index: four look-ups in a map.
    #[test]
    fn the_most_specific_override_holds(
        steps in prop::collection::vec((0_usize..3, 0_usize..3, prop::option::of(1_u64..500)), 1..25)
    ) {
        let service = service(TWO);
        let caller = service.enter(None).unwrap();
        let mut naive: HashMap<OverrideTarget, u64> = HashMap::new();
        for (policy, key, count) in steps {
            let target = target(policy, key);
            match count {
                Some(count) => {
                    set(&service, &target, rpm(count));
                    naive.insert(target, count);
                }
                None => {
                    let removed = service.remove_override(&caller, &target).wait().unwrap();
                    prop_assert_eq!(removed, naive.remove(&target).is_some());
                }
            }
            for (policy, written) in POLICIES {
                for key in KEYS {
                    let system = OverrideTarget::everything;
                    let order = [
                        system().of_policy(policy).of_key(key),
                        system().of_key(key),
                        system().of_policy(policy),
                        system(),
                    ];
                    let holds = order.iter().find(|target| naive.contains_key(target));
                    let expected = holds.map_or(written, |target| naive[target]);
                    prop_assert_eq!(limit(&service, policy, key, "rpm"), expected);
                    let levels: Vec<_> = holds.map(|target| target.level()).into_iter().collect();
                    prop_assert_eq!(levels_of(&service, policy, key), levels);
                }
            }
        }
    }
}

#[test]
fn an_exchange_of_policies_puts_overrides_over_the_new_limits() {
    let service = service(TWO);
    let caller = service.enter(None).unwrap();
    set(
        &service,
        &OverrideTarget::everything().of_key("acme"),
        rpm(100),
    );
    set(
        &service,
        &OverrideTarget::everything().of_policy("chat"),
        Limit::rate("tpm", 50, MINUTE),
    );
    let added = TWO.replace("calls = 10", "calls = 12")
        + "[policy.new.limits]\nrpm = { calls = 1, per = '1m' }\n";
    service.exchange("test", &file(&added)).unwrap();
    assert_eq!(limit(&service, "chat", "else", "rpm"), 12);
    assert_eq!(limit(&service, "new", "acme", "rpm"), 100);
    assert_eq!(limit(&service, "chat", "acme", "tpm"), 50);
    let without = "[policy.web.limits]\nother = { calls = 1, per = '1m' }\n";
    service.exchange("test", &file(without)).unwrap();
    let all = service.overrides(&caller, &OverrideTarget::everything(), None, 9);
    let inert: Vec<_> = all
        .iter()
        .map(|stored_override| stored_override.inert.join(","))
        .collect();
    assert_eq!(inert, ["rpm", "tpm"]);
    service.exchange("test", &file(TWO)).unwrap();
    assert_eq!(limit(&service, "web", "acme", "rpm"), 100);
    assert_eq!(limit(&service, "chat", "else", "tpm"), 50);
}

#[test]
fn overrides_are_kept_by_the_store() {
    let store = Arc::<MemoryStore>::default() as Arc<dyn Store>;
    let first = service_on(&store, TWO);
    set(
        &first,
        &OverrideTarget::everything()
            .of_key("acme")
            .of_policy("chat"),
        rpm(100),
    );
    set(&first, &OverrideTarget::everything(), rpm(40));
    drop(first);
    let again = service_on(&store, TWO);
    assert_eq!(limit(&again, "chat", "acme", "rpm"), 100);
    assert_eq!(limit(&again, "web", "acme", "rpm"), 40);
}

/// An earlier version kept its events of resets, revocations and applied policies under a key beside
/// the overrides: no server started there any more, and nothing could remove it.
#[test]
fn a_service_starts_where_an_earlier_version_kept_its_events_beside_overrides() {
    let store = Arc::<MemoryStore>::default() as Arc<dyn Store>;
    let first = service_on(&store, TWO);
    set(&first, &OverrideTarget::everything(), rpm(40));
    let define = |key: &[u8]| store.define("service", Definition::new(key, [1]));
    assert!(block_on(define(b"audit")).unwrap());
    // Whoever runs already passes it over, too.
    set(
        &first,
        &OverrideTarget::everything().of_key("acme"),
        rpm(70),
    );
    assert_eq!(limit(&first, "chat", "acme", "rpm"), 70);
    drop(first);
    let again = service_on(&store, TWO);
    assert_eq!(limit(&again, "chat", "else", "rpm"), 40);
    assert_eq!(limit(&again, "chat", "acme", "rpm"), 70);
    drop(again);
    // Nothing else is: what cannot be read keeps a service from its start.
    assert!(block_on(define(b"audits")).unwrap());
    let builder = Service::builder().store(Arc::clone(&store));
    assert!(builder.build(&file(TWO)).is_err());
}

#[test]
fn everything_wrong_with_an_override_is_told_at_once() {
    let service = service(TWO);
    let caller = service.enter(None).unwrap();
    let limits = [
        Limit::calls("rpn", 1, MINUTE),
        Limit::calls("tpm", 1, MINUTE),
        rpm(0),
    ];
    for target in [
        OverrideTarget::everything(),
        OverrideTarget::everything().of_key("k").of_policy("chat"),
    ] {
        match service.set_override(&caller, &target, &limits).wait() {
            Err(ServiceError::Override(errors)) => assert_eq!(errors.len(), 3),
            answer => panic!("{answer:?}"),
        }
        assert!(service.override_at(&caller, &target).unwrap().is_none());
    }
    let unknown = service
        .set_override(
            &caller,
            &OverrideTarget::everything().of_policy("no"),
            &[rpm(1)],
        )
        .wait();
    assert!(matches!(unknown, Err(ServiceError::UnknownPolicy { .. })));
    let chat = service.policy(&caller, Scope::Decide, "chat").unwrap();
    assert_eq!(
        chat.set().set_override("k", &[rpm(1)]).wait(),
        Err(BuildError::Governed)
    );
}

#[test]
fn only_who_administers_the_policy_sets_its_overrides() {
    let service = service(TWO);
    let credential = |scope, policies: &[&str]| Credential {
        name: "t".into(),
        sha256: Credential::hash("secret"),
        scopes: vec![scope],
        policies: policies.iter().map(|&p| p.to_owned()).collect(),
        namespace: None,
    };
    let chat = OverrideTarget::everything().of_policy("chat").of_key("k");
    let web = OverrideTarget::everything().of_policy("web");
    let may = |scope, policies: &[&str], target: &OverrideTarget| {
        service.replace_credentials([credential(scope, policies)]);
        let caller = service.enter(Some("secret")).unwrap();
        let set = service
            .set_override(&caller, target, &[rpm(5)])
            .wait()
            .is_ok();
        assert_eq!(service.remove_override(&caller, target).wait().is_ok(), set);
        set
    };
    assert!(may(Scope::Administer, &["chat"], &chat));
    assert!(!may(Scope::Administer, &["chat"], &web));
    assert!(!may(
        Scope::Administer,
        &["chat"],
        &OverrideTarget::everything()
    ));
    assert!(!may(
        Scope::Administer,
        &["chat"],
        &OverrideTarget::everything().of_key("k")
    ));
    assert!(!may(Scope::Decide, &[], &chat));
    assert!(may(Scope::Administer, &[], &OverrideTarget::everything()));
}

#[test]
fn limits_are_read_from_the_fields_they_are_shown_with() {
    let fields = |name: &str, fields: &[(&str, Setting)]| {
        let fields = fields
            .iter()
            .map(|(field, setting)| ((*field).to_owned(), setting.clone()));
        (name.to_owned(), fields.collect::<Vec<_>>())
    };
    let text = |text: &str| Setting::Text(text.into());
    let limits = [
        rpm(5).burst(9),
        Limit::budget("a \"day\"\n", 7, tidegate::Period::day("UTC")),
        Limit::concurrency("slots", 3).ttl(Duration::from_millis(1_500)),
        Limit::calls("gpu", 3, MINUTE).added(),
    ];
    let shown = limits
        .iter()
        .map(|limit| fields(limit.name(), &settings_of(limit)));
    assert_eq!(read_limits(&shown.collect::<Vec<_>>()), Ok(limits.to_vec()));
    let wrong = [
        fields("a", &[("cals", Setting::Integer(1)), ("per", text("1m"))]),
        fields(
            "b",
            &[("calls", Setting::Integer(0)), ("per", text("soon"))],
        ),
        fields(
            "c",
            &[
                ("rate", Setting::Integer(1)),
                ("per", text("1m")),
                ("shadow", Setting::Flag(true)),
            ],
        ),
    ];
    let faults = read_limits(&wrong).unwrap_err();
    let about: Vec<_> = faults.iter().map(|fault| fault.limit.as_str()).collect();
    assert!(
        ["a", "b", "c"].iter().all(|limit| about.contains(limit)),
        "{faults:?}"
    );
}

/// It was: `no policy that this is for has such a limit`, for whatever a policy does not have.
#[test]
fn a_limit_is_added_to_a_key_of_a_policy_and_to_nothing_else() {
    let text = format!("{TWO}[policy.pool.member.eu.limits]\nrps = {{ calls = 9, per = '1s' }}\n");
    let service = service(&text);
    let caller = service.enter(None).unwrap();
    let gpu = || Limit::calls("gpu", 2, MINUTE).added();
    let all = OverrideTarget::everything;
    let acme = all().of_policy("web").of_key("acme");
    for (target, limit) in [
        (all(), gpu()),
        (all().of_key("acme"), gpu()),
        (all().of_policy("web"), gpu()),
        (all().of_policy("pool").of_key("acme"), gpu()),
        (acme.clone(), Limit::calls("rpm", 2, MINUTE).added()),
        (
            acme.clone(),
            Limit::rate("gpu", 2, MINUTE).unit(Unit::decimal(2)).added(),
        ),
        (acme.clone(), Limit::calls("gpu", 2, MINUTE)),
    ] {
        let wrong = service.set_override(&caller, &target, &[limit]).wait();
        assert_eq!(wrong.unwrap_err().kind(), Kind::Invalid, "{target}");
    }
    set(&service, &acme, gpu());
    let stored = service.override_at(&caller, &acme).unwrap().unwrap();
    assert_eq!((stored.limits, stored.inert), (vec![gpu()], vec![]));
    assert_eq!(limit(&service, "web", "acme", "gpu"), 2);
    assert_eq!(levels_of(&service, "web", "acme"), [Level::KeyAndPolicy]);
    assert!(levels_of(&service, "web", "other").is_empty());
    let active = service.policy(&caller, Scope::Observe, "web").unwrap();
    assert!(
        active
            .peek("other", 1)
            .wait()
            .unwrap()
            .standing("gpu")
            .is_none()
    );
    // Policies that are exchanged take nothing of it, and one with such a limit takes it over.
    let with_gpu = format!("{TWO}gpu = {{ calls = 50, per = '1m' }}\n");
    for (text, of_other) in [(TWO, None), (&with_gpu, Some(50)), (TWO, None)] {
        service.exchange("file", &file(text)).unwrap();
        assert_eq!(limit(&service, "web", "acme", "gpu"), 2);
        let active = service.policy(&caller, Scope::Observe, "web").unwrap();
        let peek = active.peek("other", 1).wait().unwrap();
        assert_eq!(
            peek.standing("gpu").map(|standing| standing.limit),
            of_other
        );
        let stored = service.override_at(&caller, &acme).unwrap().unwrap();
        assert!(stored.inert.is_empty());
    }
    assert!(service.remove_override(&caller, &acme).wait().unwrap());
    let active = service.policy(&caller, Scope::Observe, "web").unwrap();
    assert!(
        active
            .peek("acme", 1)
            .wait()
            .unwrap()
            .standing("gpu")
            .is_none()
    );
}

#[test]
fn an_override_adds_no_more_limits_than_there_is_room_for() {
    let service = service(TWO);
    let caller = service.enter(None).unwrap();
    let acme = OverrideTarget::everything().of_policy("web").of_key("acme");
    let gpu = |nth| Limit::calls(format!("gpu {nth}"), 2, MINUTE).added();
    let many: Vec<_> = (0..33).map(gpu).collect();
    let wrong = service.set_override(&caller, &acme, &many).wait();
    assert_eq!(wrong.unwrap_err().kind(), Kind::Invalid);
    assert!(service.override_at(&caller, &acme).unwrap().is_none());
    let set = service.set_override(&caller, &acme, &many[..32]).wait();
    assert!(set.unwrap().inert.is_empty());
}

/// 0.25 of money were 250,000 tokens.
#[test]
fn a_cost_in_the_policys_unit_is_not_charged_to_an_added_rate() {
    let service =
        service("[policy.llm.limits]\nusd = { rate = '10', per = '1d', unit = '0.000001' }\n");
    let acme = OverrideTarget::everything().of_policy("llm").of_key("acme");
    set(
        &service,
        &acme,
        Limit::rate("tokens", 100_000, MINUTE).added(),
    );
    let caller = service.enter(None).unwrap();
    let active = service.policy(&caller, Scope::Observe, "llm").unwrap();
    let cost = active.cost(Number::Decimal("0.25"), None, &[]).unwrap();
    let checked = active.check("acme", cost).wait();
    assert!(checked.unwrap().admitted());
    let left = active.peek("acme", 0).wait().unwrap();
    let left = ["usd", "tokens"].map(|name| left.remaining(name));
    assert_eq!(left, [Some(9_750_000), Some(100_000)]);
}

/// A member's limits are overridden by their names, each where it fits.
#[test]
fn an_override_holds_at_every_member_of_a_pool_that_has_such_a_limit() {
    let text = "[policy.chat.member.eu.limits]\nrpm = { calls = 10, per = '1m' }\n\
                [policy.chat.member.us.limits]\nrpm = { calls = 20, per = '1m' }\n\
                tpm = { rate = 20, per = '1m' }\n";
    let service = service(text);
    let caller = service.enter(None).unwrap();
    let at = |member: &str, key: &str, name: &str| {
        let active = service.policy(&caller, Scope::Observe, "chat").unwrap();
        let peek = active
            .peek_at(Some(member), key, &[(name, 1)][..])
            .wait()
            .unwrap();
        peek.standing(name).unwrap().limit
    };
    let chat = OverrideTarget::everything().of_policy("chat");
    set(&service, &chat, rpm(7));
    set(&service, &chat.clone().of_key("acme"), rpm(9));
    let tpm = Limit::rate("tpm", 5, MINUTE);
    set(&service, &OverrideTarget::everything().of_key("acme"), tpm);
    for member in ["eu", "us"] {
        assert_eq!(at(member, "else", "rpm"), 7, "{member}");
        assert_eq!(at(member, "acme", "rpm"), 9, "{member}");
    }
    assert_eq!((at("us", "else", "tpm"), at("us", "acme", "tpm")), (20, 5));
    let unknown = service
        .set_override(&caller, &chat, &[Limit::calls("rps", 1, MINUTE)])
        .wait();
    assert!(
        matches!(unknown, Err(ServiceError::Override(_))),
        "{unknown:?}"
    );
    service.remove_override(&caller, &chat).wait().unwrap();
    assert_eq!((at("eu", "else", "rpm"), at("us", "else", "rpm")), (10, 20));
}

/// Each limit of a key with levels looks at the part of the key that it is about.
#[test]
fn the_level_of_an_override_is_told_where_it_holds() {
    let text = "[policy.chat]\nkey = 'org/user'\n[policy.chat.limits]\n\
                daily = { budget = 100, per = 'day', zone = 'UTC', level = 'org' }\n\
                rpm = { calls = 10, per = '1m', level = 'user' }\n";
    let service = service(text);
    assert!(levels_of(&service, "chat", "acme/alice").is_empty());
    let daily = Limit::budget("daily", 500, tidegate::Period::day("UTC"));
    set(
        &service,
        &OverrideTarget::everything().of_key("acme"),
        daily,
    );
    set(
        &service,
        &OverrideTarget::everything().of_policy("chat"),
        rpm(20),
    );
    let alice = OverrideTarget::everything()
        .of_policy("chat")
        .of_key("acme/alice");
    set(&service, &alice, rpm(30));
    assert_eq!(
        levels_of(&service, "chat", "acme/alice"),
        [Level::Key, Level::KeyAndPolicy]
    );
    assert_eq!(
        levels_of(&service, "chat", "acme/bob"),
        [Level::Key, Level::Policy]
    );
    assert_eq!(levels_of(&service, "chat", "acme"), [Level::Key]);
    assert_eq!(levels_of(&service, "chat", "zeta/carol"), [Level::Policy]);
}

#[test]
fn what_is_wrong_with_fields_and_with_names_is_told_at_once() {
    let service = service(TWO);
    let caller = service.enter(None).unwrap();
    let given = |name: &str, word: &str, number, per: &str| {
        let fields = vec![
            (word.to_owned(), Setting::Integer(number)),
            ("per".to_owned(), Setting::Text(per.to_owned())),
        ];
        (name.to_owned(), fields)
    };
    let chat = OverrideTarget::everything().of_policy("chat").of_key("k");
    let wrong = [
        given("rpm", "calls", 5, "soon"),
        given("rpn", "calls", 5, "1m"),
        given("tpm", "calls", 5, "1m"),
    ];
    let Err(ServiceError::FaultyOverride(faults)) = service
        .write_override(&caller, &chat, &wrong, &OverrideTerms::default())
        .wait()
    else {
        panic!("it is faulty");
    };
    let told = faults.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(faults.len(), 3, "{told:?}");
    assert!(told[1].contains("there is `rpm`, `tpm`"), "{told:?}");
    assert!(faults.iter().all(|fault| !fault.help.is_empty()));
    let empty = service
        .write_override(&caller, &chat, &[], &OverrideTerms::default())
        .wait()
        .unwrap_err();
    assert!(
        empty.to_string().starts_with("no limit is given"),
        "{empty}"
    );
    assert!(service.override_at(&caller, &chat).unwrap().is_none());
    let right = [given("rpm", "calls", 5, "1m")];
    let stored_override = service
        .write_override(&caller, &chat, &right, &OverrideTerms::default())
        .wait()
        .unwrap();
    assert_eq!(
        (stored_override.target.level(), stored_override.limits),
        (Level::KeyAndPolicy, vec![rpm(5)])
    );
    assert_eq!(limit(&service, "chat", "k", "rpm"), 5);
    // Whoever may not set it is not told what is wrong with it.
    service.replace_credentials([Credential {
        name: "t".into(),
        sha256: Credential::hash("secret"),
        scopes: vec![Scope::Observe],
        policies: Vec::new(),
        namespace: None,
    }]);
    let observer = service.enter(Some("secret")).unwrap();
    let refused = service
        .write_override(&observer, &chat, &wrong, &OverrideTerms::default())
        .wait();
    assert!(
        matches!(refused, Err(ServiceError::Forbidden { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_place_is_read_from_the_bytes_that_it_is_written_as() {
    for target in [
        OverrideTarget::everything(),
        OverrideTarget::everything().of_policy("chat"),
        OverrideTarget::everything().of_key([0_u8, 255]),
        OverrideTarget::everything()
            .of_key("acme/alice")
            .of_policy("chat"),
    ] {
        let bytes = target.encode();
        assert_eq!(OverrideTarget::decode(&bytes), Some(target));
        assert_eq!(OverrideTarget::decode(&bytes[..bytes.len().min(5)]), None);
    }
    assert_eq!(OverrideTarget::decode(b""), None);
}

/// It was taken, and its ten were ten hundredths.
#[test]
fn an_override_of_another_unit_is_refused() {
    let service =
        service("[policy.p.limits]\nusd = { budget = '2.50', per = '1h', unit = '0.01' }\n");
    let caller = service.enter(None).unwrap();
    let target = OverrideTarget::everything().of_key("k").of_policy("p");
    let write = |unit: Option<&str>| {
        let mut fields = vec![
            ("budget".to_owned(), Setting::Integer(10)),
            ("per".to_owned(), Setting::Text("1h".into())),
        ];
        fields.extend(unit.map(|unit| ("unit".to_owned(), Setting::Text(unit.into()))));
        let given = [("usd".to_owned(), fields)];
        service
            .write_override(&caller, &target, &given, &OverrideTerms::default())
            .wait()
    };
    for other in ["1", "0.001"] {
        let Err(ServiceError::FaultyOverride(faults)) = write(Some(other)) else {
            panic!("a unit of {other} is taken");
        };
        assert!(faults[0].message.contains("0.01"), "{faults:?}");
    }
    for same in [None, Some("0.01")] {
        write(same).unwrap();
        assert_eq!(limit(&service, "p", "k", "usd"), 1_000, "{same:?}");
    }
}

fn until(length: Duration) -> OverrideTerms<'static> {
    OverrideTerms {
        until: Some(Until::For(length)),
        ..OverrideTerms::default()
    }
}

/// The next server would have begun with it, and would have held by it for a moment.
#[test]
fn an_override_that_ended_while_nobody_was_there_never_holds_again() {
    let store: Arc<dyn Store> = Arc::<MemoryStore>::default();
    let time = ManualClock::default();
    let begin = || {
        let service = Service::builder().clock(time.clock());
        let service = service.store(Arc::clone(&store)).build(&file(TWO)).unwrap();
        let caller = service.enter(None).unwrap();
        (service, caller)
    };
    let [chat, web] = ["chat", "web"].map(|name| OverrideTarget::everything().of_policy(name));
    let (service, caller) = begin();
    for (target, length) in [(&chat, MINUTE), (&web, 3 * MINUTE)] {
        let set = service.set_override_on(&caller, target, &[rpm(5)], &until(length));
        set.wait().unwrap();
    }
    drop(service);
    time.advance(2 * MINUTE);
    let (service, caller) = begin();
    assert_eq!(limit(&service, "chat", "k", "rpm"), 10);
    assert_eq!(service.override_at(&caller, &chat), Ok(None));
    assert_eq!(limit(&service, "web", "k", "rpm"), 5);
    let kept = block_on(store.definition("service", &chat.encode()));
    assert_eq!(kept, Ok(None));
}

/// Asked again, the store says that another version is there: the one that was just made.
#[test]
fn a_change_whose_answer_was_lost_is_made_once_and_told_of_once() {
    let store = Arc::<Faulty>::default();
    let service = service_on(&(Arc::clone(&store) as _), TWO);
    let caller = service.enter(None).unwrap();
    let chat = OverrideTarget::everything().of_policy("chat");
    let lose = || store.faults.loses.store(true, Ordering::SeqCst);
    lose();
    let set = service
        .set_override(&caller, &chat, &[rpm(5)])
        .wait()
        .unwrap();
    let kept = service.override_at(&caller, &chat).unwrap().unwrap();
    assert_eq!(set, kept);
    lose();
    assert_eq!(service.remove_override(&caller, &chat).wait(), Ok(true));
    lose();
    assert_eq!(service.remove_override(&caller, &chat).wait(), Ok(false));
    let listed = block_on(service.call(&caller, Call::Audit(AuditListing::default())));
    let Ok(Answer::Audit(page)) = listed else {
        panic!("{listed:?}");
    };
    let actions: Vec<_> = page.items.iter().map(|event| event.action).collect();
    assert_eq!(actions, [Action::SetOverride, Action::RemoveOverride]);
}

/// Nothing was there any more: that was taken for the doing of whoever's answer was lost.
#[test]
fn a_removal_whose_answer_was_lost_is_not_another_clients() {
    for is_of_a_version in [false, true] {
        let store = Arc::<Faulty>::default();
        let service = service_on(&(Arc::clone(&store) as _), TWO);
        let caller = service.enter(None).unwrap();
        let chat = OverrideTarget::everything().of_policy("chat");
        let set = service.set_override(&caller, &chat, &[rpm(5)]).wait();
        let version = set.unwrap().version;
        let told = Event {
            subject: chat.encode(),
            body: Vec::new(),
            at: service.clock().now(),
            lasts: MINUTE,
            most: 10,
            version: 0,
        };
        let rival = Change::from(Definition::none(chat.encode())).telling(told);
        *store.faults.rival.lock().unwrap() = Some(rival);
        store.faults.loses.store(true, Ordering::SeqCst);
        let terms = OverrideTerms {
            only_if: is_of_a_version.then_some(OnlyIf::Version(version)),
            ..OverrideTerms::default()
        };
        let removed = service.remove_override_on(&caller, &chat, &terms).wait();
        match is_of_a_version {
            false => assert_eq!(removed, Ok(false)),
            true => assert!(
                matches!(
                    removed,
                    Err(ServiceError::Conflict {
                        version: None,
                        removes: true,
                        ..
                    })
                ),
                "{removed:?}"
            ),
        }
    }
}

/// It was taken for one that was not made, and made again: what was set since was gone.
#[test]
fn a_removal_whose_answer_was_lost_removes_nothing_that_was_set_since() {
    let store = Arc::<Faulty>::default();
    let service = service_on(&(Arc::clone(&store) as _), TWO);
    let caller = service.enter(None).unwrap();
    let chat = OverrideTarget::everything().of_policy("chat");
    let set = service.set_override(&caller, &chat, &[rpm(5)]).wait();
    let version = set.unwrap().version;
    let kept = block_on(store.definition("service", &chat.encode()));
    let value = kept.unwrap().unwrap().value.unwrap();
    store.faults.loses.store(true, Ordering::SeqCst);
    let removed = service.remove_override(&caller, &chat);
    *store.faults.rival.lock().unwrap() = Some(Definition::new(chat.encode(), value).into());
    assert_eq!(removed.wait(), Ok(true));
    let kept = service.override_at(&caller, &chat).unwrap().unwrap();
    assert!(kept.version > version);
}

/// It was answered with "too many requests are being served", as if the server were busy.
#[test]
fn a_change_that_others_always_outrun_says_of_what() {
    let store = Arc::<Faulty>::default();
    let service = service_on(&(Arc::clone(&store) as _), TWO);
    let caller = service.enter(None).unwrap();
    let chat = OverrideTarget::everything().of_policy("chat");
    let set = service.set_override(&caller, &chat, &[rpm(5)]).wait();
    set.unwrap();
    store.faults.outruns.store(true, Ordering::SeqCst);
    let set = service.set_override(&caller, &chat, &[rpm(6)]).wait();
    let removed = service.remove_override(&caller, &chat).wait();
    for told in [set.map(drop), removed.map(drop)].map(Result::unwrap_err) {
        assert_eq!(
            told.to_string(),
            "the override for chat was changed by others each time that this change was tried; \
             try again"
        );
        assert_eq!(told.kind(), Kind::Busy);
    }
    store.faults.outruns.store(false, Ordering::SeqCst);
    let shown = service.override_at(&caller, &chat).unwrap().unwrap();
    assert_eq!(shown.limits, [rpm(5)]);
    let set = service.set_override(&caller, &chat, &[rpm(6)]).wait();
    set.unwrap();
}
