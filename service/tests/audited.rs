//! Administrative changes, and the events that the store keeps of them.

#[path = "support/faulty.rs"]
mod faulty;
mod support;

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use std::time::Duration;

use faulty::Faulty;
use support::{file, now};
use tidegate::{Limit, ManualClock, Select, Store};
use tidegate_service::{
    Action, Answer, AuditEvent, AuditListing, Call, Caller, LeaseHandle, Listing, OverrideOf,
    OverrideTarget, Question, Service, ServiceError, Terms, Whose, compare,
};

const POLICY: &str = "[policy.jobs.limits]\nrunning = { concurrency = 4, ttl = '1h' }\n";

/// A service whose key `k` holds a lease.
struct Fixture {
    store: Arc<Faulty>,
    time: ManualClock,
    service: Service,
    caller: Caller,
    /// One that nobody is told of is given back.
    _lease: Answer,
}

impl Fixture {
    fn new() -> Self {
        Self::keeping(10_000)
    }

    /// Of each sort so many events are kept.
    fn keeping(most: u32) -> Self {
        let store = Arc::<Faulty>::default();
        let time = ManualClock::default();
        let builder = Service::builder().clock(time.clock());
        let builder = builder.store(Arc::clone(&store) as Arc<dyn Store>);
        let builder = builder.audit(tidegate_service::bounds::USUAL_AUDIT, most);
        let service = builder.build(&file(POLICY)).unwrap();
        let caller = service.enter(None).unwrap();
        let question = Question {
            policy: "jobs",
            whose: Whose::Key(b"k"),
            ..Question::default()
        };
        let acquire = Call::Acquire(question, Terms::default());
        let lease = now(service.call(&caller, acquire)).unwrap();
        Self {
            store,
            time,
            service,
            caller,
            _lease: lease,
        }
    }

    fn call(&self, call: Call<'_>) -> Result<Answer, ServiceError> {
        now(self.service.call(&self.caller, call))
    }

    /// Asks, and hangs up as soon as the store is asked to do it.
    fn hang_up(&self, call: Call<'_>) {
        self.store.faults.is_silent.store(true, Ordering::SeqCst);
        let answer = pin!(self.service.call(&self.caller, call));
        let polled = answer.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "{polled:?}");
        self.store.faults.is_silent.store(false, Ordering::SeqCst);
    }

    fn keep_nothing(&self, is_so: bool) {
        let faults = &self.store.faults;
        faults.keeps_nothing.store(is_so, Ordering::SeqCst);
    }

    fn reset(&self) -> Result<Answer, ServiceError> {
        self.call(reset())
    }

    fn handles(&self) -> Vec<LeaseHandle> {
        let listing = Listing {
            select: Select::All,
            after: None,
            most: None,
        };
        match self.call(Call::Leases("jobs", listing)) {
            Ok(Answer::Leases(_, page)) => page.items.iter().map(|one| one.handle).collect(),
            other => panic!("{other:?}"),
        }
    }

    fn apply(&self) {
        let apply = async { Ok::<_, String>(()) };
        let applied = now(self.service.apply_policies(&self.caller, &[], apply));
        assert_eq!(applied, Ok(Ok(())));
    }

    fn set_override(&self) {
        let limit = Limit::concurrency("running", 2);
        let target = OverrideTarget::everything().of_policy("jobs");
        let set = self.service.set_override(&self.caller, &target, &[limit]);
        set.wait().unwrap();
    }

    fn events(&self) -> Vec<AuditEvent> {
        match self.call(Call::Audit(AuditListing::default())) {
            Ok(Answer::Audit(page)) => page.items,
            other => panic!("{other:?}"),
        }
    }

    fn actions(&self) -> Vec<Action> {
        self.events().iter().map(|event| event.action).collect()
    }
}

fn reset() -> Call<'static> {
    Call::Reset("jobs", Whose::Key(b"k"))
}

fn revoke(handle: LeaseHandle) -> Call<'static> {
    Call::Revoke("jobs", Whose::Key(b"k"), handle)
}

/// Whoever hung up at once left no trace of what was done.
#[test]
fn what_is_done_for_a_client_that_hangs_up_leaves_its_event() {
    let fixture = Fixture::new();
    let [handle] = fixture.handles()[..] else {
        panic!("one lease is held");
    };
    fixture.hang_up(revoke(handle));
    assert_eq!(fixture.handles(), []);
    fixture.hang_up(reset());
    assert_eq!(fixture.actions(), [Action::Revoke, Action::Reset]);
}

/// It was done, and refused when it was repeated: no event ever told of it.
#[test]
fn what_the_store_can_keep_no_event_of_is_not_done_and_can_be_repeated() {
    let fixture = Fixture::new();
    let [handle] = fixture.handles()[..] else {
        panic!("one lease is held");
    };
    fixture.keep_nothing(true);
    let mut is_begun = false;
    let apply = async {
        is_begun = true;
        Ok::<_, String>(())
    };
    let applied = now(fixture.service.apply_policies(&fixture.caller, &[], apply));
    assert!(applied.is_err() && !is_begun);
    assert!(fixture.call(revoke(handle)).is_err());
    assert!(fixture.reset().is_err());
    assert_eq!(fixture.handles(), [handle]);
    fixture.keep_nothing(false);
    fixture.call(revoke(handle)).unwrap();
    fixture.reset().unwrap();
    assert_eq!(fixture.actions(), [Action::Revoke, Action::Reset]);
}

/// Who looked for what had changed a policy found all but that it had been exchanged.
#[test]
fn events_of_a_policy_are_also_those_of_an_application_that_changed_it() {
    let fixture = Fixture::new();
    let one = |name: &str, most: u32| {
        file(&format!(
            "[policy.{name}.limits]\nrunning = {{ concurrency = {most}, ttl = '1h' }}\n"
        ))
    };
    let apply = |name: &str, result: Result<(), String>| {
        let changes = compare(&one(name, 4), &one(name, 5));
        let apply = async { result };
        now(fixture
            .service
            .apply_policies(&fixture.caller, &changes, apply))
        .unwrap()
        .ok();
    };
    apply("jobs", Ok(()));
    apply("jobs-of-others", Ok(()));
    apply("jobs", Err("the disk is full".to_owned()));
    let of = OverrideOf {
        policy: Some("jobs"),
        ..OverrideOf::default()
    };
    let listing = AuditListing {
        of,
        ..AuditListing::default()
    };
    let Ok(Answer::Audit(page)) = fixture.call(Call::Audit(listing)) else {
        panic!("it lists events");
    };
    let actions: Vec<_> = page.items.iter().map(|event| event.action).collect();
    assert_eq!(
        actions,
        [Action::ApplyPolicies, Action::ApplyPolicies, Action::Failed]
    );
    let details = &page.items[2].details;
    assert_eq!(details[..2], ["apply_policies", "the disk is full"]);
    assert!(
        details[2].starts_with("~ limit jobs.running"),
        "{details:?}"
    );
}

#[test]
fn what_has_failed_is_told_by_a_second_event() {
    let fixture = Fixture::new();
    let apply = async { Err::<(), _>("the disk is full".to_owned()) };
    let applied = now(fixture.service.apply_policies(&fixture.caller, &[], apply));
    assert_eq!(applied, Ok(Err("the disk is full".to_owned())));
    let events = fixture.events();
    assert_eq!(fixture.actions(), [Action::ApplyPolicies, Action::Failed]);
    assert_eq!(events[1].details, ["apply_policies", "the disk is full"]);
    assert_eq!(events[0].target, events[1].target);
    assert_eq!(events[0].by, events[1].by);
}

/// A lease that is not there is found missing before any event.
#[test]
fn what_is_refused_leaves_no_event() {
    let fixture = Fixture::new();
    let handle = fixture.handles()[0];
    fixture.call(revoke(handle)).unwrap();
    fixture.call(revoke(handle)).unwrap_err();
    let nowhere = Call::Reset("nowhere", Whose::Key(b"k"));
    fixture.call(nowhere).unwrap_err();
    assert_eq!(fixture.actions(), [Action::Revoke]);
}

/// A server of an earlier version takes all that is kept with overrides for overrides, and did
/// not start with anything else.
#[test]
fn with_the_overrides_nothing_but_overrides_is_kept() {
    let fixture = Fixture::new();
    fixture.set_override();
    fixture.apply();
    fixture.reset().unwrap();
    fixture.call(revoke(fixture.handles()[0])).unwrap();
    let kept = now(fixture.store.memory.definitions("service", 0)).unwrap();
    let kept: Vec<_> = kept.changed.iter().map(|one| one.key.clone()).collect();
    let target = OverrideTarget::everything().of_policy("jobs");
    assert_eq!(kept, [target.encode()]);
}

/// A token for one policy could push out what was told of all others.
#[test]
fn many_resets_push_out_no_event_of_an_override_or_of_policies() {
    let fixture = Fixture::keeping(2);
    fixture.set_override();
    fixture.apply();
    for _ in 0..5 {
        fixture.reset().unwrap();
    }
    let expected = [
        Action::SetOverride,
        Action::ApplyPolicies,
        Action::Reset,
        Action::Reset,
    ];
    assert_eq!(fixture.actions(), expected);
}

#[test]
fn pages_tell_of_every_sort_in_the_order_of_time_and_of_each_event_once() {
    let fixture = Fixture::new();
    let changes: [fn(&Fixture); 3] = [
        Fixture::set_override,
        |fixture| drop(fixture.reset().unwrap()),
        Fixture::apply,
    ];
    let order = [1, 1, 0, 2, 2, 2, 1, 0, 0, 1, 2];
    for sort in order {
        fixture.time.advance(Duration::from_secs(1));
        changes[sort](&fixture);
    }
    let expected =
        order.map(|sort| [Action::SetOverride, Action::Reset, Action::ApplyPolicies][sort]);
    assert_eq!(fixture.actions(), expected);
    for most in 1..=order.len() as u64 {
        let (mut told, mut after) = (Vec::new(), None);
        loop {
            let listing = AuditListing {
                after: after.take().map(Cow::Owned),
                most: Some(most),
                ..AuditListing::default()
            };
            let Ok(Answer::Audit(page)) = fixture.call(Call::Audit(listing)) else {
                panic!("no page");
            };
            assert!(page.items.len() as u64 <= most);
            told.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(told, fixture.events(), "{most} a page");
    }
}
