//! Namespaces: they share nothing, refuse when they are deleted, come back whole, and are purged
//! to nothing.

mod support;

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use support::{file, now};
use tidegate::{LeaseId, ManualClock, Select, Store};
use tidegate_memory::MemoryStore;
use tidegate_service::{
    Acquired, Action, Answer, AuditListing, Call, Caller, Credential, EntityChange, EntityListing,
    EntityTerms, GivenLimit, Kind, Listing, NamespaceError, NamespacePolicies, NamespaceState,
    NewEntity, OfLease, OverrideListing, OverrideOf, OverrideTerms, Purge, Question, Rate, Report,
    Scope, Service, ServiceError, Setting, Terms, UsageBy, UsageListing, Uses, Whose,
};
use tidegate_store::core::{Span, Timestamp};
use tidegate_store::{
    Abilities, Change, Cleared, Defined, Definition, Definitions, Event, Follower, Page, Plan,
    StoreError, StoreFuture, Table, TableBounds,
};

const POLICY: &str = "[policy.chat]\nusage = '2d'\n[policy.chat.limits]\n\
     rpm = { calls = 10, per = '400d' }\n\
     [policy.jobs.limits]\nrunning = { concurrency = 2, ttl = '20d' }\n";

/// A memory store that can fall silent, and counts and cuts what clears it.
#[derive(Default)]
struct Kept {
    memory: MemoryStore,
    is_away: AtomicBool,
    /// After so many steps it clears no more.
    steps: AtomicUsize,
    /// The policies that were applied in a namespace last, and for whom it kept them.
    applied: Mutex<Option<(String, Change)>>,
    /// Kept in place of the next that are applied, as if another server had been faster; those
    /// are not, and it does not answer.
    faster: Mutex<Option<Vec<(String, Change)>>>,
}

fn away<T: Send + 'static>() -> StoreFuture<T> {
    StoreFuture::new(async { Err(StoreError::Unavailable("away".to_owned())) })
}

impl Kept {
    fn or_away<T: Send + 'static>(&self, answer: StoreFuture<T>) -> StoreFuture<T> {
        match self.is_away.load(Ordering::SeqCst) {
            true => away(),
            false => answer,
        }
    }
}

impl Store for Kept {
    fn abilities(&self) -> Abilities {
        self.memory.abilities()
    }
    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.or_away(self.memory.definitions(owner, newer_than))
    }
    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        self.or_away(self.memory.definition(owner, key))
    }
    fn definitions_page(
        &self,
        owner: &str,
        prefix: &[u8],
        after: Option<&[u8]>,
        most: usize,
    ) -> StoreFuture<Page<Definition>> {
        self.or_away(self.memory.definitions_page(owner, prefix, after, most))
    }
    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        if owner.ends_with("applied policies") {
            if let Some(faster) = self.faster.lock().unwrap().take() {
                for (owner, change) in faster {
                    now(self.memory.change(&owner, change)).unwrap();
                }
                return away();
            }
            *self.applied.lock().unwrap() = Some((owner.to_owned(), change.clone()));
        }
        match self.is_away.load(Ordering::SeqCst) {
            true => away(),
            false => self.memory.change(owner, change),
        }
    }
    fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
        now: Timestamp,
    ) -> StoreFuture<Page<Event>> {
        self.memory.events(owner, subject, after, most, now)
    }
    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.memory.follow(owner, follower);
    }
    fn forget(&self, name: &str) {
        self.memory.forget(name);
    }
    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        self.memory.open(name, plan)
    }
    fn open_within(
        &self,
        name: &str,
        plan: &Arc<Plan>,
        bounds: &TableBounds,
    ) -> Result<Arc<dyn Table>, StoreError> {
        self.memory.open_within(name, plan, bounds)
    }
    /// One step clears nothing, the next all.
    fn clear(&self, prefix: &str, after: Option<&[u8]>) -> StoreFuture<Cleared> {
        if after.is_none() && !prefix.contains("nobody") {
            return StoreFuture::new(async {
                Ok(Cleared {
                    removed: 0,
                    next: Some(vec![1]),
                })
            });
        }
        match self.steps.load(Ordering::SeqCst) {
            0 => away(),
            left => {
                self.steps.store(left - 1, Ordering::SeqCst);
                self.memory.clear(prefix, None)
            }
        }
    }
}

struct House {
    store: Arc<Kept>,
    service: Service,
    operator: Caller,
    time: ManualClock,
}

fn token(name: &str, namespace: Option<&str>) -> Credential {
    Credential {
        name: name.to_owned(),
        sha256: Credential::hash(name),
        scopes: Scope::ALL.to_vec(),
        policies: Vec::new(),
        namespace: namespace.map(str::to_owned),
    }
}

impl House {
    fn new() -> Self {
        let (store, time) = (Arc::<Kept>::default(), ManualClock::default());
        store.steps.store(usize::MAX, Ordering::SeqCst);
        let service = Service::builder().clock(time.clock());
        let service = service.store(Arc::clone(&store) as _).credentials([
            token("operator", Some("*")),
            token("of-default", None),
            token("of-a", Some("a")),
            token("of-ab", Some("ab")),
        ]);
        let own = POLICY.replace("10", "100");
        let service = service.namespaces(NamespacePolicies {
            usual: file(POLICY),
            own: vec![("big".to_owned(), file(&own))],
        });
        let service = service.build(&file(POLICY)).unwrap();
        Self {
            operator: service.enter(Some("operator")).unwrap(),
            store,
            service,
            time,
        }
    }

    /// With these namespaces.
    fn with(names: &[&str]) -> Self {
        let house = Self::new();
        for name in names {
            house.ask(Call::CreateNamespace(name, None)).unwrap();
        }
        house
    }

    fn ask(&self, call: Call<'_>) -> Result<Answer, ServiceError> {
        now(self.service.call(&self.operator, call))
    }

    fn by(&self, token: &str) -> Caller {
        self.service.enter(Some(token)).unwrap()
    }

    fn at(&self, name: &str) -> Caller {
        self.operator.clone().at(Some(name)).unwrap()
    }

    fn call(&self, caller: &Caller, call: Call<'_>) -> Result<Answer, ServiceError> {
        now(self.service.call(caller, call))
    }

    /// Whether a call of `key` is admitted.
    fn checks(&self, caller: &Caller, key: &str) -> Result<bool, ServiceError> {
        match self.call(caller, Call::Check(question(key)))? {
            Answer::Decided(decided) => Ok(decided.told().admitted()),
            other => panic!("{other:?}"),
        }
    }

    /// How many calls of `key` are admitted before one is not.
    fn left(&self, caller: &Caller, key: &str) -> usize {
        let admitted = (0..1_000).take_while(|_| self.checks(caller, key).unwrap());
        admitted.count()
    }

    fn acquires(&self, caller: &Caller, key: &str) -> tidegate::LeaseId {
        let acquired = self.call(caller, Call::Acquire(job(key), Terms::default()));
        let Ok(Answer::Acquired(acquisition)) = acquired else {
            panic!("it is a lease");
        };
        let Acquired::Granted(granted) = &acquisition.acquired else {
            panic!("it fits");
        };
        let id = granted.id;
        if let Some(lease) = &acquisition.lease {
            lease.deliver();
        }
        id
    }

    /// Has the namespace that `caller` is in go by `text`.
    fn applies(&self, caller: &Caller, text: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.build().unwrap();
        let said = ("own.toml", text);
        let applied = self.service.apply_in_namespace(caller, said, file(text));
        runtime.block_on(applied).unwrap().map(drop)
    }

    fn delete(&self, name: &str) {
        self.ask(Call::DeleteNamespace(name, Some("they left")))
            .unwrap();
    }

    fn purge(&self, name: &str) -> Result<Purge, ServiceError> {
        match self.ask(Call::PurgeNamespace(name, None))? {
            Answer::Purged(purge) => Ok(purge),
            other => panic!("{other:?}"),
        }
    }

    fn state(&self, name: &str) -> Option<NamespaceState> {
        match self.ask(Call::Namespace(name)) {
            Ok(Answer::Namespace(namespace)) => Some(namespace.state),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), Kind::NotFound);
                None
            }
        }
    }

    fn events(&self, caller: &Caller) -> Vec<(Action, Vec<String>)> {
        let listing = AuditListing::default();
        let Ok(Answer::Audit(page)) = self.call(caller, Call::Audit(listing)) else {
            panic!("it is a page");
        };
        let told = page.items.into_iter();
        told.map(|event| (event.action, event.details)).collect()
    }
}

fn question(key: &str) -> Question<'_> {
    Question {
        policy: "chat",
        whose: Whose::Key(key.as_bytes()),
        ..Question::default()
    }
}

/// A lease of another policy.
fn job(key: &str) -> Question<'_> {
    Question {
        policy: "jobs",
        ..question(key)
    }
}

fn of_lease(key: &str, lease: tidegate::LeaseId) -> OfLease<'_> {
    OfLease {
        policy: "jobs",
        whose: Whose::Key(key.as_bytes()),
        lease,
    }
}

fn listing() -> Listing<'static> {
    Listing {
        select: Select::All,
        after: None,
        most: None,
    }
}

/// Every verb that looks at, or changes, what a namespace has: as it is asked of `key` and a lease.
fn every_verb<'a>(key: &'a str, lease: tidegate::LeaseId) -> Vec<Call<'a>> {
    let of_key = OverrideOf {
        policy: Some("chat"),
        key: Some(key.as_bytes()),
        entity: None,
    };
    let whose = Whose::Key(key.as_bytes());
    let limit: Vec<GivenLimit> = Vec::new();
    let new = NewEntity {
        id: key,
        parent: None,
        name: "",
        metadata: Default::default(),
        charge_parents: true,
    };
    let used = UsageListing {
        listing: listing(),
        entity: None,
        since: None,
        until: None,
        by: UsageBy::Month,
    };
    let rate = Rate {
        capacity: 1,
        count: 1,
        period_secs: 1,
    };
    vec![
        Call::Check(question(key)),
        Call::CheckMany(vec![Ok(question(key))]),
        Call::Debit(question(key)),
        Call::Peek(question(key)),
        Call::Forecast(question(key)),
        Call::Acquire(job(key), Terms::default()),
        Call::Grant(question(key), Box::default()),
        Call::Return(of_lease(key, lease), Uses::default()),
        Call::Renew(of_lease(key, lease), None),
        Call::Adjust(of_lease(key, lease), Uses::default(), false),
        Call::Settle(of_lease(key, lease), Report::default(), Uses::default()),
        Call::Release(of_lease(key, lease), Report::default()),
        Call::Cancel(of_lease(key, lease), Report::default()),
        Call::Reset("chat", whose),
        Call::Revoke("jobs", whose, "0".repeat(16).parse().unwrap()),
        Call::Keys("chat", listing()),
        Call::Capacity("chat", None, listing()),
        Call::Leases("jobs", listing()),
        Call::Fleet("jobs", listing()),
        Call::Usage("chat", used),
        Call::Denied(None, None),
        Call::WatchDenials(None),
        Call::SetOverride(of_key, limit.into(), OverrideTerms::default()),
        Call::RemoveOverride(of_key, OverrideTerms::default()),
        Call::Overrides(OverrideListing::default()),
        Call::Audit(AuditListing::default()),
        Call::CreateEntity(new, None),
        Call::ChangeEntity(key, EntityChange::default(), EntityTerms::default()),
        Call::DeleteEntity(key, EntityTerms::default()),
        Call::Entity(key),
        Call::Entities(EntityListing::default()),
        Call::Policies,
        Call::Policy("chat"),
        Call::Throttle(key.into(), rate, 1),
    ]
}

/// A call that is added has to be named in [`every_verb`], unless it is of all namespaces.
#[test]
fn every_call_is_among_those_that_are_tried() {
    let source = include_str!("../src/call/mod.rs");
    let (_, calls) = source.split_once("pub enum Call<'a> {").unwrap();
    let (calls, _) = calls.split_once("\n}").unwrap();
    let names = calls.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?;
        let end = name.find(['(', ','])?;
        name.starts_with(char::is_uppercase).then(|| &name[..end])
    });
    let names: BTreeSet<_> = names.filter(|name| !name.contains("Namespace")).collect();
    let lease: LeaseId = "7".repeat(32).parse().unwrap();
    let tried = every_verb("k", lease);
    let tried = tried.iter().map(|call| format!("{call:?}"));
    let tried: BTreeSet<_> = tried
        .map(|call| call.split(['(', ' ']).next().unwrap_or_default().to_owned())
        .collect();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !tried.contains(**name))
        .collect();
    assert!(missing.is_empty() && names.len() > 20, "{missing:?}");
}

#[test]
fn the_same_names_in_two_namespaces_share_nothing() {
    let house = House::with(&["a", "ab", "big"]);
    let [a, ab, big, none] = [
        house.at("a"),
        house.by("of-ab"),
        house.at("big"),
        house.by("of-default"),
    ];
    let lease = house.acquires(&a, "k");
    assert_eq!(house.left(&a, "k"), 10);
    // Whatever one has used, the others have left, by the limits that they have.
    for (other, left) in [(&ab, 10), (&none, 10), (&big, 100)] {
        assert_eq!(house.left(other, "k"), left);
        let ended = house.call(
            other,
            Call::Release(of_lease("k", lease), Report::default()),
        );
        assert_eq!(ended.unwrap_err().kind(), Kind::NotFound);
        let Ok(Answer::Leases(_, page)) = house.call(other, Call::Leases("jobs", listing())) else {
            panic!("it is a page");
        };
        assert!(page.items.is_empty());
    }
    // Nor is an entity, an override, usage, a refusal or an event of one told in another.
    let new = NewEntity {
        id: "alice",
        parent: None,
        name: "",
        metadata: Default::default(),
        charge_parents: true,
    };
    house.call(&a, Call::CreateEntity(new, None)).unwrap();
    let of = OverrideOf {
        policy: Some("chat"),
        key: Some(b"k"),
        entity: None,
    };
    let given: GivenLimit = (
        "rpm".to_owned(),
        vec![
            ("calls".to_owned(), Setting::Integer(50)),
            ("per".to_owned(), Setting::Text("400d".to_owned())),
        ],
    );
    let set = Call::SetOverride(of, vec![given].into(), OverrideTerms::default());
    house.call(&a, set).unwrap();
    assert_eq!(house.left(&a, "k"), 40);
    for other in [&ab, &none, &big] {
        let error = house.call(other, Call::Entity("alice")).unwrap_err();
        assert_eq!(error.kind(), Kind::NotFound);
        let Ok(Answer::Overrides(page)) = house.call(other, Call::Overrides(Default::default()))
        else {
            panic!("it is a page");
        };
        assert!(page.items.is_empty());
        assert_eq!(house.left(other, "k"), 0);
        let created = |(action, _): &(Action, Vec<String>)| *action == Action::CreateEntity;
        assert!(!house.events(other).iter().any(created));
    }
    assert!(house.call(&a, Call::Entity("alice")).is_ok());
    assert!(
        house
            .events(&a)
            .iter()
            .any(|(action, _)| *action == Action::CreateEntity)
    );
}

#[test]
fn a_token_of_one_namespace_sees_nothing_of_another_at_any_verb() {
    let house = House::with(&["a", "ab"]);
    let [of_a, of_ab, none] = [house.by("of-a"), house.by("of-ab"), house.by("of-default")];
    for (caller, other) in [
        (&of_a, "ab"),
        (&of_a, "default"),
        (&of_ab, "a"),
        (&none, "a"),
    ] {
        for name in [other, "never"] {
            let refused = caller.clone().at(Some(name)).unwrap_err();
            assert_eq!(refused.kind(), Kind::Forbidden, "{name}");
        }
        let about_all = [
            Call::CreateNamespace("new", None),
            Call::DeleteNamespace(other, None),
            Call::RestoreNamespace(other, None),
            Call::PurgeNamespace(other, None),
            Call::Namespace(other),
            Call::Namespaces(None, None),
        ];
        for call in about_all {
            let refused = house.call(caller, call.clone()).unwrap_err();
            assert_eq!(refused.kind(), Kind::Forbidden, "{call:?}");
        }
        assert!(house.service.policy(&of_a, Scope::Decide, "chat").is_err());
    }
    assert!(of_a.check_server().is_err() && none.check_server().is_ok());
    assert!(house.service.policies(&of_a).is_empty());
    // What one does at every verb is not to be found in the other.
    let lease = house.acquires(&of_a, "k");
    let before = house.left(&none, "other");
    for call in every_verb("k", lease) {
        drop(house.call(&of_a, call));
    }
    let nothing = house.events(&of_ab);
    assert_eq!(nothing, []);
    let Ok(Answer::Keys(_, page)) = house.call(&of_ab, Call::Keys("chat", listing())) else {
        panic!("it is a page");
    };
    assert!(page.items.is_empty());
    assert_eq!((before, house.left(&of_ab, "k")), (10, 10));
    // Of namespaces themselves only who is for each of them is told.
    let created = |caller| {
        let events: Vec<_> = house.events(caller);
        events
            .iter()
            .any(|(action, _)| *action == Action::CreateNamespace)
    };
    assert!(created(&house.operator) && !created(&none) && !created(&of_a));
}

#[test]
fn a_deleted_namespace_refuses_with_a_word_of_its_own_at_every_verb() {
    let house = House::with(&["a", "ab"]);
    let a = house.by("of-a");
    let lease = house.acquires(&a, "k");
    house.delete("a");
    for call in every_verb("k", lease) {
        let refused = house.call(&a, call.clone()).unwrap_err();
        assert_eq!(
            refused,
            NamespaceError::Deleted("a".to_owned()).into(),
            "{call:?}"
        );
        assert_eq!(refused.kind().code(), "namespace_deleted");
    }
    assert_eq!(house.left(&house.by("of-ab"), "k"), 10);
    // Again, it changes nothing.
    house.delete("a");
    let deletions = house.events(&house.operator).into_iter();
    let deletions = deletions.filter(|(action, _)| *action == Action::DeleteNamespace);
    assert_eq!(deletions.count(), 1);
}

#[test]
fn a_namespace_that_was_deleted_comes_back_whole() {
    let house = House::with(&["a"]);
    let a = house.by("of-a");
    let lease = house.acquires(&a, "k");
    assert!(house.checks(&a, "k").unwrap());
    let new = NewEntity {
        id: "alice",
        parent: None,
        name: "",
        metadata: Default::default(),
        charge_parents: true,
    };
    house.call(&a, Call::CreateEntity(new, None)).unwrap();
    let before = house.events(&a);
    house.delete("a");
    house.time.advance(Duration::from_secs(86_400));
    house.ask(Call::RestoreNamespace("a", None)).unwrap();
    assert_eq!(house.state("a"), Some(NamespaceState::Active));
    let settled = Call::Settle(of_lease("k", lease), Report::default(), Uses::default());
    assert!(house.call(&a, settled).is_ok(), "the lease is held");
    assert_eq!(house.left(&a, "k"), 9);
    assert!(house.call(&a, Call::Entity("alice")).is_ok());
    assert_eq!(house.events(&a), before);
    // Again, it changes nothing.
    house.ask(Call::RestoreNamespace("a", None)).unwrap();
}

#[test]
fn who_waits_in_a_namespace_is_told_that_it_was_deleted() {
    let house = House::with(&["a"]);
    let a = house.by("of-a");
    let held = [house.acquires(&a, "k"), house.acquires(&a, "k")];
    let terms = Terms {
        wait_ms: 60_000,
        wait_for_refunds: true,
        ..Terms::default()
    };
    let mut waiting = pin!(house.service.call(&a, Call::Acquire(job("k"), terms)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    house.delete("a");
    let Poll::Ready(told) = waiting.as_mut().poll(&mut context) else {
        panic!("it is told");
    };
    assert_eq!(told.unwrap_err().kind(), Kind::Deleted);
    // And takes no place when the namespace is restored.
    house.ask(Call::RestoreNamespace("a", None)).unwrap();
    for lease in held {
        let released = Call::Release(of_lease("k", lease), Report::default());
        house.call(&a, released).unwrap();
    }
    house.acquires(&a, "k");
}

#[test]
fn a_purged_namespace_leaves_nothing_to_one_that_is_created_after_it() {
    let house = House::with(&["a"]);
    let a = house.by("of-a");
    house.acquires(&a, "k");
    assert!(house.checks(&a, "k").unwrap());
    let refused = |error: ServiceError| error.kind();
    assert_eq!(
        house.purge("a").map_err(refused),
        Err(Kind::InUse),
        "it is in use"
    );
    house.delete("a");
    let soon = house.purge("a").unwrap_err();
    let left_ms = 10_000;
    let name = "a".to_owned();
    assert_eq!(soon, NamespaceError::TooSoon { name, left_ms }.into());
    assert_eq!(
        house.state("a"),
        Some(NamespaceState::Deleted),
        "it changes nothing"
    );
    house.time.advance(Duration::from_secs(10));
    assert!(house.purge("a").unwrap().is_done);
    assert_eq!(house.state("a"), None);
    let unknown = house.checks(&a, "k").unwrap_err();
    assert_eq!(unknown, NamespaceError::Unknown("a".to_owned()).into());
    assert_eq!(house.purge("a").map_err(refused), Err(Kind::NotFound));
    house.ask(Call::CreateNamespace("a", None)).unwrap();
    assert_eq!(house.left(&a, "k"), 10);
    assert_eq!(house.events(&a), []);
    // Of the namespaces themselves everything is told, once.
    let told = house.events(&house.operator).into_iter();
    let told: Vec<_> = told
        .map(|(action, details)| (action.name(), details))
        .collect();
    let a = vec!["a".to_owned()];
    assert_eq!(
        told,
        [
            ("create_namespace", a.clone()),
            ("delete_namespace", a.clone()),
            ("purge_namespace", a.clone()),
            ("create_namespace", a)
        ]
    );
}

/// They were counted from one server's clock to another's: one that was ahead purged at once, while
/// a third still wrote, and for one that was behind it was never late enough.
#[test]
fn a_purge_waits_for_ten_seconds_by_the_clock_of_the_server_that_is_asked() {
    let clock = |hours: u64| {
        let start = Timestamp::from_micros(1_700_000_000_000_000);
        ManualClock::starting_at(start + Span::from_secs(3_600 * hours))
    };
    for hours in [0, 2] {
        let store = Arc::new(MemoryStore::default());
        let server = |time: &ManualClock, policy: &str| {
            let service = Service::builder().clock(time.clock());
            let service = service.store(Arc::clone(&store) as _);
            let service = service.credentials([token("operator", Some("*"))]);
            let service = service.build(&file(policy)).unwrap();
            let operator = service.enter(Some("operator")).unwrap();
            (service, operator)
        };
        let time = clock(hours);
        let one = server(&clock(1), POLICY);
        // In memory two servers have no set together.
        let other = server(
            &time,
            "[policy.other.limits]\nrpm = { calls = 1, per = '1m' }",
        );
        let ask = |(service, operator): &(Service, Caller), call| now(service.call(operator, call));
        ask(&one, Call::CreateNamespace("a", None)).unwrap();
        ask(&one, Call::DeleteNamespace("a", None)).unwrap();
        let purge = || ask(&other, Call::PurgeNamespace("a", None));
        let refused = || purge().unwrap_err().to_string();
        assert!(refused().contains("purge it in 10 s"), "{}", refused());
        time.advance(Duration::from_millis(9_999));
        assert!(refused().contains("purge it in 1 s"), "{}", refused());
        time.advance(Duration::from_millis(1));
        assert!(matches!(purge(), Ok(Answer::Purged(purge)) if purge.is_done));
    }
}

#[test]
fn a_purge_that_was_cut_short_goes_on_and_nothing_is_restored_meanwhile() {
    let house = House::with(&["a", "ab"]);
    let (a, ab) = (house.by("of-a"), house.by("of-ab"));
    house.acquires(&a, "k");
    assert!(house.checks(&ab, "k").unwrap());
    house.delete("a");
    house.time.advance(Duration::from_secs(10));
    // What is cleared to see whether anything is, and no more.
    house.store.steps.store(1, Ordering::SeqCst);
    assert_eq!(house.purge("a").unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(house.state("a"), Some(NamespaceState::Purging));
    let gone = |answer: Result<Answer, ServiceError>| answer.unwrap_err();
    let purging: ServiceError = NamespaceError::Purging("a".to_owned()).into();
    assert_eq!(gone(house.ask(Call::RestoreNamespace("a", None))), purging);
    assert_eq!(gone(house.ask(Call::DeleteNamespace("a", None))), purging);
    assert_eq!(house.checks(&a, "k").unwrap_err(), purging);
    let again = gone(house.ask(Call::CreateNamespace("a", None)));
    assert_eq!(again.kind(), Kind::Conflict);
    house.store.steps.store(usize::MAX, Ordering::SeqCst);
    assert!(house.purge("a").unwrap().is_done);
    assert_eq!(house.state("a"), None);
    assert_eq!(house.left(&ab, "k"), 9);
    let purges = house.events(&house.operator).into_iter();
    let purges = purges.filter(|(action, _)| *action == Action::PurgeNamespace);
    assert_eq!(purges.count(), 1);
}

#[test]
fn a_namespace_that_this_server_has_not_heard_of_is_looked_for_in_the_store() {
    let house = House::new();
    let a = house.by("of-a");
    let unknown = house.checks(&a, "k").unwrap_err();
    assert_eq!(unknown, NamespaceError::Unknown("a".to_owned()).into());
    house.store.is_away.store(true, Ordering::SeqCst);
    let cannot_tell = house.checks(&a, "k").unwrap_err();
    assert_eq!(
        cannot_tell.kind(),
        Kind::Unavailable,
        "whatever its failure mode"
    );
    house.store.is_away.store(false, Ordering::SeqCst);
    house.ask(Call::CreateNamespace("a", None)).unwrap();
    assert!(house.checks(&a, "k").unwrap());
}

#[test]
fn a_page_of_one_namespace_goes_on_in_no_other_and_names_are_listed_in_order() {
    let house = House::with(&["big", "a", "ab"]);
    let list = |after: Option<Vec<u8>>, most| {
        let after = after.map(Into::into);
        match house.ask(Call::Namespaces(after, Some(most))).unwrap() {
            Answer::Namespaces(page) => page,
            other => panic!("{other:?}"),
        }
    };
    let first = list(None, 2);
    let names = |page: &Page<tidegate_service::Namespace>| -> Vec<String> {
        page.items.iter().map(|one| one.name.clone()).collect()
    };
    assert_eq!(names(&first), ["a", "ab"]);
    let rest = list(first.next, 2);
    assert_eq!((names(&rest), rest.next), (vec!["big".to_owned()], None));
    let [a, ab] = [house.by("of-a"), house.by("of-ab")];
    for key in ["k1", "k2", "k3"] {
        house.checks(&a, key).unwrap();
    }
    let page = |caller: &Caller, after: Option<Vec<u8>>| {
        let listing = Listing {
            most: Some(1),
            after: after.map(Into::into),
            ..listing()
        };
        match house.call(caller, Call::Keys("chat", listing)) {
            Ok(Answer::Keys(_, page)) => Ok((page.items.len(), page.next)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind()),
        }
    };
    let (_, next) = page(&a, None).unwrap();
    assert!(next.is_some());
    // An error, or an empty page: nothing of the other.
    assert!(matches!(page(&ab, next), Err(Kind::Invalid) | Ok((0, _))));
}

/// Those of the file hold where none were applied.
#[test]
fn a_namespace_has_its_own_policies_and_those_applied_in_it_go_first() {
    let house = House::with(&["a", "ab", "big"]);
    let [a, ab, big] = [house.by("of-a"), house.by("of-ab"), house.at("big")];
    assert_eq!((house.left(&a, "k"), house.left(&big, "k")), (10, 100));
    let applied = POLICY.replace("10", "20");
    house.applies(&a, &applied).unwrap();
    // What was used stays used.
    assert_eq!((house.left(&a, "k"), house.left(&ab, "k")), (10, 10));
    let action = |(action, _): &(Action, Vec<String>)| *action == Action::ApplyPolicies;
    assert!(house.events(&a).iter().any(action) && !house.events(&ab).iter().any(action));
    // The file is read again: who has applied policies keeps them.
    let policies = NamespacePolicies {
        usual: file(&POLICY.replace("10", "30")),
        own: Vec::new(),
    };
    house.service.exchange_namespaces(policies);
    assert_eq!((house.left(&a, "k"), house.left(&a, "new")), (0, 20));
    assert_eq!((house.left(&ab, "k"), house.left(&big, "new")), (20, 30));
    assert_eq!(
        house.left(&house.by("of-default"), "k"),
        10,
        "the file's own are exchanged apart"
    );
    // Over a deletion, too.
    house.delete("a");
    house.ask(Call::RestoreNamespace("a", None)).unwrap();
    assert_eq!(house.left(&a, "newer"), 20);
}

/// What was in force before was taken for what holds: another server's, which this one had gone
/// over to meanwhile, was undone here, and here alone.
#[test]
fn policies_that_cannot_be_kept_give_way_to_those_that_another_server_applied() {
    let house = House::with(&["a"]);
    let a = house.by("of-a");
    let [theirs, ours, before] = ["20", "30", "40"].map(|calls| POLICY.replace("10", calls));
    house.applies(&a, &theirs).unwrap();
    let faster = house.store.applied.lock().unwrap().clone().unwrap();
    house.applies(&a, &before).unwrap();
    assert_eq!(house.left(&a, "before"), 40);
    *house.store.faster.lock().unwrap() = Some(vec![faster]);
    let told = house.applies(&a, &ours).unwrap_err();
    assert!(told.contains("the store did not confirm"), "{told}");
    assert_eq!(house.left(&a, "after"), 20);
    // With nobody faster, what was before holds on.
    *house.store.faster.lock().unwrap() = Some(Vec::new());
    house.applies(&a, &ours).unwrap_err();
    assert_eq!(house.left(&a, "later"), 20);
}

/// A tenant cannot fill the place of all.
#[test]
fn there_are_a_thousand_namespaces_and_no_more() {
    let house = House::new();
    for nth in 0..1_000 {
        house
            .ask(Call::CreateNamespace(&format!("n{nth}"), None))
            .unwrap();
    }
    let one_more = house
        .ask(Call::CreateNamespace("one-more", None))
        .unwrap_err();
    assert_eq!(one_more, NamespaceError::TooMany.into());
    house.delete("n7");
    house.time.advance(Duration::from_secs(10));
    assert!(house.purge("n7").unwrap().is_done);
    house.ask(Call::CreateNamespace("one-more", None)).unwrap();
}

#[test]
fn what_can_be_no_name_is_refused_before_anything_is_asked() {
    let house = House::new();
    for name in ["", "default", "a/b", "*", "-a", &"n".repeat(65)] {
        for call in [
            Call::CreateNamespace(name, None),
            Call::DeleteNamespace(name, None),
            Call::RestoreNamespace(name, None),
            Call::PurgeNamespace(name, None),
            Call::Namespace(name),
        ] {
            assert_eq!(house.ask(call).unwrap_err().kind(), Kind::Invalid, "{name}");
        }
    }
}
