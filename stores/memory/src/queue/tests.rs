//! How much work a queue is, counted: nothing here measures time.

use std::sync::atomic::AtomicUsize as Count;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;

use tidegate_store::core::{Payment, Rule, Slots};
use tidegate_store::{Alarm, Detail, PlanLimit, Seat, Terms};

use super::*;
use crate::bounds::Bounds;
use crate::table::MemoryTable;

const NOW: Timestamp = Timestamp::from_micros(1_767_268_800_000_000);

/// How long a test waits for what must come at once, before it fails.
const LONG: Duration = Duration::from_secs(60);

/// A table that counts what it is asked.
struct Counting {
    table: MemoryTable,
    asked: Count,
}

impl Table for Counting {
    fn execute(&self, command: &Command<'_>, out: Out<'_>) -> Execution {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.table.execute(command, out)
    }

    fn atomic_buckets(&self) -> Option<&dyn AtomicBuckets> {
        self.table.atomic_buckets()
    }
}

impl Immediate for Counting {
    fn recall(&self, key: &[u8]) {
        self.table.recall(key);
    }

    fn find_repeated(&self, key: &KeyPath<'_>, ask: &[u8], now: Timestamp) -> Option<Granted> {
        self.table.find_repeated(key, ask, now)
    }

    fn plan_of(&self, key: &KeyPath<'_>) -> Arc<Plan> {
        self.table.plan_of(key)
    }
}

/// A clock that stands still, and rings nothing.
#[derive(Debug)]
struct Still;

impl Timer for Still {
    fn now(&self) -> Timestamp {
        NOW
    }

    fn set(&self, at: Timestamp, _: Weak<dyn TimerHandler>) -> Alarm {
        Alarm { at, number: 0 }
    }

    fn unset(&self, _: Alarm) {}
}

/// A plan of one slot for each key of `levels` segments.
fn slot(levels: usize) -> Arc<Plan> {
    let limit = PlanLimit {
        name: "slot".into(),
        uid: 0,
        rule: Rule::Slots(Slots::new(1, Span::from_secs(86_400)).expect("a slot")),
        level: levels - 1,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    Arc::new(Plan::new(0, levels, vec![limit], Span::SECOND))
}

struct Tried {
    table: Queued<Counting>,
    plan: Arc<Plan>,
    levels: usize,
}

impl Tried {
    fn new(levels: usize) -> Self {
        let plan = slot(levels);
        let table = Queued::new(Counting {
            table: MemoryTable::new(&plan, Bounds::default()),
            asked: Count::new(0),
        });
        Self {
            table,
            plan,
            levels,
        }
    }

    /// What `run` asks of the table, and compares.
    fn counted<R>(&self, run: impl FnOnce() -> R) -> (R, usize, usize) {
        let asked = &self.table.table().asked;
        asked.store(0, Ordering::SeqCst);
        line::COMPARED.set(0);
        let answer = run();
        (answer, asked.load(Ordering::SeqCst), line::COMPARED.get())
    }

    fn execute(&self, key: &str, verb: Verb<'_>, patience: Option<&Patience>) -> Asked {
        let mut answer = Ok(Reply::Done);
        let path = KeyPath::new(key.as_bytes(), self.levels).expect("a key");
        let command = Command {
            plan: &self.plan,
            now: NOW,
            calendars: &[],
            op: Op::One(path, verb),
            patience,
        };
        let execution = self.table.execute(&command, Out::new(&mut answer));
        match execution.pending() {
            Some(later) => Asked::Later(later),
            None => Asked::Now(answer),
        }
    }

    fn take(&self, key: &str, id: u128, patience: Option<&Patience>) -> Asked {
        let take = Verb::Take {
            amounts: &[1],
            lease: Some(Terms {
                id,
                expires_at: NOW + Span::from_secs(3_600),
                idempotency: None,
                least: None,
            }),
            detail: Detail::Verdict,
        };
        self.execute(key, take, patience)
    }

    fn join(&self, key: &str, id: u128) -> StoreFuture {
        let patience = Patience {
            turn: id,
            ahead: Span::ZERO,
            longest: None,
            since: NOW,
            for_refunds: false,
            race: None,
            hold: None,
            retried: false,
            timer: Arc::new(Still),
            seat: Seat::default(),
        };
        match self.take(key, id, Some(&patience)) {
            Asked::Later(later) => {
                // It keeps its place beyond this: the answer that is dropped gives it back.
                patience.seat.keep(|| ());
                later
            }
            Asked::Now(answer) => panic!("{key} need not wait: {answer:?}"),
        }
    }
}

enum Asked {
    Now(Answer),
    Later(StoreFuture),
}

impl Asked {
    fn granted(self) -> bool {
        match self {
            Self::Now(answer) => answer.expect("no error").new_lease().is_some(),
            Self::Later(_) => false,
        }
    }
}

/// So many users of one root hold the one slot that each has, and as many requests wait for
/// theirs.
const USERS: usize = 200;

/// Commands that one step may cost, however many wait.
const FEW: usize = 4;

/// How often one step may compare each that waits with something.
const EACH: usize = 10;

/// A request that waits for its own limit keeps no sibling back. So serving asked the store for
/// every one of them, at every release, every try and every join under the root, and compared
/// each with all that had been refused before it.
#[test]
fn a_step_asks_the_table_for_the_one_that_it_serves_and_looks_at_each_that_waits_once() {
    let tried = Tried::new(2);
    let key = |user: usize| format!("acme/{user}");
    for user in 0..USERS {
        assert!(tried.take(&key(user), user as u128, None).granted());
    }
    let mut waiting = Vec::new();
    for user in 0..USERS {
        let join = || tried.join(&key(user), (USERS + user) as u128);
        let (later, asked, compared) = tried.counted(join);
        waiting.push(later);
        assert!(asked <= FEW, "{asked} commands for the join of {user}");
        assert!(
            compared <= EACH * USERS,
            "{compared} compares for the join of {user}"
        );
    }

    let end = Verb::End {
        id: 7,
        ending: Ending::Release,
        remember: false,
    };
    let release = || tried.execute(&key(7), end, None);
    let (_, asked, compared) = tried.counted(release);
    assert!(asked <= FEW, "{asked} commands for one release");
    assert!(
        compared <= EACH * USERS,
        "{compared} compares for one release"
    );
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut polls = waiting.iter_mut();
    let served: Vec<_> = (0..USERS)
        .filter(|_| {
            let later = polls.next().expect("as many");
            matches!(Pin::new(later).poll(&mut context), Poll::Ready(Ok(_)))
        })
        .collect();
    assert_eq!(served, [7], "it serves whose slot it was");

    let try_it = || tried.take("acme/newcomer", 1_000, None).granted();
    let (granted, asked, compared) = tried.counted(try_it);
    assert!(granted, "nobody waits for its slot");
    assert!(asked <= FEW, "{asked} commands for one try");
    assert!(compared <= EACH * USERS, "{compared} compares for one try");
}

/// While one request waited, for whatever key, the fast way of every key went through one
/// mutex. Here somebody holds that of the queue in which one waits, and others go on.
#[test]
fn a_queue_that_is_locked_holds_up_no_key_of_another_stripe() {
    let tried = Arc::new(Tried::new(1));
    assert!(tried.take("busy", 1, None).granted());
    let _waits = tried.join("busy", 2);
    let shared = &tried.table.0;
    let stripe = std::ptr::from_ref(shared.stripe(b"busy"));
    let keys = (0..200).map(|n| format!("k{n}"));
    let other = |key: &String| !std::ptr::eq(stripe, shared.stripe(key.as_bytes()));
    let others: Vec<_> = keys.filter(other).collect();
    let most = others.len();
    assert!(most > 100, "few keys are of its stripe: {most} are not");
    let locked = shared.stripe(b"busy").queues.lock();
    let (told, answers) = mpsc::sync_channel(1);
    let asking = Arc::clone(&tried);
    let asks = thread::spawn(move || {
        let mut granted = 0;
        for (key, id) in others.iter().zip(10..) {
            granted += usize::from(asking.take(key, id, None).granted());
            let end = Verb::End {
                id,
                ending: Ending::Release,
                remember: false,
            };
            asking.execute(key, end, None);
            assert!(!asking.table.0.has_queue(key.as_bytes()));
        }
        told.send(granted).expect("somebody listens");
    });
    let granted = answers.recv_timeout(LONG);
    drop(locked);
    asks.join().expect("no panic");
    assert_eq!(granted, Ok(most));
}
