//! A share of the limits decides while the store cannot tell.

#[path = "support/mod.rs"]
mod support;

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate::{Key, Limit, ManualClock, Request};
use tidegate_memory::MemoryStore;
use tidegate_policy::parse;
use tidegate_service::{
    Acquired, ActivePolicy, Charge, GrantedLease, Kind, OverrideTarget, Scope, Service,
};
use tidegate_store::{
    Abilities, Change, Command, Defined, Definitions, Execution, Follower, Out, Plan, Store,
    StoreError, StoreFuture, Table,
};

use support::{file, now};

/// The memory store, for as long as nobody pulls its cable.
#[derive(Default)]
struct Remote {
    memory: MemoryStore,
    pulled: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
    time: ManualClock,
    /// How long it takes to find out that the cable is pulled, in seconds.
    slow: Arc<AtomicU64>,
}

struct RemoteTable(
    Arc<dyn Table>,
    Arc<AtomicBool>,
    Arc<AtomicBool>,
    (ManualClock, Arc<AtomicU64>),
);

impl Store for Remote {
    fn abilities(&self) -> Abilities {
        self.memory.abilities()
    }

    fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
        self.memory.definitions(owner, newer_than)
    }

    fn change(&self, owner: &str, change: Change) -> StoreFuture<Defined> {
        self.memory.change(owner, change)
    }

    fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
        self.memory.follow(owner, follower);
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.memory.open(name, plan)?;
        Ok(Arc::new(RemoteTable(
            table,
            Arc::clone(&self.pulled),
            Arc::clone(&self.busy),
            (self.time.clone(), Arc::clone(&self.slow)),
        )))
    }
}

impl Table for RemoteTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        if self.2.load(Ordering::SeqCst) {
            return out.ready(Err(StoreError::Busy("others hold the row".into())));
        }
        match self.1.load(Ordering::SeqCst) {
            true => {
                let (time, slow) = &self.3;
                time.advance(Duration::from_secs(slow.load(Ordering::SeqCst)));
                out.ready(Err(StoreError::Unavailable("the cable is pulled".into())))
            }
            false => self.0.execute(command, out),
        }
    }
}

const CHAT: &str = "[policy.chat]\nfailure_mode = 'share'\nshare = 25\n\
    [policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\nrunning = { concurrency = 4 }\n";

struct House {
    service: Service,
    pulled: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
    slow: Arc<AtomicU64>,
    time: ManualClock,
}

fn house(text: &str) -> House {
    let store = Remote::default();
    let (time, slow) = (store.time.clone(), Arc::clone(&store.slow));
    let (pulled, busy) = (Arc::clone(&store.pulled), Arc::clone(&store.busy));
    let service = Service::builder()
        .clock(time.clock())
        .store(Arc::new(store));
    House {
        service: service.build(&file(text)).unwrap(),
        pulled,
        busy,
        slow,
        time,
    }
}

impl House {
    fn pull(&self, pulled: bool) {
        self.pulled.store(pulled, Ordering::SeqCst);
    }

    fn chat(&self) -> Arc<ActivePolicy> {
        let caller = self.service.enter(None).unwrap();
        self.service.policy(&caller, Scope::Decide, "chat").unwrap()
    }

    fn acquire(&self, key: &str) -> Acquired {
        now(self.chat().acquire(Key::from(key), Request::default())).unwrap()
    }

    fn granted(&self, key: &str) -> GrantedLease {
        match self.acquire(key) {
            Acquired::Granted(granted) => granted,
            other => panic!("{other:?}"),
        }
    }
}

const CALL: &[(&str, u64)] = &[("rpm", 1), ("running", 0)];

/// How many of so many calls are admitted, and whether they are marked.
fn admitted(house: &House, key: &str) -> (usize, bool) {
    let chat = house.chat();
    let answers = (0..20).map(|_| chat.check(key, Request::named(CALL)).wait().unwrap());
    let decisions = answers.map(|answer| match answer {
        Charge::Decided(decision) => decision,
        other => panic!("{other:?}"),
    });
    let decisions: Vec<_> = decisions.collect();
    let marked = decisions.iter().all(tidegate::Decision::degraded);
    let admitted = decisions.iter().filter(|d| d.admitted()).count();
    (admitted, marked)
}

#[test]
fn a_quarter_of_each_limit_is_admitted_while_the_store_cannot_tell() {
    let house = house(CHAT);
    assert_eq!(admitted(&house, "ann"), (10, false));
    house.pull(true);
    assert_eq!(admitted(&house, "ann"), (2, true));
    assert_eq!(admitted(&house, "bob"), (2, true));
    house.pull(false);
    assert_eq!(admitted(&house, "bob"), (10, false));
    // The next outage finds the share as this one left it.
    house.pull(true);
    assert_eq!(admitted(&house, "ann"), (0, true));
    house.time.advance(Duration::from_secs(3_600));
    assert_eq!(admitted(&house, "ann"), (2, true));
}

/// It waited at the store, and then as long at the share.
#[test]
fn a_share_waits_for_no_longer_than_what_is_left_of_the_wait() {
    let house = house(CHAT);
    house.pull(true);
    assert!(house.granted("ann").degraded);
    house.slow.store(4, Ordering::SeqCst);
    let chat = house.chat();
    let mut acquire = pin!(chat.acquire(
        Key::from("ann"),
        Request::default().within(Duration::from_secs(6))
    ));
    let mut context = Context::from_waker(Waker::noop());
    assert!(acquire.as_mut().poll(&mut context).is_pending());
    house.time.advance(Duration::from_millis(1_999));
    assert!(acquire.as_mut().poll(&mut context).is_pending());
    house.time.advance(Duration::from_millis(1));
    let acquired = acquire.as_mut().poll(&mut context);
    assert!(matches!(acquired, Poll::Ready(Ok(Acquired::Refused(_)))));
}

#[test]
fn a_lease_ends_where_it_was_given() {
    let house = house(CHAT);
    let (chat, key) = (house.chat(), Key::from("ann"));
    let before = house.granted("ann");
    assert!(!before.degraded);
    house.pull(true);
    let during = house.granted("ann");
    assert!(during.degraded);
    // One slot in four: whoever comes next is refused until it is given back.
    let Acquired::Refused(refusal) = house.acquire("ann") else {
        panic!("a slot too many");
    };
    assert_eq!(
        (refusal.degraded(), refusal.binding()),
        (true, Some("running"))
    );
    let away = chat.release(key, before.id).wait().unwrap_err();
    assert_eq!(away.kind(), Kind::Unavailable);
    chat.renew(key, during.id, Some(Duration::from_secs(60)))
        .wait()
        .unwrap();
    house.pull(false);
    assert!(!chat.release(key, during.id).wait().unwrap().repeated());
    assert!(chat.release(key, during.id).wait().unwrap().repeated());
    assert!(!chat.release(key, before.id).wait().unwrap().repeated());
}

#[test]
fn a_share_follows_the_limits_that_hold() {
    let house = house(CHAT);
    let caller = house.service.enter(None).unwrap();
    let of_chat = OverrideTarget::everything().of_policy("chat");
    let calls = |count| [Limit::calls("rpm", count, Duration::from_secs(3_600))];
    let set = |target: &OverrideTarget, count| {
        house
            .service
            .set_override(&caller, target, &calls(count))
            .wait()
    };
    set(&of_chat, 40).unwrap();
    set(&of_chat.clone().of_key("acme"), 80).unwrap();
    house.pull(true);
    assert_eq!(admitted(&house, "ann"), (10, true));
    assert_eq!(admitted(&house, "acme"), (20, true));
    house.pull(false);
    let half = CHAT.replace("25", "50");
    house.service.exchange("test", &file(&half)).unwrap();
    house.pull(true);
    assert_eq!(admitted(&house, "new"), (20, true));
    let deny = CHAT.replace("failure_mode = 'share'\nshare = 25\n", "");
    house.pull(false);
    house.service.exchange("test", &file(&deny)).unwrap();
    house.pull(true);
    let away = house
        .chat()
        .check("ann", Request::named(CALL))
        .wait()
        .unwrap_err();
    assert_eq!(away.kind(), Kind::Unavailable);
}

#[test]
fn a_share_of_a_pool_is_one_of_each_member() {
    let text = "[policy.chat]\nfailure_mode = 'share'\nshare = 50\n\
        balancer = 'first_available'\n\
        [policy.chat.member.eu.limits]\nrpm = { calls = 4, per = '1h' }\n\
        [policy.chat.member.us.limits]\nrpm = { calls = 6, per = '1h' }\n";
    let house = house(text);
    house.pull(true);
    let members = (0..5).map(|_| house.granted("k").member().map(str::to_owned));
    let members: Vec<_> = members.flatten().collect();
    assert_eq!(members, ["eu", "eu", "us", "us", "us"]);
    assert!(matches!(house.acquire("k"), Acquired::Refused(_)));
}

/// One member knows a limit that the other does not: the share, which gave nothing, does
/// not answer for the store that did.
#[test]
fn a_lease_of_a_pool_is_settled_and_adjusted_by_limits_that_one_member_has() {
    let text = "[policy.chat]\nfailure_mode = 'share'\nshare = 50\n\
        balancer = 'first_available'\n\
        [policy.chat.member.eu.limits]\nrpm = { calls = 4, per = '1h' }\n\
        tpm = { rate = 100, per = '1h' }\n\
        [policy.chat.member.us.limits]\nrpm = { calls = 6, per = '1h' }\n";
    let house = house(text);
    let request = Request::default().cost(10);
    let acquired = now(house.chat().acquire(Key::from("k"), request)).unwrap();
    let Acquired::Granted(granted) = acquired else {
        panic!("{acquired:?}");
    };
    let (chat, key) = (house.chat(), Key::from("k"));
    let more = chat.adjust(key, granted.id, &[("tpm", 40)], false).wait();
    let more = more.unwrap();
    assert_eq!((more.admitted(), more.degraded()), (true, false));
    let settled = chat.settle(key, granted.id, &[("tpm", 30)]).wait();
    assert!(!settled.unwrap().repeated());
    let another = "7".repeat(32).parse().unwrap();
    let unknown = chat.settle(key, another, &[("xpm", 1)]).wait();
    assert_eq!(unknown.unwrap_err().kind(), Kind::Invalid);
}

fn exact(calls: u64, share: u8) -> House {
    house(&format!(
        "[policy.chat]\nfailure_mode = 'share'\nshare = {share}\n\
         tier = {{ mode = 'leased', batch = 50, outstanding = 400, hold = '2s', exact = true }}\n\
         [policy.chat.limits]\nrps = {{ calls = {calls}, per = '1s' }}\n"
    ))
}

fn admitted_at_once(house: &House, key: &str) -> usize {
    house.pull(true);
    let chat = house.chat();
    let answers = (0..2_000).map(|_| chat.check(key, Request::default()).wait());
    answers
        .filter(|answer| matches!(answer, Ok(Charge::Decided(told)) if told.admitted()))
        .count()
}

/// It is decided in this process: nothing of it is out.
#[test]
fn a_share_of_an_exact_tier_is_of_the_limits_as_they_are_said() {
    assert_eq!(admitted_at_once(&exact(1_000, 25), "k"), 250);
    let house = exact(10_000, 10);
    let caller = house.service.enter(None).unwrap();
    let acme = OverrideTarget::everything()
        .of_policy("chat")
        .of_key("acme");
    let own = [Limit::calls("rps", 1_000, Duration::from_secs(1))];
    let kept = house.service.set_override(&caller, &acme, &own).wait();
    assert!(kept.is_ok(), "{kept:?}");
    assert_eq!(admitted_at_once(&house, "acme"), 100);
    assert_eq!(admitted_at_once(&house, "k"), 1_000);
}

/// A root that others hold up is the store's own answer: whoever crowds one key lifts
/// nobody's limits.
#[test]
fn a_store_that_is_busy_lets_nothing_through() {
    for mode in [
        "failure_mode = 'share'\nshare = 25\n",
        "failure_mode = 'admit'\n",
    ] {
        let text = CHAT.replace("failure_mode = 'share'\nshare = 25\n", mode);
        let house = house(&text);
        house.busy.store(true, Ordering::SeqCst);
        let answer = house.chat().check("k", Request::named(CALL)).wait();
        assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable, "{mode}");
        let acquired = now(house.chat().acquire(Key::from("k"), Request::default()));
        assert_eq!(acquired.unwrap_err().kind(), Kind::Unavailable, "{mode}");
    }
}

#[test]
fn a_share_is_said_with_its_mode_and_in_percent() {
    for (said, at) in [
        ("failure_mode = 'share'\n", "`share` is missing"),
        ("share = 25\n", "a share is for"),
        ("failure_mode = 'admit'\nshare = 25\n", "a share is for"),
        ("failure_mode = 'share'\nshare = 0\n", "share"),
        ("failure_mode = 'share'\nshare = 101\n", "share"),
    ] {
        let text = CHAT.replace("failure_mode = 'share'\nshare = 25\n", said);
        let faults = parse("test.toml", &text).unwrap_err().to_string();
        assert!(faults.contains(at), "{said}: {faults}");
        assert_eq!(faults.matches("test.toml:").count(), 1, "{said}: {faults}");
    }
}
