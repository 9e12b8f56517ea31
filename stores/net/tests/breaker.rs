//! A store that goes away and comes back, behind a breaker.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_memory::MemoryStore;
use tidegate_net::breaker::{BreakerStore, Change, CircuitBreaker, Position, Settings};
use tidegate_store::core::{Bucket, Payment, Rule, Span, Timestamp};
use tidegate_store::{
    Abilities, Answer, Command, Definition, Detail, Execution, KeyCommand, KeyPath, Op, Out, Plan,
    PlanLimit, Reply, Store, StoreError, StoreFuture, Table, Verb,
};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// The memory store, with a cable that can be pulled.
#[derive(Clone, Default)]
struct Cable {
    pulled: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
    later: Arc<AtomicBool>,
    busy: Arc<AtomicBool>,
    asked: Arc<AtomicU32>,
    /// So many of a batch are answered though the cable is pulled.
    in_part: Arc<AtomicU32>,
}

impl Cable {
    /// What is told of a store that is away: as those beyond a network, of each of a batch.
    fn away(&self, command: &Command<'_>) -> Answer {
        let away = || Err(StoreError::Unavailable("the cable is pulled".into()));
        let Op::Batch(items) = command.op else {
            return away();
        };
        let in_part = self.in_part.load(Ordering::SeqCst) as usize;
        let each = |at| {
            if at < in_part {
                Ok(Reply::Done)
            } else {
                away()
            }
        };
        Ok(Reply::Batch((0..items.len()).map(each).collect()))
    }
}

struct Remote(MemoryStore, Cable);
struct RemoteTable(Arc<dyn Table>, Cable);

impl Store for Remote {
    fn abilities(&self) -> Abilities {
        self.0.abilities()
    }

    fn definition(&self, owner: &str, key: &[u8]) -> StoreFuture<Option<Definition>> {
        match self.1.pulled.load(Ordering::SeqCst) {
            true => StoreFuture::new(std::future::ready(Err(StoreError::Unavailable(
                "the cable is pulled".into(),
            )))),
            false => self.0.definition(owner, key),
        }
    }

    fn define(&self, owner: &str, definition: Definition) -> StoreFuture<bool> {
        self.0.define(owner, definition)
    }

    fn definition_with_ancestors(
        &self,
        owner: &str,
        key: &[u8],
        parent_offset: u8,
    ) -> StoreFuture<Vec<Definition>> {
        self.0.definition_with_ancestors(owner, key, parent_offset)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let table = self.0.open(name, plan)?;
        Ok(Arc::new(RemoteTable(table, self.1.clone())))
    }
}

impl Table for RemoteTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        self.1.asked.fetch_add(1, Ordering::SeqCst);
        if self.1.busy.load(Ordering::SeqCst) {
            return out.ready(Err(StoreError::Busy("others hold the lock".into())));
        }
        if self.1.silent.load(Ordering::SeqCst) {
            return StoreFuture::new(std::future::pending()).into();
        }
        let answer = match self.1.pulled.load(Ordering::SeqCst) {
            true => self.1.away(command),
            false => self.0.execute_and_wait(command),
        };
        match self.1.later.load(Ordering::SeqCst) {
            true => StoreFuture::new(std::future::ready(answer)).into(),
            false => out.ready(answer),
        }
    }
}

fn plan() -> Arc<Plan> {
    let limit = PlanLimit {
        name: "rate".into(),
        uid: 0,
        rule: Rule::Bucket(Bucket::new(1, Span::from_secs(60), 1_000).unwrap()),
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    Arc::new(Plan::new(0, 1, vec![limit], Span::from_secs(60)))
}

struct House {
    plan: Arc<Plan>,
    table: Arc<dyn Table>,
    breaker: Arc<CircuitBreaker>,
    cable: Cable,
    told: Arc<Mutex<Vec<Change>>>,
}

fn house(change: impl FnOnce(&mut Settings)) -> House {
    let mut settings = Settings::default();
    settings.pause = Duration::ZERO;
    change(&mut settings);
    let told = Arc::<Mutex<Vec<Change>>>::default();
    let notes = Arc::clone(&told);
    let watcher = Arc::new(move |change, _: &str| notes.lock().unwrap().push(change));
    let breaker = Arc::new(CircuitBreaker::new(settings, Some(watcher)));
    let (plan, cable) = (plan(), Cable::default());
    let store = BreakerStore::new(
        Arc::new(Remote(MemoryStore::default(), cable.clone())),
        Arc::clone(&breaker),
    );
    let table = store.open("t", &plan).unwrap();
    House {
        plan,
        table,
        breaker,
        cable,
        told,
    }
}

impl House {
    fn with<T>(&self, act: impl FnOnce(&dyn Table, &KeyCommand<'_>) -> T) -> T {
        let verb = Verb::Take {
            amounts: &[1],
            lease: None,
            detail: Detail::Verdict,
        };
        let key = KeyPath::new(b"k", 1).unwrap();
        let command = KeyCommand {
            plan: &self.plan,
            key,
            now: NOW,
            calendars: &[],
            verb,
        };
        act(&*self.table, &command)
    }

    fn ask(&self) -> Result<Reply, StoreError> {
        self.with(|table, command| table.execute_and_wait(&(*command).into()))
    }

    fn send(&self) -> StoreFuture {
        self.cable.later.store(true, Ordering::SeqCst);
        self.with(|table, command| {
            let mut answer = Ok(Reply::Done);
            let execution = table.execute(&(*command).into(), Out::new(&mut answer));
            execution.pending().expect("it comes later")
        })
    }

    /// Two takes at once; how many were answered.
    async fn send_batch(&self) -> usize {
        self.cable.later.store(true, Ordering::SeqCst);
        let later = self.with(|table, command| {
            let items = [(command.key, command.verb); 2];
            let batch = Command::from(*command).about(Op::Batch(&items));
            let mut answer = Ok(Reply::Done);
            let execution = table.execute(&batch, Out::new(&mut answer));
            execution.pending().expect("it comes later")
        });
        match later.await {
            Ok(Reply::Batch(answers)) => answers.iter().filter(|answer| answer.is_ok()).count(),
            other => panic!("{other:?}"),
        }
    }

    fn pull(&self, pulled: bool) {
        self.cable.pulled.store(pulled, Ordering::SeqCst);
    }
}

#[test]
fn a_store_that_is_away_is_not_asked_and_its_last_words_are_told() {
    let house = house(|settings| settings.pause = Duration::from_secs(3_600));
    house.pull(true);
    for _ in 0..1_000 {
        let error = house.ask().unwrap_err().to_string();
        assert!(error.contains("the cable is pulled"), "{error}");
    }
    assert_eq!(house.cable.asked.load(Ordering::SeqCst), 5);
    assert_eq!(house.breaker.position(), Position::Open);
    let error = house.ask().unwrap_err().to_string();
    assert!(error.contains("open for another"), "{error}");
}

#[test]
fn a_store_that_comes_back_is_asked_again_by_more_and_more() {
    let house = house(|settings| settings.ramp = 4);
    house.pull(true);
    for _ in 0..5 {
        house.ask().unwrap_err();
    }
    house.pull(false);
    let told = || house.told.lock().unwrap().clone();
    assert_eq!(told(), [Change::Failed, Change::Away]);
    let mut answered = 0;
    while house.breaker.position() != Position::Closed {
        house.ask().unwrap();
        answered += 1;
        // It answers: whoever watches need not wait until everyone asks it again.
        assert!(matches!(told()[..], [_, _, Change::Answers(_)]));
    }
    // By answers alone, or sooner by time: its pauses are none.
    assert!((1..=1 + 2 + 4).contains(&answered), "{answered}");
}

#[tokio::test]
async fn the_same_for_those_who_do_not_block() {
    let house = house(|settings| settings.ramp = 1);
    house.pull(true);
    for _ in 0..5 {
        house.send().await.unwrap_err();
    }
    assert_eq!(house.breaker.position(), Position::Open);
    house.pull(false);
    house.send().await.unwrap();
    assert_eq!(house.breaker.position(), Position::Closed);
}

/// A batch comes back whole, with an error for each of its items: that was an answer, and a
/// store that was asked by batches alone was asked on, for a deadline each time.
#[tokio::test]
async fn a_batch_of_which_nothing_is_answered_opens_it_and_keeps_it_open() {
    let house = house(|settings| settings.ramp = 1);
    house.pull(true);
    for _ in 0..5 {
        assert_eq!(house.breaker.position(), Position::Closed);
        assert_eq!(house.send_batch().await, 0);
    }
    assert_eq!(house.breaker.position(), Position::Open);
    assert_eq!(house.send_batch().await, 0);
    assert_eq!(house.breaker.position(), Position::Open, "one tried");
    // Of a store of several servers some are there.
    house.cable.in_part.store(1, Ordering::SeqCst);
    assert_eq!(house.send_batch().await, 1);
    assert_eq!(house.breaker.position(), Position::Closed);
}

/// Whose callers are less patient than the store's deadline: they count, too.
#[tokio::test]
async fn asks_that_are_given_up_unanswered_open_it() {
    let house = house(|settings| settings.patience = Duration::ZERO);
    house.cable.silent.store(true, Ordering::SeqCst);
    for _ in 0..5 {
        drop(house.send());
    }
    assert_eq!(house.breaker.position(), Position::Open);
}

#[test]
fn a_refusal_and_an_error_of_the_command_are_answers() {
    let house = house(|_| {});
    let end = |table: &dyn Table, command: &KeyCommand<'_>| {
        let verb = Verb::Renew { id: 1, until: NOW };
        table.execute_and_wait(&KeyCommand { verb, ..*command }.into())
    };
    for _ in 0..50 {
        assert_eq!(house.with(end), Err(StoreError::UnknownLease));
    }
    assert_eq!(house.breaker.position(), Position::Closed);
}

/// The deadlines that passed because one root's lock was held opened it for all.
#[test]
fn a_store_that_is_busy_answers_and_is_asked_on() {
    let house = house(|_| {});
    house.cable.busy.store(true, Ordering::SeqCst);
    for _ in 0..100 {
        let told = house.ask();
        assert!(matches!(told, Err(StoreError::Busy(_))), "{told:?}");
    }
    assert_eq!(house.breaker.position(), Position::Closed);
    assert_eq!(house.cable.asked.load(Ordering::SeqCst), 100);
}

/// Each of them counted as one that got no answer, also those that were not waited for any more.
#[tokio::test]
async fn definitions_that_are_asked_for_at_once_are_one_ask() {
    let breaker = Arc::new(CircuitBreaker::new(Settings::default(), None));
    let cable = Cable::default();
    let remote = Arc::new(Remote(MemoryStore::default(), cable.clone()));
    let store = BreakerStore::new(remote, Arc::clone(&breaker));
    cable.pulled.store(true, Ordering::SeqCst);
    let keys: [&[u8]; 7] = [b"1", b"2", b"3", b"4", b"5", b"6", b"7"];
    assert!(store.definitions_at("owner", &keys).await.is_err());
    assert_eq!(breaker.position(), Position::Closed);
    cable.pulled.store(false, Ordering::SeqCst);
    assert_eq!(
        store.definitions_at("owner", &keys).await,
        Ok(vec![None; 7])
    );
}

#[tokio::test]
async fn a_definition_is_read_with_its_ancestors_by_the_store_within() {
    let breaker = Arc::new(CircuitBreaker::new(Settings::default(), None));
    let remote = Remote(MemoryStore::default(), Cable::default());
    let below = [&[1, 1, 0, 0, 0], &b"p"[..]].concat();
    remote
        .define("owner", Definition::new("k", below))
        .await
        .unwrap();
    remote
        .define("owner", Definition::new("p", ""))
        .await
        .unwrap();
    let store = BreakerStore::new(Arc::new(remote), breaker);
    let found = store.definition_with_ancestors("owner", b"k", 0);
    assert_eq!(found.await.map(|found| found.len()), Ok(2));
}
