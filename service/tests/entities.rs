//! Entities: who belongs to whom, what speaks against a change, and requests by an id alone.

#[path = "support/faulty.rs"]
mod faulty;
mod support;
#[path = "../../proof/bench-entities/src/trips.rs"]
mod trips;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use faulty::Faulty;
use support::{file, now};
use tidegate::{Limit, ManualClock, Store};
use tidegate_memory::MemoryStore;
use tidegate_service::{
    Acquired, Answer, AuditListing, AuditValue, Call, Caller, Entity, EntityChange, EntityError,
    EntityListing, EntityTerms, Kind, NewEntity, Number, OfLease, OnlyIf, OverrideOf,
    OverrideTarget, OverrideTerms, Question, Report, Service, ServiceError, Terms, Uses, Whose,
};
use trips::Trips;

const POLICY: &str = "[policy.chat]\nkey = 'org/team/user'\npartial_keys = true\n\
     [policy.chat.limits]\n\
     org_rpm = { calls = 10, per = '1h', level = 'org' }\n\
     team_rpm = { calls = 6, per = '1h', level = 'team' }\n\
     rpm = { calls = 4, per = '1h', level = 'user' }\n\
     tpm = { rate = 100, per = '1h', level = 'user' }\n\
     org_tpm = { rate = 1000, per = '1h', level = 'org' }\n\
     [policy.jobs]\nkey = 'org/team/user'\npartial_keys = true\n\
     [policy.jobs.limits]\n\
     running = { concurrency = 2, ttl = '1h', level = 'user' }\n\
     all_running = { concurrency = 3, ttl = '1h', level = 'org' }\n\
     [policy.keys]\nkey = 'org/team/user/key'\npartial_keys = true\n\
     [policy.keys.limits]\n\
     key_running = { concurrency = 2, ttl = '1h', level = 'key' }\n\
     [policy.whole]\nkey = 'org/team'\nlimits.tpm = { calls = 4, per = '1h' }\n\
     [policy.flat.limits]\nrpm = { calls = 4, per = '1h' }\n";

struct House {
    service: Service,
    caller: Caller,
    time: ManualClock,
}

impl House {
    fn new() -> Self {
        Self::on(&(Arc::<MemoryStore>::default() as _))
    }

    fn on(store: &Arc<dyn Store>) -> Self {
        let time = ManualClock::default();
        let service = Service::builder().clock(time.clock());
        let service = service.store(Arc::clone(store));
        let service = service.build(&file(POLICY)).unwrap();
        let caller = service.enter(None).unwrap();
        Self {
            service,
            caller,
            time,
        }
    }

    fn call(&self, call: Call<'_>) -> Result<Answer, ServiceError> {
        now(self.service.call(&self.caller, call))
    }

    fn create(&self, id: &str, parent: Option<&str>) -> Result<Entity, ServiceError> {
        let new = NewEntity {
            id,
            parent,
            name: "",
            metadata: BTreeMap::new(),
            charge_parents: true,
        };
        match self.call(Call::CreateEntity(new, Some("because")))? {
            Answer::EntityKept(entity) => Ok(entity),
            other => panic!("{other:?}"),
        }
    }

    fn change(&self, id: &str, change: EntityChange<'_>) -> Result<Entity, ServiceError> {
        self.change_on(id, change, None)
    }

    fn change_on(
        &self,
        id: &str,
        change: EntityChange<'_>,
        only_if: Option<OnlyIf>,
    ) -> Result<Entity, ServiceError> {
        let terms = EntityTerms {
            only_if,
            reason: None,
        };
        match self.call(Call::ChangeEntity(id, change, terms))? {
            Answer::EntityKept(entity) => Ok(entity),
            other => panic!("{other:?}"),
        }
    }

    fn shift(&self, id: &str, parent: &str) -> Result<Entity, ServiceError> {
        let change = EntityChange {
            parent: Some(parent),
            ..EntityChange::default()
        };
        self.change(id, change)
    }

    fn delete(&self, id: &str) -> Result<(), ServiceError> {
        self.call(Call::DeleteEntity(id, EntityTerms::default()))
            .map(drop)
    }

    fn get(&self, id: &str) -> Result<(Entity, Vec<String>), ServiceError> {
        match self.call(Call::Entity(id))? {
            Answer::Entity(entity, ancestors) => Ok((entity, ancestors)),
            other => panic!("{other:?}"),
        }
    }

    fn listed(&self, of: Option<&str>, most: u64) -> Vec<Vec<String>> {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let listing = EntityListing {
                of,
                after,
                most: Some(most),
            };
            let Ok(Answer::Entities(page)) = self.call(Call::Entities(listing)) else {
                panic!("it is a page");
            };
            pages.push(page.items.into_iter().map(|entity| entity.id).collect());
            after = page.next.map(Into::into);
            if after.is_none() {
                return pages;
            }
        }
    }

    /// Acme with a team, and Alice in it.
    fn acme(&self) {
        self.create("acme", None).unwrap();
        self.create("search", Some("acme")).unwrap();
        self.create("alice", Some("search")).unwrap();
    }

    /// Whether a check is admitted, and if not, which limit of which entity refuses.
    fn check(&self, id: &str, tpm: u64) -> Option<(String, String)> {
        self.ask(Whose::Entity(id), tpm)
    }

    fn ask(&self, whose: Whose<'_>, tpm: u64) -> Option<(String, String)> {
        let question = Question {
            whose,
            cost: Some(Number::Units(tpm)),
            ..of("chat")
        };
        let Answer::Decided(decided) = self.call(Call::Check(question)).unwrap() else {
            panic!("it is decided");
        };
        let told = decided.told();
        if told.admitted() {
            return None;
        }
        let (limit, entity) = (told.binding().unwrap(), told.entity().unwrap_or_default());
        Some((limit.to_owned(), entity.to_owned()))
    }

    /// What is left of a limit.
    fn left(&self, id: &str, limit: &str) -> u64 {
        let question = Question {
            whose: Whose::Entity(id),
            cost: Some(Number::Units(0)),
            ..of("chat")
        };
        let Answer::Foretold(decided, _) = self.call(Call::Peek(question)).unwrap() else {
            panic!("it is foretold");
        };
        let told = decided.told();
        let stand = told.limits().find(|stand| stand.name == limit);
        stand.unwrap().standing.remaining
    }

    fn settle(&self, policy: &str, id: &str, lease: tidegate::LeaseId) {
        let of_lease = OfLease {
            policy,
            whose: Whose::Entity(id),
            lease,
        };
        let settled = Call::Settle(of_lease, Report::default(), Uses::default());
        self.call(settled).unwrap();
    }

    /// A lease of the policy `chat`, of so much of some limits.
    fn acquire_at(&self, id: &str, amounts: &[(&str, u64)]) -> tidegate::LeaseId {
        let amounts = amounts.iter();
        let question = Question {
            whose: Whose::Entity(id),
            amounts: amounts
                .map(|(name, units)| (*name, Number::Units(*units)))
                .collect(),
            ..of("chat")
        };
        let acquired = self.call(Call::Acquire(question, Terms::default()));
        granted(&acquired.unwrap()).expect("it is granted")
    }

    fn acquire(&self, id: &str) -> Option<tidegate::LeaseId> {
        self.acquire_of("jobs", id)
    }

    fn acquire_of(&self, policy: &str, id: &str) -> Option<tidegate::LeaseId> {
        let question = Question {
            whose: Whose::Entity(id),
            ..of(policy)
        };
        let acquired = self.call(Call::Acquire(question, Terms::default()));
        granted(&acquired.unwrap())
    }

    /// A request for a lease of the policy `jobs` that waits.
    fn waits<'h>(&'h self, id: &'h str, idempotency: Option<&'h [u8]>) -> Waiting<'h> {
        let question = Question {
            whose: Whose::Entity(id),
            ..of("jobs")
        };
        let terms = Terms {
            wait_ms: 60_000,
            wait_for_refunds: true,
            idempotency,
            ..Terms::default()
        };
        let acquire = Call::Acquire(question, terms);
        Box::pin(self.service.call(&self.caller, acquire))
    }

    fn events(&self, entity: Option<&str>) -> Vec<tidegate_service::AuditEvent> {
        let listing = AuditListing {
            entity,
            ..AuditListing::default()
        };
        let Ok(Answer::Audit(page)) = self.call(Call::Audit(listing)) else {
            panic!("it is a page");
        };
        page.items
    }
}

type Waiting<'h> = Pin<Box<dyn Future<Output = Result<Answer, ServiceError>> + 'h>>;

/// What it is told, if anything by now.
fn told(waiting: &mut Waiting<'_>) -> Option<Result<Answer, ServiceError>> {
    let mut context = Context::from_waker(Waker::noop());
    match waiting.as_mut().poll(&mut context) {
        Poll::Ready(told) => Some(told),
        Poll::Pending => None,
    }
}

/// The lease that was granted, delivered.
fn granted(answer: &Answer) -> Option<tidegate::LeaseId> {
    let Answer::Acquired(acquisition) = answer else {
        panic!("it is answered");
    };
    if let Some(lease) = &acquisition.lease {
        lease.deliver();
    }
    match &acquisition.acquired {
        Acquired::Granted(granted) => Some(granted.id),
        _ => None,
    }
}

fn of(policy: &str) -> Question<'_> {
    Question {
        policy,
        ..Question::default()
    }
}

fn why(error: Result<impl std::fmt::Debug, ServiceError>) -> EntityError {
    match error.unwrap_err() {
        ServiceError::Entity(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn an_entity_is_created_changed_got_listed_and_deleted() {
    let house = House::new();
    house.acme();
    let (alice, ancestors) = house.get("alice").unwrap();
    assert_eq!(ancestors, ["acme", "search"]);
    assert_eq!(alice.value.parent.as_deref(), Some("search"));
    assert!(alice.version > 0 && alice.value.charge_parents);
    assert_eq!(alice.value.by.as_deref(), Some("anyone"));
    house.time.advance(Duration::from_secs(1));
    let change = EntityChange {
        name: Some("Alice"),
        metadata: Some([("tier".to_owned(), "gold".to_owned())].into()),
        ..EntityChange::default()
    };
    let changed = house.change("alice", change).unwrap();
    assert!(changed.version > alice.version);
    assert_eq!(changed.value.created_at, alice.value.created_at);
    assert!(changed.value.changed_at > alice.value.changed_at);
    let again = house.get("alice").unwrap().0;
    assert_eq!(again, changed);
    assert_eq!(
        (&*again.value.name, &*again.value.metadata["tier"]),
        ("Alice", "gold")
    );
    for id in ["bob", "carol"] {
        house.create(id, Some("search")).unwrap();
    }
    let two = |pages: &[&[&str]]| -> Vec<Vec<String>> {
        let page = |page: &&[&str]| page.iter().map(|id| (*id).to_owned()).collect();
        pages.iter().map(page).collect()
    };
    let all = house.listed(None, 2);
    assert_eq!(
        all,
        two(&[&["acme", "alice"], &["bob", "carol"], &["search"]])
    );
    let children = house.listed(Some("search"), 2);
    assert_eq!(children, two(&[&["alice", "bob"], &["carol"]]));
    assert_eq!(house.listed(Some("alice"), 2), two(&[&[]]));
    house.delete("bob").unwrap();
    assert_eq!(house.listed(Some("search"), 9), two(&[&["alice", "carol"]]));
    assert_eq!(why(house.get("bob")), EntityError::Unknown("bob".into()));
    assert_eq!(why(house.delete("bob")), EntityError::Unknown("bob".into()));
    let none = Call::Entities(EntityListing {
        of: Some("bob"),
        ..EntityListing::default()
    });
    assert_eq!(why(house.call(none)), EntityError::Unknown("bob".into()));
}

#[test]
fn what_cannot_be_is_refused_with_words_and_changes_nothing() {
    let house = House::new();
    house.acme();
    let nobody = house.create("bob", Some("nobody")).unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "there is no entity `nobody`; create it, or correct the id"
    );
    assert_eq!(nobody.kind(), Kind::NotFound);
    let twice = house.create("alice", None).unwrap_err();
    assert_eq!(twice.kind(), Kind::Conflict);
    assert!(twice.to_string().contains("already, at version"), "{twice}");
    let own = house.create("self", Some("self")).unwrap_err();
    assert!(own.to_string().contains("cannot belong to `self`"), "{own}");
    for below in ["acme", "search", "alice"] {
        let cycle = house.shift("acme", below).unwrap_err();
        assert!(cycle.to_string().contains("belongs to it"), "{cycle}");
        assert_eq!(cycle.kind(), Kind::Invalid);
    }
    let nobody = house.shift("alice", "nobody").unwrap_err();
    assert_eq!(
        nobody.to_string(),
        "there is no entity `nobody`; create it, or correct the id"
    );
    house.create("else", None).unwrap();
    house.create("other", Some("else")).unwrap();
    for (id, parent) in [("alice", "other"), ("else", "acme"), ("other", "acme")] {
        let elsewhere = house.shift(id, parent).unwrap_err();
        assert!(
            elsewhere.to_string().contains("has another root"),
            "{elsewhere}"
        );
        assert_eq!(elsewhere.kind(), Kind::Invalid);
    }
    house.delete("other").unwrap();
    house.delete("else").unwrap();
    house.create("ads", Some("acme")).unwrap();
    for (id, parent, level) in [("alice", "acme", "level 3"), ("ads", "search", "level 2")] {
        let other = house.shift(id, parent).unwrap_err();
        assert!(other.to_string().contains(level), "{other}");
        assert_eq!(other.kind(), Kind::Invalid);
    }
    let children = house.delete("search").unwrap_err();
    assert_eq!(children.kind(), Kind::InUse);
    assert!(
        children.to_string().contains("such as `alice`"),
        "{children}"
    );
    let mut parent = "alice".to_owned();
    for level in 4..=8 {
        let id = format!("level {level}");
        house.create(&id, Some(&parent)).unwrap();
        parent = id;
    }
    let ninth = house.create("ninth", Some(&parent)).unwrap_err();
    assert!(ninth.to_string().contains("at level 9"), "{ninth}");
    let ninth = house.shift("ads", &parent).unwrap_err();
    assert!(ninth.to_string().contains("at level 9"), "{ninth}");
    let long = "x".repeat(257);
    for id in ["", ".", "..", &long] {
        let wrong = house.create(id, None).unwrap_err();
        assert!(matches!(wrong, ServiceError::Form { .. }), "{wrong}");
        let wrong = house.create("fine", Some(id)).unwrap_err();
        assert!(matches!(wrong, ServiceError::Form { .. }), "{wrong}");
    }
    let words = |count: usize, length: usize| EntityChange {
        metadata: Some(
            (0..count)
                .map(|n| (format!("{n}"), "x".repeat(length)))
                .collect(),
        ),
        ..EntityChange::default()
    };
    for change in [words(17, 1), words(2, 600)] {
        let wrong = house.change("alice", change).unwrap_err();
        assert!(matches!(wrong, ServiceError::Form { .. }), "{wrong}");
    }
    let nothing = house.change("alice", EntityChange::default()).unwrap_err();
    assert!(
        matches!(nothing, ServiceError::Entity(EntityError::NoChange)),
        "{nothing}"
    );
    let all: Vec<_> = house.listed(None, 100).concat();
    let nobody = ["bob", "self", "ninth", "fine", "else"];
    assert!(!all.iter().any(|id| nobody.contains(&&**id)), "{all:?}");
    assert_eq!(house.get("alice").unwrap().1, ["acme", "search"]);
}

#[test]
fn a_change_on_another_version_is_a_conflict() {
    let house = House::new();
    house.acme();
    let alice = house.get("alice").unwrap().0;
    let name = |name| EntityChange {
        name: Some(name),
        ..EntityChange::default()
    };
    let at = Some(OnlyIf::Version(alice.version));
    let changed = house.change_on("alice", name("A"), at).unwrap();
    let late = house.change_on("alice", name("B"), at).unwrap_err();
    assert_eq!(late.kind(), Kind::Conflict);
    let words = format!("the entity `alice` is at version {} now", changed.version);
    assert!(late.to_string().starts_with(&words), "{late}");
    let terms = EntityTerms {
        only_if: at,
        reason: None,
    };
    let late = house.call(Call::DeleteEntity("alice", terms)).unwrap_err();
    assert_eq!(late.kind(), Kind::Conflict);
    let terms = EntityTerms {
        only_if: Some(OnlyIf::Version(changed.version)),
        reason: None,
    };
    house.call(Call::DeleteEntity("alice", terms)).unwrap();
}

#[test]
fn asked_by_its_id_an_entity_and_its_ancestors_are_charged_in_one_step_or_not_at_all() {
    let house = House::new();
    house.acme();
    house.create("bob", Some("search")).unwrap();
    for _ in 0..4 {
        assert_eq!(house.check("alice", 1), None);
    }
    assert_eq!(house.left("alice", "org_tpm"), 996);
    assert_eq!(house.left("bob", "team_rpm"), 2);
    // Her own limit.
    assert_eq!(
        house.check("alice", 1),
        Some(("rpm".into(), "alice".into()))
    );
    assert_eq!(house.check("bob", 1), None);
    assert_eq!(house.check("bob", 1), None);
    // An exhausted parent's refusal names the limit and the ancestor, and charges nobody.
    let refused = house.check("bob", 1);
    assert_eq!(refused, Some(("team_rpm".into(), "search".into())));
    assert_eq!(house.left("bob", "rpm"), 2);
    assert_eq!(house.left("bob", "org_rpm"), 4);
    house.create("ads", Some("acme")).unwrap();
    house.create("carol", Some("ads")).unwrap();
    for _ in 0..4 {
        assert_eq!(house.check("carol", 1), None);
    }
    house.create("dave", Some("ads")).unwrap();
    let refused = house.check("dave", 1);
    assert_eq!(refused, Some(("org_rpm".into(), "acme".into())));
    // A root by its id, and by the key of the same bytes.
    let by_key = house.ask(Whose::Key(b"acme"), 1).map(|(limit, _)| limit);
    assert_eq!(by_key.as_deref(), Some("org_rpm"));
    let unknown = Question {
        whose: Whose::Entity("nobody"),
        ..of("chat")
    };
    let unknown = house.call(Call::Check(unknown)).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no entity `nobody`; create it, or correct the id"
    );
    assert_eq!(unknown.kind(), Kind::NotFound);
}

#[test]
fn several_entities_are_checked_at_once_and_each_has_its_answer() {
    let house = House::new();
    house.acme();
    let check = |id| {
        Ok(Question {
            whose: Whose::Entity(id),
            cost: Some(Number::Units(1)),
            ..of("chat")
        })
    };
    let many = Call::CheckMany(vec![check("alice"), check("nobody"), check("acme")]);
    let Ok(Answer::Many(answers)) = house.call(many) else {
        panic!("there are answers");
    };
    let admitted = |at: usize| answers[at].as_ref().unwrap().told().admitted();
    assert!(admitted(0) && admitted(2));
    let unknown = answers[1].as_ref().unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "there is no entity `nobody`; create it, or correct the id"
    );
    assert_eq!(house.left("acme", "org_rpm"), 8);
}

#[test]
fn an_entity_that_moves_keeps_what_it_has_used() {
    let house = House::new();
    house.acme();
    house.create("ads", Some("acme")).unwrap();
    for _ in 0..3 {
        assert_eq!(house.check("alice", 20), None);
    }
    let moved = house.shift("alice", "ads").unwrap();
    assert_eq!(moved.value.parent.as_deref(), Some("ads"));
    assert_eq!(house.get("alice").unwrap().1, ["acme", "ads"]);
    assert!(house.listed(Some("search"), 9).concat().is_empty());
    assert_eq!(house.listed(Some("ads"), 9).concat(), ["alice"]);
    let left = |id| (house.left(id, "rpm"), house.left(id, "tpm"));
    assert_eq!(left("alice"), (1, 40));
    // What she used before was charged to her old team, what she uses now is to the new one.
    assert_eq!(house.left("alice", "team_rpm"), 6);
    assert_eq!(house.check("alice", 20), None);
    assert_eq!(house.left("alice", "team_rpm"), 5);
    assert_eq!(house.left("search", "team_rpm"), 3);
    assert_eq!(house.left("acme", "org_rpm"), 6);
    assert_eq!(
        house.check("alice", 1),
        Some(("rpm".into(), "alice".into()))
    );
    house.shift("alice", "search").unwrap();
    assert_eq!(left("alice"), (0, 20));
    assert_eq!(house.left("alice", "team_rpm"), 3);
}

#[test]
fn all_below_an_entity_move_with_it() {
    let house = House::new();
    house.acme();
    for (id, parent) in [
        ("us", "acme"),
        ("eu", "acme"),
        ("shop", "us"),
        ("cart", "shop"),
    ] {
        house.create(id, Some(parent)).unwrap();
    }
    assert_eq!(house.check("shop", 30), None);
    house.shift("shop", "eu").unwrap();
    assert_eq!(house.get("cart").unwrap().1, ["acme", "eu", "shop"]);
    assert_eq!(house.left("shop", "tpm"), 70);
    assert_eq!(house.left("eu", "team_rpm"), 6);
    assert_eq!(house.check("shop", 30), None);
    assert_eq!(house.left("eu", "team_rpm"), 5);
    assert_eq!(house.left("us", "team_rpm"), 5);
}

#[test]
fn what_a_path_of_entities_has_used_it_has_used_when_its_entity_is_created() {
    let house = House::new();
    assert_eq!(house.ask(Whose::Key(b"/acme/search/alice"), 20), None);
    house.acme();
    let left = |limit| house.left("alice", limit);
    assert_eq!((left("tpm"), left("rpm")), (80, 3));
    assert_eq!((left("team_rpm"), left("org_rpm")), (5, 9));
}

#[test]
fn an_entity_deeper_than_a_policy_has_no_limits_there() {
    let house = House::new();
    house.acme();
    let check = |policy, id| {
        house.call(Call::Check(Question {
            whose: Whose::Entity(id),
            cost: Some(Number::Units(1)),
            ..of(policy)
        }))
    };
    check("flat", "acme").unwrap();
    let unlimited = check("flat", "search").unwrap_err();
    let words = "`search` is at level 2, and the keys of the policy `flat` have 1";
    assert!(unlimited.to_string().starts_with(words), "{unlimited}");
    assert_eq!(unlimited.kind(), Kind::Invalid);
    house.create("deep", Some("alice")).unwrap();
    let unlimited = check("chat", "deep").unwrap_err();
    assert!(unlimited.to_string().contains("have 3"), "{unlimited}");
    // Nor an override, which would have been that of a key: `/acme/search` may be a path of URLs.
    let remove = |policy, entity| {
        let of = OverrideOf {
            policy,
            entity: Some(entity),
            ..OverrideOf::default()
        };
        house.call(Call::RemoveOverride(of, OverrideTerms::default()))
    };
    let unlimited = remove(Some("flat"), "search").unwrap_err();
    assert!(unlimited.to_string().starts_with(words), "{unlimited}");
    let everywhere = remove(None, "search").unwrap_err();
    assert!(
        everywhere.to_string().contains("name that policy"),
        "{everywhere}"
    );
    // A key of one level is what it always was.
    let key = Question {
        whose: Whose::Key(b"/acme/search"),
        ..of("flat")
    };
    house.call(Call::Check(key)).unwrap();
}

/// It was told to write every level of a key, and had written none.
#[test]
fn an_entity_above_the_keys_of_a_policy_is_told_their_level() {
    let house = House::new();
    house.acme();
    let check = |id| {
        house.call(Call::Check(Question {
            whose: Whose::Entity(id),
            ..of("whole")
        }))
    };
    let above = check("acme").unwrap_err();
    let words = "`acme` is at level 1, and the keys of the policy `whole` have 2, down to `team`";
    assert!(above.to_string().starts_with(words), "{above}");
    assert_eq!(above.kind(), Kind::Invalid);
    check("search").unwrap();
    let of_acme = Question {
        whose: Whose::Entity("acme"),
        cost: Some(Number::Units(1)),
        ..of("whole")
    };
    let above = house.call(Call::Peek(of_acme.clone())).unwrap_err();
    assert!(above.to_string().starts_with(words), "{above}");
    let above = house.call(Call::Forecast(of_acme)).unwrap_err();
    assert!(above.to_string().starts_with(words), "{above}");
}

#[test]
fn a_lease_keeps_its_entity_and_those_above_from_being_moved() {
    let house = House::new();
    house.acme();
    house.create("ads", Some("acme")).unwrap();
    house.create("bob", Some("search")).unwrap();
    let lease = house.acquire("alice").unwrap();
    let leased = house.shift("alice", "ads").unwrap_err();
    assert_eq!(leased.kind(), Kind::InUse);
    let words = "`alice`, or an entity below it, holds leases of the policy `jobs`";
    assert!(leased.to_string().starts_with(words), "{leased}");
    assert_eq!(house.get("alice").unwrap().1, ["acme", "search"]);
    // Who holds none may go.
    house.shift("bob", "ads").unwrap();
    house.settle("jobs", "alice", lease);
    house.shift("alice", "ads").unwrap();
    // One that belongs to her holds her back, too.
    house.create("key 1", Some("alice")).unwrap();
    house.create("key 2", Some("bob")).unwrap();
    assert!(house.acquire_of("keys", "key 2").is_some());
    let lease = house.acquire_of("keys", "key 1").unwrap();
    let leased = house.shift("alice", "search").unwrap_err();
    assert!(
        leased.to_string().contains("of the policy `keys`"),
        "{leased}"
    );
    house.settle("keys", "key 1", lease);
    house.shift("alice", "search").unwrap();
    assert_eq!(house.get("key 1").unwrap().1, ["acme", "search", "alice"]);
}

#[test]
fn a_lease_keeps_its_entity_from_being_deleted() {
    let house = House::new();
    house.acme();
    house.create("ads", Some("acme")).unwrap();
    let lease = house.acquire("alice").unwrap();
    assert!(house.acquire("alice").is_some());
    assert!(house.acquire("alice").is_none());
    let leased = house.delete("alice").unwrap_err();
    assert_eq!(leased.kind(), Kind::InUse);
    assert!(
        leased.to_string().contains("leases of the policy `jobs`"),
        "{leased}"
    );
    house.settle("jobs", "alice", lease);
    assert!(house.acquire("alice").is_some());
    house.time.advance(Duration::from_secs(7_200));
    house.delete("alice").unwrap();
}

/// Each ancestor that a server did not know was a trip of its own, one after the other.
#[test]
fn an_entity_of_which_nothing_is_known_is_one_trip_however_deep_it_stands() {
    assert_trips(Trips::default(), [1, 1, 1]);
}

#[test]
fn an_unknown_entity_is_two_trips_where_the_store_reads_no_ancestors_and_one_for_each_that_moved() {
    let trips = Trips::default();
    trips.set_reads_ancestors(false);
    assert_trips(trips, [2, 3, 2]);
}

/// How many they are at first, once an ancestor has moved, and once it is put elsewhere itself.
fn assert_trips(trips: Trips, [first, ancestor_moved, moved_itself]: [u64; 3]) {
    let trips = Arc::new(trips);
    let store: Arc<dyn Store> = Arc::clone(&trips) as _;
    let house = House::on(&store);
    let ids: Vec<_> = (1..=8).map(|level| format!("at {level}")).collect();
    house.create(&ids[0], None).unwrap();
    for pair in ids.windows(2) {
        house.create(&pair[1], Some(&pair[0])).unwrap();
    }
    let asked = |house: &House, id: &str| {
        trips.take();
        let path = now(house.service.entity_path(id)).unwrap();
        (trips.take(), path.ids().collect::<Vec<_>>().join(" < "))
    };
    // A server that knows nothing, once there is no other.
    let anew = |house: House| {
        drop(house);
        House::on(&store)
    };
    let house = anew(house);
    let all = ids.join(" < ");
    assert_eq!(asked(&house, "at 8"), (first, all.clone()));
    assert_eq!(asked(&house, "at 8"), (0, all.clone()));
    house.create("sibling", Some("at 7")).unwrap();
    assert_eq!(asked(&house, "sibling").0, 1);
    // One above it has moved since.
    house.create("other 2", Some("at 1")).unwrap();
    house.shift("at 3", "other 2").unwrap();
    let house = anew(house);
    let moved = all.replace("at 2", "other 2");
    assert_eq!(asked(&house, "at 8"), (ancestor_moved, moved.clone()));
    // Put there anew, it is written with those above it now.
    house.create("other 7", Some("at 6")).unwrap();
    house.shift("at 8", "other 7").unwrap();
    let house = anew(house);
    let moved = moved.replace("at 7", "other 7");
    assert_eq!(asked(&house, "at 8"), (moved_itself, moved));
}

#[test]
fn with_charging_parents_switched_off_ancestors_are_neither_asked_nor_charged() {
    let house = House::new();
    house.acme();
    let alone = |charge_parents| EntityChange {
        charge_parents: Some(charge_parents),
        ..EntityChange::default()
    };
    assert_eq!(house.check("alice", 10), None);
    house.change("alice", alone(false)).unwrap();
    assert_eq!(house.check("alice", 10), None);
    assert_eq!(
        (
            house.left("search", "team_rpm"),
            house.left("acme", "org_rpm")
        ),
        (5, 9)
    );
    assert_eq!(house.left("acme", "org_tpm"), 990);
    assert_eq!(
        (house.left("alice", "rpm"), house.left("alice", "tpm")),
        (2, 80)
    );
    // Though the team is exhausted.
    house.create("bob", Some("search")).unwrap();
    house.create("carol", Some("search")).unwrap();
    for id in ["bob", "bob", "bob", "carol", "carol"] {
        assert_eq!(house.check(id, 1), None);
    }
    assert_eq!(
        house.check("carol", 1),
        Some(("team_rpm".into(), "search".into()))
    );
    assert_eq!(house.check("alice", 10), None);
    house.change("alice", alone(true)).unwrap();
    assert_eq!(
        house.check("alice", 10),
        Some(("team_rpm".into(), "search".into()))
    );
    // Slots of hers alone.
    house.change("alice", alone(false)).unwrap();
    for id in ["bob", "bob", "carol"] {
        assert!(house.acquire(id).is_some());
    }
    assert!(house.acquire("carol").is_none());
    assert!(house.acquire("alice").is_some());
}

/// It was an error, about the very limit that was named.
#[test]
fn a_request_may_name_limits_of_ancestors_that_are_not_charged() {
    let house = House::new();
    house.acme();
    let alone = EntityChange {
        charge_parents: Some(false),
        ..EntityChange::default()
    };
    house.change("alice", alone).unwrap();
    house.acquire_at("alice", &[("org_tpm", 5)]);
    let left = (house.left("acme", "org_tpm"), house.left("alice", "rpm"));
    assert_eq!(left, (1_000, 3));
}

/// They were asked and charged, and the entity's own was not.
#[test]
fn limits_that_only_an_ancestor_has_are_not_charged_with_charging_parents_off() {
    let house = House::new();
    house.acme();
    let add = |key: &str, limits: &[Limit]| {
        let target = OverrideTarget::everything().of_policy("chat").of_key(key);
        let set = house.service.set_override(&house.caller, &target, limits);
        set.wait().unwrap();
    };
    let hour = Duration::from_secs(3_600);
    let rate = |name, units| Limit::rate(name, units, hour).added();
    let calls = Limit::calls("org_gpu", 2, hour).added();
    add("acme", &[calls, rate("org_size", 50)]);
    add("/acme//alice", &[rate("size", 100)]);
    let charge = |charge_parents| {
        let change = EntityChange {
            charge_parents: Some(charge_parents),
            ..EntityChange::default()
        };
        house.change("alice", change).unwrap();
    };
    charge(false);
    for _ in 0..3 {
        assert_eq!(house.check("alice", 10), None);
    }
    house.acquire_at("alice", &[("tpm", 1), ("org_size", 60)]);
    let left = [("acme", "org_gpu"), ("acme", "org_size"), ("alice", "size")];
    let left = left.map(|(id, limit)| house.left(id, limit));
    assert_eq!(left, [2, 50, 70]);
    // Also where nothing is said, as counts need no amount.
    add("/acme//bob", &[rate("size", 100)]);
    house.create("bob", Some("search")).unwrap();
    let alone = EntityChange {
        charge_parents: Some(false),
        ..EntityChange::default()
    };
    house.change("bob", alone).unwrap();
    let held = house.acquire("bob").unwrap();
    house.acquire("alice").unwrap();
    house.settle("jobs", "bob", held);
    assert_eq!(house.left("acme", "org_gpu"), 2);
    house.time.advance(hour);
    charge(true);
    for _ in 0..2 {
        assert_eq!(house.check("alice", 10), None);
    }
    let refused = house.check("alice", 10);
    assert_eq!(refused, Some(("org_gpu".into(), "acme".into())));
    assert_eq!(house.left("acme", "org_size"), 30);
}

/// It was granted on the path from before, and nobody could end it by the entity's id.
#[test]
fn a_request_that_waits_while_its_entity_moves_is_granted_where_that_stands() {
    let house = House::new();
    house.acme();
    house.create("ads", Some("acme")).unwrap();
    for id in ["bob", "carol"] {
        house.create(id, Some("search")).unwrap();
    }
    let held = house.acquire("bob").unwrap();
    house.acquire("bob").unwrap();
    house.acquire("carol").unwrap();
    let mut waiting = house.waits("alice", None);
    assert!(told(&mut waiting).is_none());
    house.shift("alice", "ads").unwrap();
    house.settle("jobs", "bob", held);
    let acquired = told(&mut waiting).expect("it has its turn");
    let lease = granted(&acquired.unwrap()).expect("it is granted");
    assert!(house.acquire("carol").is_none(), "it holds the slot");
    house.settle("jobs", "alice", lease);
    assert!(house.acquire("carol").is_some());
}

/// It was named to be left out, and then an error, though the request had not named it.
#[test]
fn a_request_waits_on_when_a_limit_of_an_ancestor_goes_that_it_does_not_take() {
    let house = House::new();
    house.acme();
    let target = OverrideTarget::everything()
        .of_policy("jobs")
        .of_key("acme");
    let gpu = Limit::calls("org_gpu", 5, Duration::from_secs(60)).added();
    let set = house.service.set_override(&house.caller, &target, &[gpu]);
    set.wait().unwrap();
    let alone = EntityChange {
        charge_parents: Some(false),
        ..EntityChange::default()
    };
    house.change("alice", alone).unwrap();
    let held = house.acquire("alice").unwrap();
    house.acquire("alice").unwrap();
    let mut waiting = house.waits("alice", None);
    assert!(told(&mut waiting).is_none());
    let of_acme = OverrideOf {
        policy: Some("jobs"),
        key: Some(b"acme"),
        entity: None,
    };
    let remove = Call::RemoveOverride(of_acme, OverrideTerms::default());
    house.call(remove).unwrap();
    assert!(told(&mut waiting).is_none());
    house.settle("jobs", "alice", held);
    let acquired = told(&mut waiting).expect("it has its turn");
    assert!(granted(&acquired.unwrap()).is_some());
}

/// With an idempotency key the lease was left for a retry, which finds no entity any more.
#[test]
fn a_request_that_waits_while_its_entity_is_deleted_leaves_no_lease() {
    let house = House::new();
    house.acme();
    for id in ["bob", "carol"] {
        house.create(id, Some("search")).unwrap();
    }
    let held = house.acquire("bob").unwrap();
    house.acquire("bob").unwrap();
    house.acquire("carol").unwrap();
    let mut waiting = house.waits("alice", Some(b"once"));
    assert!(told(&mut waiting).is_none());
    house.delete("alice").unwrap();
    house.settle("jobs", "bob", held);
    let told = told(&mut waiting).expect("it is told");
    assert_eq!(told.unwrap_err().kind(), Kind::NotFound);
    assert!(house.acquire("carol").is_some(), "the slot is free");
}

/// What is not charged is no limit of who spends it. (A grant that nobody is told of comes back.)
#[test]
fn a_grant_by_an_entitys_id_has_the_limits_that_it_is_held_to() {
    let house = House::new();
    house.acme();
    let granted = || {
        let units = |name, units| (name, Number::Units(units));
        let question = Question {
            whose: Whose::Entity("alice"),
            amounts: [units("rpm", 9), units("tpm", 50), units("org_tpm", 70)]
                .into_iter()
                .collect(),
            ..of("chat")
        };
        let Ok(Answer::Granted(granting)) = house.call(Call::Grant(question, Box::default()))
        else {
            panic!("it is granted");
        };
        let amounts = granting.amounts();
        let amounts = amounts.map(|(limit, amount)| (limit.name().to_owned(), amount));
        amounts.collect::<BTreeMap<_, _>>()
    };
    let named = |amounts: &[(&str, u64)]| {
        let amounts = amounts.iter();
        let amounts = amounts.map(|(name, amount)| ((*name).to_owned(), *amount));
        amounts.collect::<BTreeMap<_, _>>()
    };
    let own = [("rpm", 4), ("tpm", 50)];
    let above = [("org_rpm", 1), ("team_rpm", 1), ("org_tpm", 70)];
    assert_eq!(granted(), named(&[&own[..], &above].concat()));
    let alone = EntityChange {
        charge_parents: Some(false),
        ..EntityChange::default()
    };
    house.change("alice", alone).unwrap();
    assert_eq!(granted(), named(&own));
    assert_eq!(house.left("alice", "rpm"), 4);
}

#[test]
fn a_lease_is_settled_where_it_was_charged_though_parents_are_switched_off_meanwhile() {
    let house = House::new();
    house.acme();
    let question = Question {
        whose: Whose::Entity("alice"),
        cost: Some(Number::Units(50)),
        ..of("chat")
    };
    let acquired = house.call(Call::Acquire(question, Terms::default()));
    let Ok(Answer::Acquired(acquisition)) = acquired else {
        panic!("it is answered");
    };
    let Acquired::Granted(granted) = &acquisition.acquired else {
        panic!("it fits");
    };
    acquisition.lease.as_ref().unwrap().deliver();
    assert_eq!(
        (house.left("alice", "tpm"), house.left("acme", "org_tpm")),
        (50, 950)
    );
    let alone = EntityChange {
        charge_parents: Some(false),
        ..EntityChange::default()
    };
    house.change("alice", alone).unwrap();
    let of_lease = OfLease {
        policy: "chat",
        whose: Whose::Entity("alice"),
        lease: granted.id,
    };
    let used = Uses {
        cost: Some(Number::Units(20)),
        ..Uses::default()
    };
    let settled = Call::Settle(of_lease, Report::default(), used);
    house.call(settled).unwrap();
    assert_eq!(house.left("alice", "tpm"), 80);
    assert_eq!(house.left("acme", "org_tpm"), 950);
}

#[test]
fn each_change_leaves_one_event_with_before_and_after() {
    let house = House::new();
    house.acme();
    house.create("ads", Some("acme")).unwrap();
    let name = EntityChange {
        name: Some("Alice"),
        ..EntityChange::default()
    };
    house.change("alice", name).unwrap();
    house.shift("alice", "ads").unwrap();
    house.create("bob", Some("nobody")).unwrap_err();
    house.delete("acme").unwrap_err();
    house.delete("alice").unwrap();
    let events = house.events(Some("alice"));
    let actions: Vec<_> = events.iter().map(|event| event.action.name()).collect();
    let expected = [
        "create_entity",
        "change_entity",
        "change_entity",
        "delete_entity",
    ];
    assert_eq!(actions, expected);
    let parents = |value: &Option<AuditValue>| match value {
        Some(AuditValue::Entity(value)) => Some((value.parent.clone(), value.name.clone())),
        None => None,
        other => panic!("{other:?}"),
    };
    let changes: Vec<_> = events
        .iter()
        .map(|event| (parents(&event.before), parents(&event.after)))
        .collect();
    let state = |parent: &str, name: &str| Some((Some(parent.to_owned()), name.to_owned()));
    assert_eq!(
        changes,
        [
            (None, state("search", "")),
            (state("search", ""), state("search", "Alice")),
            (state("search", "Alice"), state("ads", "Alice")),
            (state("ads", "Alice"), None),
        ]
    );
    assert!(
        events
            .iter()
            .all(|event| event.entity.as_deref() == Some("alice"))
    );
    assert_eq!(events[0].reason.as_deref(), Some("because"));
    assert_eq!(house.events(None).len(), 7);
}

#[test]
fn what_a_store_keeps_outlives_the_service() {
    let store = Arc::<MemoryStore>::default() as Arc<dyn Store>;
    House::on(&store).acme();
    let house = House::on(&store);
    assert_eq!(house.get("alice").unwrap().1, ["acme", "search"]);
    assert_eq!(house.check("alice", 1), None);
}

/// It was answered with "too many requests are being served", as if the server were busy.
#[test]
fn a_change_that_others_always_outrun_says_of_what() {
    let store = Arc::<Faulty>::default();
    let house = House::on(&(Arc::clone(&store) as _));
    house.create("acme", None).unwrap();
    let named = EntityChange {
        name: Some("Acme"),
        ..EntityChange::default()
    };
    store.faults.outruns.store(true, Ordering::SeqCst);
    let told = house.change("acme", named.clone()).unwrap_err();
    assert_eq!(
        told.to_string(),
        "the entity `acme` was changed by others each time that this change was tried; try again"
    );
    assert_eq!(told.kind(), Kind::Busy);
    assert_eq!(house.get("acme").unwrap().0.value.name, "");
    store.faults.outruns.store(false, Ordering::SeqCst);
    house.change("acme", named).unwrap();
    assert_eq!(house.get("acme").unwrap().0.value.name, "Acme");
}
