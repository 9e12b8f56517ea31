//! What one server of a store is told holds on every one: overrides of services and of sets,
//! cool-downs. Each test has two handles of one store, as two processes have.

mod servers;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use servers::{Open, on_each};
use tidegate::internal::SetInternals;
use tidegate::{BuildError, Clock, Limit, LimitPool, LimitSet};
use tidegate_conformance::{Beyond, Paused, Witness, wait_for};
use tidegate_policy::parse;
use tidegate_service::{
    Answer, AuditListing, Call, Charge, OnlyIf, OverrideOf, OverrideTarget, OverrideTerms, Scope,
    Service, ServiceError,
};
use tidegate_store::{Definition, Store};

/// No window ends while a test runs.
const LONG: Duration = Duration::from_secs(300 * 86_400);

const HOUR: Duration = Duration::from_secs(3_600);

/// So many looks at what another server is to do soon, each a tenth of a second after the last.
const ENOUGH: usize = 600;

on_each! {
    an_override_holds_on_every_server_and_either_may_change_and_remove_it
    overrides_of_policies_and_of_all_hold_on_every_server
    a_limit_that_one_key_has_holds_on_every_server
    a_change_on_a_version_that_another_server_has_changed_is_refused
    whatever_both_servers_set_at_once_each_event_tells_what_was_there_before
    a_set_in_another_process_goes_by_what_its_keys_are_given
    an_override_that_cannot_be_read_leaves_what_is_in_force
    a_request_for_what_only_another_key_has_takes_nothing
    a_member_cools_down_on_every_server_until_either_ends_it
    of_two_cool_downs_at_once_the_longer_holds
    what_was_told_while_a_server_was_paused_holds_afterwards
}

/// One server: a service, and somebody who goes over to what it is told after it.
struct Server {
    service: Service,
    told: Arc<Witness>,
}

fn calls(most: u64) -> [Limit; 1] {
    [Limit::calls("calls", most, LONG)]
}

impl Server {
    fn on(store: Arc<dyn Store>) -> Self {
        let text = "[policy.chat.limits]\ncalls = { calls = 100, per = '300d' }\n\
                    [policy.mail.limits]\ncalls = { calls = 100, per = '300d' }\n";
        let file = parse("two.toml", text).expect("it is a policy file");
        let service = Service::builder().store(Arc::clone(&store));
        let service = service.build(&file).expect("the store has room");
        let told = Witness::of(&*store, "service");
        Self { service, told }
    }

    fn set(&self, place: &OverrideTarget, most: u64) {
        let caller = self.service.enter(None).expect("it is open");
        let set = self.service.set_override(&caller, place, &calls(most));
        wait_for(set).expect("the store keeps it");
    }

    fn remove(&self, place: &OverrideTarget) -> bool {
        let caller = self.service.enter(None).expect("it is open");
        wait_for(self.service.remove_override(&caller, place)).expect("the store answers")
    }

    /// Waits until this server has gone over to the same as `other`.
    fn follows(&self, other: &Self, place: &OverrideTarget) {
        self.told.awaits(
            &place.encode(),
            other.told.knows(&place.encode()).as_deref(),
        );
        let at = |server: &Self| {
            let caller = server.service.enter(None).expect("it is open");
            server
                .service
                .override_at(&caller, place)
                .expect("it may be seen")
        };
        assert_eq!(at(self), at(other));
    }

    fn admits(&self, policy: &str, key: &str) -> bool {
        let caller = self.service.enter(None).expect("it is open");
        let served = self
            .service
            .policy(&caller, Scope::Decide, policy)
            .expect("it is there");
        match served.check(key, 1).wait().expect("the store answers") {
            Charge::Decided(decision) => decision.admitted(),
            Charge::Degraded(error) => panic!("{error}"),
        }
    }

    fn limit(&self, policy: &str, key: &str) -> u64 {
        let caller = self.service.enter(None).expect("it is open");
        let served = self
            .service
            .policy(&caller, Scope::Observe, policy)
            .expect("it is there");
        let peek = served.peek(key, 1).wait().expect("the store answers");
        peek.standing("calls").expect("there is one").limit
    }
}

/// How many of so many asks are admitted, made at each server in turn.
fn admitted(servers: [&Server; 2], asks: usize) -> usize {
    let in_turn = servers.into_iter().cycle().take(asks);
    in_turn
        .filter(|server| server.admits("chat", "mallory"))
        .count()
}

/// It was: read once, at the start, so that another server neither saw nor could remove
/// it, and a key that both were asked about went to and fro between two limits: at 2 in
/// an hour at one of them 240 of 240 were admitted.
fn an_override_holds_on_every_server_and_either_may_change_and_remove_it(
    server: &Beyond,
    open: Open,
) {
    let (a, b) = (Server::on(open(&server.url)), Server::on(open(&server.url)));
    let mallory = OverrideTarget::everything()
        .of_policy("chat")
        .of_key("mallory");
    a.set(&mallory, 2);
    assert_eq!(
        a.limit("chat", "mallory"),
        2,
        "in force where it was told, at once"
    );
    b.follows(&a, &mallory);
    assert_eq!(admitted([&b, &a], 20), 2);
    assert!(b.admits("chat", "other"), "of nobody else");

    b.set(&mallory, 12);
    a.follows(&b, &mallory);
    assert_eq!(admitted([&a, &b], 30), 10, "what was used stays used");

    assert!(
        b.remove(&mallory),
        "the one that was not told first removes it"
    );
    a.follows(&b, &mallory);
    assert!(!a.remove(&mallory), "it is gone there, too");
    assert_eq!(a.limit("chat", "mallory"), 100);
    assert_eq!(admitted([&a, &b], 120), 88);

    // One that starts later knows what was told before.
    a.set(&mallory, 3);
    let late = Server::on(open(&server.url));
    assert_eq!(late.limit("chat", "mallory"), 3);
    late.set(&mallory, 4);
    a.follows(&late, &mallory);
    b.follows(&late, &mallory);
    assert_eq!(
        (a.limit("chat", "mallory"), b.limit("chat", "mallory")),
        (4, 4)
    );
}

fn overrides_of_policies_and_of_all_hold_on_every_server(server: &Beyond, open: Open) {
    let (a, b) = (Server::on(open(&server.url)), Server::on(open(&server.url)));
    let (all, chat) = (
        OverrideTarget::everything(),
        OverrideTarget::everything().of_policy("chat"),
    );
    let ann = OverrideTarget::everything().of_key("ann");
    let limits = |server: &Server| {
        let asked = [
            ("chat", "ann"),
            ("chat", "bob"),
            ("mail", "ann"),
            ("mail", "bob"),
        ];
        asked.map(|(policy, key)| server.limit(policy, key))
    };
    let steps = [
        (&a, &all, Some(7), [7, 7, 7, 7]),
        (&b, &chat, Some(9), [9, 9, 7, 7]),
        (&a, &ann, Some(5), [5, 9, 5, 7]),
        (&b, &all, None, [5, 9, 5, 100]),
        (&a, &ann, None, [9, 9, 100, 100]),
        (&a, &chat, None, [100; 4]),
    ];
    for (by, place, most, wanted) in steps {
        match most {
            Some(most) => by.set(place, most),
            None => assert!(by.remove(place)),
        }
        a.follows(by, place);
        b.follows(by, place);
        assert_eq!(
            (limits(&a), limits(&b)),
            (wanted, wanted),
            "{place} {most:?}"
        );
    }
}

/// A limit that no policy has is counted at all servers as one, and takes nothing of others.
fn a_limit_that_one_key_has_holds_on_every_server(server: &Beyond, open: Open) {
    let (a, b) = (Server::on(open(&server.url)), Server::on(open(&server.url)));
    let mallory = OverrideTarget::everything()
        .of_policy("chat")
        .of_key("mallory");
    let gpu = |most| [Limit::calls("gpu", most, LONG).added()];
    let set = |server: &Server, most| {
        let caller = server.service.enter(None).expect("it is open");
        let set = server.service.set_override(&caller, &mallory, &gpu(most));
        wait_for(set).expect("the store keeps it");
    };
    let left = |server: &Server, key: &str| {
        let caller = server.service.enter(None).expect("it is open");
        let served = server.service.policy(&caller, Scope::Observe, "chat");
        let peek = served.expect("it is there").peek(key, 1).wait();
        let peek = peek.expect("the store answers");
        ["calls", "gpu"].map(|name| peek.remaining(name))
    };
    assert_eq!(admitted([&a, &b], 10), 10);
    set(&a, 5);
    b.follows(&a, &mallory);
    assert_eq!(
        admitted([&b, &a], 20),
        5,
        "what was used before is not of it"
    );
    assert_eq!(left(&b, "mallory"), [Some(85), Some(0)]);
    assert!(b.admits("chat", "other"));
    assert_eq!(left(&a, "other"), [Some(99), None]);

    set(&b, 8);
    a.follows(&b, &mallory);
    assert_eq!(admitted([&a, &b], 20), 3, "what was used stays used");

    // One that starts later has it, and goes on where the others are.
    let late = Server::on(open(&server.url));
    assert_eq!(left(&late, "mallory"), [Some(82), Some(0)]);
    assert_eq!(left(&late, "other"), [Some(99), None]);

    assert!(late.remove(&mallory));
    a.follows(&late, &mallory);
    b.follows(&late, &mallory);
    assert_eq!(admitted([&a, &b], 200), 82);
    assert_eq!(left(&b, "mallory"), [Some(0), None]);
    assert_eq!(left(&late, "other"), [Some(99), None]);
}

fn set_on(store: &Arc<dyn Store>, name: &str) -> LimitSet {
    let set = LimitSet::builder().name(name).limits(calls(10));
    set.store(Arc::clone(store))
        .build()
        .expect("the store has room")
}

fn a_set_in_another_process_goes_by_what_its_keys_are_given(server: &Beyond, open: Open) {
    let (here, there) = (open(&server.url), open(&server.url));
    let (one, other) = (set_on(&here, "jobs"), set_on(&there, "jobs"));
    let told = [
        Witness::of(&*here, "set jobs"),
        Witness::of(&*there, "set jobs"),
    ];
    let own = |set: &LimitSet| set.override_of("acme").map(|own| own.limits);
    let admitted = || {
        let asks = [&one, &other].into_iter().cycle().take(60);
        asks.filter(|set| set.check("acme", 1).wait().expect("an answer").admitted())
            .count()
    };
    one.set_override("acme", &calls(4)).wait().expect("it fits");
    assert_eq!(own(&one), Some(calls(4).to_vec()));
    told[1].awaits(b"acme", told[0].knows(b"acme").as_deref());
    assert_eq!(own(&other), own(&one));
    assert_eq!(admitted(), 4);

    wait_for(other.set_override("acme", &calls(25))).expect("it fits");
    told[0].awaits(b"acme", told[1].knows(b"acme").as_deref());
    assert_eq!(own(&one), own(&other));
    assert_eq!(admitted(), 21);

    assert!(wait_for(one.remove_override("acme")).expect("an answer"));
    told[1].awaits(b"acme", None);
    assert_eq!((own(&one), own(&other)), (None, None));
    assert!(!other.remove_override("acme").wait().expect("an answer"));
    // Many at once are one change.
    for key in 0..40_u32 {
        one.set_override(&key.to_be_bytes(), &calls(3))
            .wait()
            .expect("it fits");
    }
    told[1].awaits(
        &39_u32.to_be_bytes(),
        told[0].knows(&39_u32.to_be_bytes()).as_deref(),
    );
    assert_eq!(other.overrides(None, 100).len(), 40);
    assert_eq!(other.check_overrides(), Ok(()));
}

/// A newer version has written it.
fn an_override_that_cannot_be_read_leaves_what_is_in_force(server: &Beyond, open: Open) {
    let (here, there) = (open(&server.url), open(&server.url));
    let (a, b) = (
        Server::on(Arc::clone(&here)),
        Server::on(Arc::clone(&there)),
    );
    let ann = OverrideTarget::everything().of_key("ann");
    a.set(&ann, 5);
    b.follows(&a, &ann);
    let set = set_on(&here, "jobs");
    set.set_override("acme", &calls(4)).wait().expect("it fits");
    let told = Witness::of(&*here, "set jobs");
    for (owner, key) in [("service", ann.encode()), ("set jobs", b"acme".to_vec())] {
        let newer = Definition::new(key, [9, 1, 2, 3]);
        assert!(wait_for(there.define(owner, newer)).expect("the store reads none of it"));
    }
    b.told.awaits(&ann.encode(), Some(&[9, 1, 2, 3]));
    a.follows(&b, &ann);
    assert_eq!((a.limit("chat", "ann"), b.limit("chat", "ann")), (5, 5));
    told.awaits(b"acme", Some(&[9, 1, 2, 3]));
    // Who follows the same owner may be told a moment after another.
    while set.check_overrides().is_ok() {
        thread::park_timeout(Duration::from_millis(2));
    }
    assert!(matches!(set.check_overrides(), Err(BuildError::Store(_))));
    let own = set.override_of("acme").expect("it stays");
    assert_eq!(own.limits, calls(4));
    // What comes after it holds again.
    b.set(&ann, 6);
    a.follows(&b, &ann);
    assert_eq!((a.limit("chat", "ann"), b.limit("chat", "ann")), (6, 6));
    set.set_override("acme", &calls(8)).wait().expect("it fits");
    assert_eq!(set.check_overrides(), Ok(()));
}

/// What takes nothing is a command like any other: with a lease, without one, as a debit.
fn a_request_for_what_only_another_key_has_takes_nothing(server: &Beyond, open: Open) {
    let builder = LimitSet::builder().name("added").store(open(&server.url));
    let set = builder.limit(Limit::rate("tpm", 100, LONG)).build();
    let set = set.expect("the store has room");
    let gpu = Limit::calls("gpu", 5, LONG).added();
    wait_for(set.set_override("acme", &[gpu])).expect("the store keeps it");
    let named = [("gpu", 1)];
    let checked = wait_for(set.check("other", &named)).expect("it is no error");
    assert!(checked.admitted());
    let debited = wait_for(set.debit("other", &named)).expect("it is no error");
    assert!(debited.admitted());
    let granted = wait_for(set.try_acquire("other", &named)).expect("it is no error");
    let mut lease = granted.granted().expect("nothing refuses");
    wait_for(lease.settle(&named)).expect("it is held");
    let left = wait_for(set.peek("other", 1)).expect("the store answers");
    assert_eq!(
        (left.remaining("tpm"), left.remaining("gpu")),
        (Some(100), None)
    );
}

fn pool_on(store: &Arc<dyn Store>) -> LimitPool {
    let member = |name: &str| set_on(store, name);
    let pool = LimitPool::builder().member("eu", member("eu"));
    pool.member("us", member("us"))
        .build()
        .expect("two members")
}

fn a_member_cools_down_on_every_server_until_either_ends_it(server: &Beyond, open: Open) {
    let (here, there) = (open(&server.url), open(&server.url));
    let (one, other) = (pool_on(&here), pool_on(&there));
    let told = [
        Witness::of(&*here, "cool-downs"),
        Witness::of(&*there, "cool-downs"),
    ];
    let cooling = |pool: &LimitPool, name| pool.cooling(name).expect("a member");
    let source = |pool: &LimitPool| {
        let lease = pool
            .try_acquire("k", 0)
            .wait()
            .expect("an answer")
            .granted()
            .expect("room");
        lease.member().expect("a pool's").to_owned()
    };

    let until = one.cool_down("eu", HOUR).expect("a member");
    told.iter().for_each(|told| told.awaits(b"eu", Some(&[1])));
    let there_until = cooling(&other, "eu").expect("it cools there, too");
    let apart = until
        .since(there_until)
        .max(there_until.since(until))
        .as_duration();
    assert!(apart < HOUR / 2, "{until} {there_until}");
    assert_eq!(cooling(&other, "us"), None);
    assert!((0..4).all(|_| source(&other) == "us"));

    other.end_cool_down("eu").expect("a member");
    told.iter().for_each(|told| told.awaits(b"eu", None));
    assert_eq!((cooling(&one, "eu"), cooling(&other, "eu")), (None, None));

    // Who starts while it cools down hears of it.
    other.cool_down("us", HOUR).expect("a member");
    told[0].awaits(b"us", Some(&[1]));
    let third = open(&server.url);
    let pool = pool_on(&third);
    Witness::of(&*third, "cool-downs").awaits(b"us", Some(&[1]));
    assert!(cooling(&pool, "us").is_some() && cooling(&pool, "eu").is_none());
}

/// Two that are told at once, before either hears of the other: the store kept what was said
/// last, and whoever started later took up the work while the longer one lasted.
fn of_two_cool_downs_at_once_the_longer_holds(server: &Beyond, open: Open) {
    let (here, there) = (open(&server.url), open(&server.url));
    let (one, other) = (pool_on(&here), pool_on(&there));
    one.cool_down("eu", HOUR).expect("a member");
    other.cool_down("eu", HOUR / 60).expect("a member");
    // The longer one is told again when its server hears of the shorter.
    for _ in 0..ENOUGH {
        let third = open(&server.url);
        let pool = pool_on(&third);
        Witness::of(&*third, "cool-downs").awaits(b"eu", Some(&[1]));
        let until = pool.cooling("eu").expect("a member");
        let now = Clock::system().now();
        if until.is_some_and(|until| until.since(now).as_duration() > HOUR / 2) {
            return;
        }
        thread::park_timeout(Duration::from_millis(100));
    }
    panic!("the shorter one holds");
}

/// Each server goes by what it was told last, and the store knows better.
fn a_change_on_a_version_that_another_server_has_changed_is_refused(server: &Beyond, open: Open) {
    let (a, b) = (Server::on(open(&server.url)), Server::on(open(&server.url)));
    let ann = OverrideTarget::everything().of_key("ann");
    let set = |at: &Server, most, only_if| {
        let caller = at.service.enter(None).expect("it is open");
        let terms = OverrideTerms {
            only_if: Some(only_if),
            ..OverrideTerms::default()
        };
        let set = at
            .service
            .set_override_on(&caller, &ann, &calls(most), &terms);
        wait_for(set).map(|set| set.version)
    };
    let first = set(&a, 5, OnlyIf::Absent).expect("none was there");
    let conflict = |version, removes| {
        Err(ServiceError::Conflict {
            what: "the override for every policy/ann".to_owned(),
            version,
            removes,
        })
    };
    let there = |version| conflict(version, false);
    assert_eq!(set(&b, 6, OnlyIf::Absent), there(Some(first)));
    let second = set(&b, 7, OnlyIf::Version(first)).expect("it is there");
    assert_eq!(set(&a, 8, OnlyIf::Version(first)), there(Some(second)));
    let caller = b.service.enter(None).expect("it is open");
    let remove = |only_if| {
        let terms = OverrideTerms {
            only_if: Some(only_if),
            ..OverrideTerms::default()
        };
        wait_for(b.service.remove_override_on(&caller, &ann, &terms))
    };
    assert_eq!(
        remove(OnlyIf::Version(first)).map(|_| 0),
        conflict(Some(second), true)
    );
    assert_eq!(remove(OnlyIf::Version(second)), Ok(true));
    assert_eq!(set(&a, 9, OnlyIf::Version(second)), there(None));
    assert_eq!(set(&a, 9, OnlyIf::Present), there(None));
    set(&a, 9, OnlyIf::Absent).expect("none is there");
}

/// Neither server says a version: the last one stays, and no event leaves out a change.
fn whatever_both_servers_set_at_once_each_event_tells_what_was_there_before(
    server: &Beyond,
    open: Open,
) {
    const EACH: u64 = 20;
    let (a, b) = (Server::on(open(&server.url)), Server::on(open(&server.url)));
    let bob = OverrideTarget::everything().of_key("bob");
    std::thread::scope(|scope| {
        for (at, first) in [(&a, 100), (&b, 200)] {
            let bob = &bob;
            scope.spawn(move || (0..EACH).for_each(|nth| at.set(bob, first + nth)));
        }
    });
    let caller = a.service.enter(None).expect("it is open");
    let listing = AuditListing {
        of: OverrideOf {
            key: Some(b"bob"),
            ..OverrideOf::default()
        },
        most: Some(1_000),
        ..AuditListing::default()
    };
    let told = wait_for(a.service.call(&caller, Call::Audit(listing)));
    let Ok(Answer::Audit(page)) = told else {
        panic!("{told:?}");
    };
    assert_eq!(page.items.len() as u64, 2 * EACH);
    let mut before = None;
    for event in page.items {
        assert_eq!(event.before, before, "at {}", event.version);
        before = event.after;
    }
}

/// What is asked meanwhile fails in time or waits; nobody's view of it is torn.
fn what_was_told_while_a_server_was_paused_holds_afterwards(server: &Beyond, open: Open) {
    let (a, b) = (Server::on(open(&server.url)), Server::on(open(&server.url)));
    let (ann, bob) = (
        OverrideTarget::everything().of_key("ann"),
        OverrideTarget::everything().of_key("bob"),
    );
    a.set(&ann, 5);
    b.follows(&a, &ann);
    let caller = a.service.enter(None).expect("it is open");
    let (set, removed) = {
        let _paused = Paused::new(server.pid);
        let set = a.service.set_override(&caller, &bob, &calls(7));
        let removed = b.service.remove_override(&caller, &ann);
        assert!(
            b.service
                .override_at(&caller, &ann)
                .expect("it may be seen")
                .is_some()
        );
        (set, removed)
    };
    // Both were under way; one whose connection was given up is told so, and asked again.
    if wait_for(set).is_err() {
        a.set(&bob, 7);
    }
    if wait_for(removed).is_err() {
        b.remove(&ann);
    }
    for server in [&a, &b] {
        server.told.awaits(&ann.encode(), None);
        server
            .told
            .awaits(&bob.encode(), a.told.knows(&bob.encode()).as_deref());
        assert_eq!(
            (server.limit("chat", "ann"), server.limit("chat", "bob")),
            (100, 7)
        );
    }
}
