//! A store that is away when a call ends: whom that holds up, and what becomes of the call.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidegate_memory::MemoryStore;
use tidegate_store::{
    Abilities, Command, Execution, Op, Out, Plan, Store, StoreError, StoreFuture, Table, Verb,
};
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;

/// Longer than any of these tests takes, and no bound of what they are about.
const LONG: Duration = Duration::from_secs(120);

/// What becomes of an end of a lease, of its growth, and of a debit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Answers,
    /// It is not done, and that is said.
    Fails,
    /// It is done, and nothing is said until another way is taken.
    Hangs,
}

/// Limits in memory, behind such a way.
struct Away {
    memory: MemoryStore,
    asked: Arc<Asked>,
}

struct Asked {
    way: watch::Sender<Way>,
    failures: AtomicUsize,
}

struct AwayTable {
    table: Arc<dyn Table>,
    asked: Arc<Asked>,
}

impl Away {
    fn begin() -> (Arc<dyn Store>, Arc<Asked>) {
        let asked = Arc::new(Asked {
            way: watch::Sender::new(Way::Answers),
            failures: AtomicUsize::new(0),
        });
        let store = Self {
            memory: MemoryStore::default(),
            asked: Arc::clone(&asked),
        };
        (Arc::new(store), asked)
    }
}

impl Asked {
    fn goes(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Store for Away {
    fn abilities(&self) -> Abilities {
        self.memory.abilities()
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        Ok(Arc::new(AwayTable {
            table: self.memory.open(name, plan)?,
            asked: Arc::clone(&self.asked),
        }))
    }
}

impl Table for AwayTable {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        let Op::One(_, Verb::End { .. } | Verb::Adjust { .. } | Verb::Debit { .. }) = command.op
        else {
            return self.table.execute(command, out);
        };
        let mut way = self.asked.way.subscribe();
        let now = *way.borrow_and_update();
        match now {
            Way::Answers => self.table.execute(command, out),
            Way::Fails => {
                self.asked.failures.fetch_add(1, Ordering::SeqCst);
                out.ready(Err(StoreError::Unavailable("it is away".into())))
            }
            Way::Hangs => {
                let answer = self.table.execute_and_wait(command);
                Execution::from(StoreFuture::new(async move {
                    // It ends with the test's store.
                    let _ = way.wait_for(|way| *way != Way::Hangs).await;
                    answer
                }))
            }
        }
    }
}

/// It was tried once: with the store back, others were granted what the stream had used.
#[tokio::test]
async fn a_stream_that_outgrows_its_reservation_takes_more_once_the_store_is_back() {
    const LIMIT: u64 = 1_000_000;
    let (store, asked) = Away::begin();
    let running = run_on(store, &broken_off::long(), |_| {}).await;
    let events = running.provider.next(Reply::stream());
    let call = json!({ "model": "m", "stream": true, "messages": [] });
    let mut body = running
        .begin("/v1/chat/completions", &call)
        .await
        .into_body();
    let reserved = LIMIT - running.left("tokens").await;
    asked.goes(Way::Fails);
    let begun = tokio::time::Instant::now();
    // 1,000 tokens each.
    let event = broken_off::event(800);
    let mut came = 0;
    while came <= reserved + 30_000 || asked.failures.load(Ordering::SeqCst) == 0 {
        events.send(event.clone()).await;
        body.frame().await.unwrap().unwrap();
        came += 1_000;
    }
    // However often it grows: one try at a time, and a pause of 100 ms or more between two.
    let failures = asked.failures.load(Ordering::SeqCst) as u128;
    assert!(
        failures <= 2 + begun.elapsed().as_millis() / 100,
        "{failures}"
    );
    asked.goes(Way::Answers);
    let grown = async {
        while running.left("tokens").await > LIMIT - came {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, grown).await.expect("it is asked for again");
    let usage = r#"{"usage":{"prompt_tokens":10,"completion_tokens":7000}}"#;
    events
        .send(format!("data: {usage}\n\ndata: [DONE]\n\n"))
        .await;
    drop(events);
    while body.frame().await.is_some() {}
    running.settles_to("tokens", LIMIT - 7_010).await;
    running.settles_to("running", 4).await;
    running.stop().await;
}

/// It was settled once, and if the store was away just then it stayed charged what was reserved.
#[tokio::test]
async fn a_call_that_ends_while_the_store_is_away_is_settled_once_it_is_back() {
    let (store, asked) = Away::begin();
    let running = run_on(store, POLICY, |_| {}).await;
    asked.goes(Way::Fails);
    running.provider.next(Reply::answer(10, 10));
    assert_eq!(running.post("/v1/chat/completions", &chat(50)).await.0, 200);
    let failed = async {
        while asked.failures.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, failed).await.expect("its end is asked for");
    assert!(running.left("tokens").await < 980, "what was reserved");
    asked.goes(Way::Answers);
    running.settles_to("tokens", 980).await;
    running.settles_to("running", 4).await;
    running.stop().await;
}

#[tokio::test]
async fn an_answer_waits_a_second_at_most_for_a_store_that_is_away() {
    let (store, asked) = Away::begin();
    let running = run_on(store, POLICY, |_| {}).await;
    asked.goes(Way::Hangs);
    // What a refused call held is given back before its caller is told.
    running.provider.next(Reply::refusal(400, "{}"));
    let chat = chat(50);
    let refused = running.post("/v1/chat/completions", &chat);
    let (status, ..) = timeout(LONG, refused).await.expect("it is not held up");
    assert_eq!(status, 400);
    // That goes on by itself.
    asked.goes(Way::Answers);
    running.settles_to("tokens", 1_000).await;
    running.stop().await;
}

#[tokio::test]
async fn an_answer_waits_a_second_at_most_until_others_use_is_charged() {
    let (store, asked) = Away::begin();
    let running = run_on(store, learnt::LEARNT, learnt::with_secrets).await;
    asked.goes(Way::Hangs);
    let said = learnt::said(Reply::answer(1, 1), ["1000", "300"]);
    running.provider.next(said);
    let chat = chat(100);
    let answered = running.post("/v1/chat/completions", &chat);
    let (status, ..) = timeout(LONG, answered).await.expect("it is not held up");
    assert_eq!(status, 200);
    asked.goes(Way::Answers);
    running.stop().await;
}
