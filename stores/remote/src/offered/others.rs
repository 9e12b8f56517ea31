//! Users of one table whose limits differ, one after the other and at once: what each is
//! granted, and what outlives a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_memory::MemoryStore;
use tidegate_store::bytes::reply::decode_answer;
use tidegate_store::core::{Align, Bounds, Bucket, Payment, Rule, Slots, Span, Timestamp, Window};
use tidegate_store::{
    Abilities, Adaptive, Answer, Command, Detail, Ending, Execution, KeyPath, Out, OwnedKey, Plan,
    PlanLimit, Store, StoreError, Table, Terms, Verb,
};

use super::hostile::{NOW, Still};
use super::{Answered, Offered, Unread};
use crate::wire::{self, Adoption, Ask, Client, Response, SentPlan, Turn};

fn bucket(burst: u64) -> Rule {
    Rule::Bucket(Bucket::new(1, Span::from_secs(86_400), burst).expect("a bucket"))
}

fn slots(capacity: u64) -> Rule {
    Rule::Slots(Slots::new(capacity, Span::from_secs(60)).expect("slots"))
}

fn limit(uid: u32, rule: Rule) -> PlanLimit {
    PlanLimit {
        name: format!("limit {uid}").into(),
        uid,
        rule,
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    }
}

fn adaptive(capacity: u64, rule: Rule) -> PlanLimit {
    let adaptive = Adaptive::default();
    adaptive.set(capacity);
    PlanLimit {
        adaptive: Some(adaptive),
        ..limit(1, rule)
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn over(store: &Arc<dyn Store>) -> Arc<Offered> {
    Arc::new(Offered::new(Arc::clone(store), Arc::new(Still)))
}

fn take(id: u128, amounts: &[u64]) -> Verb<'_> {
    Verb::Take {
        amounts,
        detail: Detail::Always,
        lease: Some(Terms {
            id,
            expires_at: NOW + Span::from_secs(60),
            idempotency: None,
            least: None,
        }),
    }
}

const fn end(id: u128) -> Verb<'static> {
    Verb::End {
        id,
        ending: Ending::Release,
        remember: false,
    }
}

const fn turn() -> Option<Turn> {
    Some(Turn {
        id: 1,
        ahead: Span::ZERO,
        longest: None,
        since: NOW,
        for_refunds: true,
        retried: false,
    })
}

/// Whether a take was granted. `None`, an unknown plan, is no answer.
fn fits(told: Option<Answer>) -> bool {
    let answer = told.expect("the plan is known").expect("an answer");
    let decision = answer.decision().expect("a decision");
    decision.verdict.admitted()
}

/// Others have their turn.
async fn others_go_on() {
    for _ in 0..9 {
        tokio::task::yield_now().await;
    }
}

#[derive(Clone)]
struct User {
    id: u64,
    plan: Plan,
    now: Timestamp,
    calendars: Vec<Option<Bounds>>,
}

fn user(id: u64, version: u64, limits: Vec<PlanLimit>) -> User {
    User {
        id,
        plan: Plan::new(version, 1, limits, Span::SECOND),
        now: NOW,
        calendars: Vec::new(),
    }
}

impl User {
    fn client(&self, sent: &SentPlan) -> Client<'static> {
        Client {
            table: "set",
            user: self.id,
            version: self.plan.version(),
            digest: sent.digest,
        }
    }

    async fn sent_to(&self, offered: &Offered) -> Result<Answered, Unread> {
        let sent = SentPlan::of(&self.plan);
        let adoption = Adoption {
            client: self.client(&sent),
            plan: Some(&sent.bytes),
            at: NOW,
            calendars: Vec::new(),
            touched: Vec::new(),
        };
        let body = wire::adopt(&adoption, std::iter::empty());
        offered.answer(&body).await
    }

    async fn adopt(&self, offered: &Offered) {
        let told = self.sent_to(offered).await.expect("it can be read");
        let told = Response::read(&told.body).expect("a response");
        assert!(matches!(told, Response::Done(_)), "{told:?}");
    }

    /// `None`: the plan is to be sent again.
    async fn ask(
        &self,
        offered: &Offered,
        key: &str,
        verb: Verb<'_>,
        turn: Option<Turn>,
    ) -> Option<Answer> {
        let items = [(KeyPath::new(key.as_bytes(), 1).expect("a key"), verb)];
        let body = wire::ask(&Ask {
            client: self.client(&SentPlan::of(&self.plan)),
            plan: &self.plan,
            now: self.now,
            calendars: &self.calendars,
            items: &items,
            is_batch: false,
            turn,
        });
        let told = offered.answer(&body).await.expect("it can be read");
        if let Some(lease) = &told.undelivered {
            lease.deliver();
        }
        match Response::read(&told.body).expect("a response") {
            Response::Done(mut answer) => Some(decode_answer(&mut answer).expect("an answer")),
            Response::Error(error) => Some(Err(error)),
            Response::UnknownPlan => None,
        }
    }

    /// Waits for its turn, in a task of its own.
    fn waits(
        &self,
        offered: &Arc<Offered>,
        key: &'static str,
        (id, amounts): (u128, &'static [u64]),
    ) -> tokio::task::JoinHandle<Option<Answer>> {
        let (offered, own) = (Arc::clone(offered), self.clone());
        tokio::spawn(async move { own.ask(&offered, key, take(id, amounts), turn()).await })
    }
}

#[tokio::test]
async fn a_capacity_of_the_moment_is_of_who_asks() {
    let others = [limit(1, bucket(100)), adaptive(150, bucket(200))];
    for other in others {
        let offered = over(&memory());
        let one = user(1, 1, vec![adaptive(1, bucket(100))]);
        let two = user(2, 1, vec![other]);
        one.adopt(&offered).await;
        two.adopt(&offered).await;
        assert!(fits(one.ask(&offered, "k", take(1, &[1]), None).await));
        assert!(!fits(one.ask(&offered, "k", take(2, &[1]), None).await));
        assert!(fits(two.ask(&offered, "k", take(3, &[1]), None).await));
        assert!(!fits(one.ask(&offered, "k", take(4, &[1]), None).await));
    }
}

#[tokio::test]
async fn a_request_that_waits_goes_by_its_own_capacity_of_the_moment() {
    let offered = over(&memory());
    let one = user(1, 1, vec![adaptive(1, slots(100))]);
    let two = user(2, 1, vec![adaptive(100, slots(100))]);
    one.adopt(&offered).await;
    two.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(1, &[1]), None).await));
    assert!(fits(two.ask(&offered, "k", take(2, &[1]), None).await));
    let waits = one.waits(&offered, "k", (3, &[1]));
    others_go_on().await;
    let _ = two.ask(&offered, "k", end(2), None).await;
    others_go_on().await;
    // One is in use still: all that it may.
    assert!(!waits.is_finished());
    let _ = two.ask(&offered, "k", end(1), None).await;
    assert!(fits(waits.await.expect("it ends")));
}

#[tokio::test]
async fn a_plan_that_is_sent_again_decides_again() {
    let offered = over(&memory());
    let one = user(1, 1, vec![limit(1, bucket(1_000)), limit(2, bucket(1))]);
    one.adopt(&offered).await;
    for version in 1..=64 {
        let other = user(2, version, vec![limit(1, bucket(2_000 + version))]);
        other.adopt(&offered).await;
    }
    let forgotten = one.ask(&offered, "k", take(1, &[0, 1]), None).await;
    assert!(forgotten.is_none());
    one.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(2, &[0, 1]), None).await));
    assert!(!fits(one.ask(&offered, "k", take(3, &[0, 1]), None).await));
}

#[tokio::test]
async fn limits_outlive_a_restart_whoever_comes_first() {
    let store = memory();
    let one = user(1, 1, vec![limit(1, bucket(9)), limit(2, bucket(1))]);
    let two = user(2, 1, vec![limit(1, bucket(9))]);
    let offered = over(&store);
    one.adopt(&offered).await;
    two.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(1, &[0, 1]), None).await));
    drop(offered);
    let offered = over(&store);
    two.adopt(&offered).await;
    assert!(fits(two.ask(&offered, "k", take(2, &[1]), None).await));
    one.adopt(&offered).await;
    assert!(!fits(one.ask(&offered, "k", take(3, &[0, 1]), None).await));
}

#[tokio::test]
async fn a_key_with_limits_of_its_own_lets_no_request_overtake() {
    let offered = over(&memory());
    let mut one = user(1, 1, vec![limit(1, slots(1))]);
    let own = Arc::new(one.plan.variant(|_| Some(slots(5))));
    let own = [(OwnedKey::new(b"z"), own)].into_iter().collect();
    one.plan = one.plan.with_overrides(own);
    one.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "a", take(1, &[1]), None).await));
    let waits = one.waits(&offered, "a", (2, &[1]));
    others_go_on().await;
    let _ = one.ask(&offered, "z", take(3, &[1]), None).await;
    let _ = one.ask(&offered, "a", end(1), None).await;
    assert!(!fits(one.ask(&offered, "a", take(4, &[1]), None).await));
    assert!(fits(waits.await.expect("it ends")));
}

/// A store that others share, who clear it.
#[derive(Default)]
struct Shared(MemoryStore, Arc<AtomicU64>);

/// A table of it, as of so many clearings.
struct Since(Arc<dyn Table>, u64, Arc<AtomicU64>);

impl Store for Shared {
    fn abilities(&self) -> Abilities {
        let abilities = self.0.abilities();
        Abilities {
            shared: true,
            ..abilities
        }
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let cleared = self.1.load(Ordering::SeqCst);
        let table = self.0.open(&format!("{name}{cleared}"), plan)?;
        Ok(Arc::new(Since(table, cleared, Arc::clone(&self.1))))
    }
}

impl Table for Since {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        if self.1 == self.2.load(Ordering::SeqCst) {
            return self.0.execute(command, out);
        }
        out.ready(Err(StoreError::TableGone("set".to_owned())))
    }
}

#[tokio::test]
async fn what_was_cleared_elsewhere_is_opened_anew() {
    let clears = Arc::<AtomicU64>::default();
    let store: Arc<dyn Store> = Arc::new(Shared(MemoryStore::default(), Arc::clone(&clears)));
    let (offered, one) = (over(&store), user(1, 1, vec![limit(1, bucket(1))]));
    one.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(1, &[1]), None).await));
    clears.store(1, Ordering::SeqCst);
    assert!(one.ask(&offered, "k", take(2, &[1]), None).await.is_none());
    one.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(3, &[1]), None).await));
}

#[tokio::test]
async fn the_last_version_ends_nothing() {
    let offered = over(&memory());
    let last = user(1, u64::MAX, vec![limit(1, bucket(9))]);
    assert!(last.sent_to(&offered).await.is_err());
    let one = user(2, 1, vec![limit(1, bucket(7))]);
    one.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(1, &[1]), None).await));
}

#[tokio::test]
async fn an_adaptive_limit_is_refused_where_the_store_is_shared_itself() {
    let store: Arc<dyn Store> = Arc::new(Shared::default());
    let (offered, one) = (over(&store), user(1, 1, vec![adaptive(1, bucket(9))]));
    let told = one.sent_to(&offered).await.expect("it can be read");
    let told = Response::read(&told.body).expect("a response");
    let Response::Error(StoreError::Unavailable(why)) = told else {
        panic!("{told:?}");
    };
    assert!(why.contains("`limit 1` is adaptive"), "{why}");
}

/// By its own clock its window goes on, by the server's it is over.
#[tokio::test]
async fn a_request_that_waits_by_a_clock_that_is_behind_asks_again_after_a_pause() {
    let (offered, day) = (over(&memory()), Span::from_secs(86_400));
    let window = Rule::Window(Window::new(9, Align::Calendar).expect("a window"));
    let mut one = user(1, 1, vec![limit(1, slots(1)), limit(2, window)]);
    one.now = NOW - Span::from_secs(3 * 86_400);
    let bounds = Bounds {
        start: one.now,
        end: one.now + day,
        next_end: one.now + Span::from_secs(2 * 86_400),
    };
    one.calendars = vec![None, Some(bounds)];
    one.adopt(&offered).await;
    assert!(fits(one.ask(&offered, "k", take(1, &[1, 1]), None).await));
    let waits = one.waits(&offered, "k", (2, &[1, 1]));
    others_go_on().await;
    let _ = one.ask(&offered, "k", end(1), None).await;
    others_go_on().await;
    assert!(!waits.is_finished());
    let told = waits.await.expect("it ends");
    assert_eq!(told, Some(Err(StoreError::StalePlan)));
}
