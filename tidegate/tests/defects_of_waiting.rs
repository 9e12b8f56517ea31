//! Failures seen in neighbouring systems where somebody waits or holds, each of
//! which must not be ours. The section is that of the survey of peers; the
//! sentence is what they did. `defects.rs` has those of counting.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tidegate::StoreError;
use tidegate::{
    Admission, Algorithm, Clock, DecisionError, Lease, Limit, LimitSet, ManualClock, Request,
    Semaphore, Span, Timestamp,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Admission, DecisionError>> + 'a>>;

fn set(time: &ManualClock, limits: impl IntoIterator<Item = Limit>) -> LimitSet {
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    builder.build().expect("sensible limits")
}

fn take<'a>(set: &LimitSet, request: impl Into<Request<'a>>) -> Option<Lease> {
    set.try_acquire("k", request)
        .wait()
        .expect("no error")
        .granted()
}

fn left(set: &LimitSet, limit: &str) -> u64 {
    let peeked = set.peek("k", 1).wait().expect("no error");
    peeked.standing(limit).expect("it is there").remaining
}

fn poll(waiting: &mut Waiting<'_>) -> Option<Result<Admission, DecisionError>> {
    match waiting
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Until so many wait.
fn until_waiting(set: &LimitSet, count: u64) {
    while set.statistics().waiting < count {
        thread::park_timeout(Duration::from_micros(200));
    }
}

/// 1: "waits by polling every 10 ms". The clock is read a few times at the
/// beginning and the end of a wait, and not in between.
#[test]
fn a_wait_to_a_deadline_reads_the_clock_a_few_times_in_all() {
    let reads = Arc::new(AtomicU64::new(0));
    let (theirs, system) = (Arc::clone(&reads), Clock::system());
    let clock = Clock::custom(move || {
        theirs.fetch_add(1, Ordering::Relaxed);
        system.now()
    });
    let limit = Limit::concurrency("slots", 1);
    let set = LimitSet::builder()
        .limit(limit)
        .clock(clock)
        .build()
        .unwrap();
    let _held = take(&set, ());
    let before = reads.load(Ordering::Relaxed);
    let patient = Request::from(()).within(Duration::from_millis(200));
    let refused = set.acquire("k", patient).wait().unwrap().refused();
    assert!(refused.is_some(), "nothing came back");
    let reads = reads.load(Ordering::Relaxed) - before;
    assert!(reads <= 30, "{reads} readings of the clock in one wait");
}

/// How often each of the eight threads has the only permit.
const ROUNDS: usize = 100;

/// Waits on this thread, and counts as `standing` from when it is in line.
fn wait_in_line<G>(standing: &AtomicU64, turn: impl Future<Output = G>) -> G {
    let (mut turn, mut waits) = (pin!(turn), false);
    let counted = poll_fn(|context| {
        let answer = turn.as_mut().poll(context);
        match (answer.is_ready(), waits) {
            (false, false) => standing.fetch_add(1, Ordering::SeqCst),
            (true, true) => standing.fetch_sub(1, Ordering::SeqCst),
            _ => 0,
        };
        waits = answer.is_pending();
        answer
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("it needs nothing").block_on(counted)
}

/// Which of eight threads had the only permit, in order. Nobody gives it back
/// before all others that have rounds left stand in line; so the order owes
/// nothing to when a thread was let run.
fn holders<F: Future>(acquire: impl Fn() -> F + Sync) -> Vec<usize> {
    let order = Mutex::new(Vec::new());
    let (standing, others) = (AtomicU64::new(0), AtomicU64::new(8));
    let until_all_stand = || {
        while standing.load(Ordering::SeqCst) < others.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_micros(200));
        }
    };
    let work = |me: usize| {
        for round in 1..=ROUNDS {
            let permit = wait_in_line(&standing, acquire());
            others.fetch_sub(1, Ordering::SeqCst);
            order.lock().unwrap().push(me);
            until_all_stand();
            if round < ROUNDS {
                others.fetch_add(1, Ordering::SeqCst);
            }
            drop(permit);
        }
    };
    let first = wait_in_line(&standing, acquire());
    thread::scope(|scope| {
        let work = &work;
        for me in 0..8 {
            scope.spawn(move || work(me));
        }
        until_all_stand();
        drop(first);
    });
    order.into_inner().unwrap()
}

/// Each of the eight in turn, over and over.
fn assert_cyclic(holders: &[usize]) {
    assert_eq!(holders.len(), 8 * ROUNDS);
    let mut all = holders[..8].to_vec();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7], "{:?}", &holders[..16]);
    for (turn, (earlier, later)) in holders.iter().zip(&holders[8..]).enumerate() {
        assert_eq!(earlier, later, "turn {} was another's", turn + 8);
    }
}

/// 1: "of 8 threads on one slot, one got 2,116 grants and one got 1".
#[test]
fn eight_threads_on_one_slot_each_get_their_share() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let acquire = || async {
        let admission = set.acquire("k", ()).await.unwrap();
        admission.granted().expect("no deadline")
    };
    assert_cyclic(&holders(acquire));
}

/// 3: "a lock holder killed: everyone hangs past their timeout".
#[test]
fn who_waits_for_a_holder_that_panics_is_served() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let theirs = set.clone();
    let holder = thread::spawn(move || {
        let _held = take(&theirs, ()).expect("free");
        until_waiting(&theirs, 1);
        panic!("the work failed");
    });
    while left(&set, "slots") == 1 && !holder.is_finished() {
        thread::park_timeout(Duration::from_micros(200));
    }
    let patient = Request::from(()).within(Duration::from_secs(30));
    assert!(
        set.acquire("k", patient)
            .wait()
            .unwrap()
            .granted()
            .is_some()
    );
    assert!(holder.join().is_err() && left(&set, "slots") == 1);
}

/// 4: "release goes above capacity".
#[test]
fn nothing_that_is_given_back_goes_above_the_capacity() {
    let time = ManualClock::default();
    let limits = [
        Limit::rate("bucket", 10, SECOND),
        Limit::rate("window", 10, SECOND).algorithm(Algorithm::FixedWindow),
        Limit::rate("ring", 10, SECOND).algorithm(Algorithm::SlidingWindow),
        Limit::rate("log", 10, SECOND).algorithm(Algorithm::SlidingLog),
        Limit::concurrency("slots", 10),
    ];
    let set = set(&time, limits);
    for wait in [0, 1, 500, 1_000, 5_000] {
        let mut lease = take(&set, 8).expect("it fits");
        time.advance(Duration::from_millis(wait));
        let id = lease.id();
        lease.cancel().wait().unwrap();
        for _ in 0..3 {
            let _ = set.release("k", id).wait();
            let _ = set.settle("k", id, &[("bucket", 0), ("log", 0)]).wait();
        }
        let after = set.peek("k", 1).wait().unwrap();
        assert!(
            after
                .standings()
                .all(|(_, standing)| standing.remaining == 10)
        );
        time.advance(10 * SECOND);
    }
}

/// 4: "cancelling the task skips commit and rollback".
#[tokio::test]
async fn a_waiting_task_that_is_aborted_leaves_nothing_behind() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let held = take(&set, ());
    let theirs = set.clone();
    let waiting = tokio::spawn(async move { theirs.acquire("k", ()).await });
    while set.statistics().waiting == 0 {
        tokio::task::yield_now().await;
    }
    waiting.abort();
    assert!(waiting.await.expect_err("aborted").is_cancelled());
    let counted = set.statistics();
    assert_eq!((counted.waiting, counted.abandoned), (0, 1));
    drop(held);
    assert!(take(&set, ()).is_some());
}

/// 2: "no idempotency keys". Two deliveries of one request, both in line.
#[test]
fn a_retry_that_waits_beside_its_first_delivery_is_given_the_same_lease() {
    let time = ManualClock::default();
    let set = set(&time, [Limit::concurrency("slots", 2)]);
    let held = take(&set, &[("slots", 2)]);
    let request = || Request::from(()).idempotency(b"request 1");
    let mut first: Waiting<'_> = Box::pin(set.acquire("k", request()));
    let mut retry: Waiting<'_> = Box::pin(set.acquire("k", request()));
    assert!(poll(&mut first).is_none() && poll(&mut retry).is_none());
    drop(held);
    let granted = |answer: Option<Result<Admission, DecisionError>>| {
        let admission = answer.expect("their turn").expect("no error");
        admission.granted().expect("it fits")
    };
    let (first, retry) = (granted(poll(&mut first)), granted(poll(&mut retry)));
    assert_eq!(first.id(), retry.id());
    assert!(!first.is_repeated() && retry.is_repeated());
    drop(retry);
    assert_eq!(left(&set, "slots"), 1, "held once, by the first");
}

/// The retry was put behind who waits for the very slot that its lease holds; and when
/// its turn came at last, it was given that lease, which had expired meanwhile.
#[test]
fn a_retry_finds_the_lease_that_it_holds_though_somebody_waits() {
    let time = ManualClock::default();
    let set = set(&time, [Limit::concurrency("slots", 1).ttl(HOUR)]);
    let request = || Request::from(()).idempotency(b"request 1");
    // The answer is lost on its way: nobody has the guard.
    let lost = take(&set, request()).expect("it is free").detach();
    let patient = Request::from(()).within(Duration::MAX);
    let mut other: Waiting<'_> = Box::pin(set.acquire("k", patient));
    assert!(poll(&mut other).is_none());
    let again = take(&set, request()).expect("it is held");
    assert_eq!((again.id(), again.is_repeated()), (lost, true));
    let mut waiting: Waiting<'_> = Box::pin(set.acquire("k", request()));
    let again = poll(&mut waiting).expect("an answer").unwrap().granted();
    assert_eq!(again.expect("it is held").id(), lost);
    time.advance(HOUR);
    let other = poll(&mut other).expect("its turn").unwrap().granted();
    assert!(other.is_some(), "the lost lease expired");
    assert!(take(&set, request()).is_none(), "two hold the only slot");
}

/// A client hung up between its grant and its next poll: its lease was cancelled, and
/// the retry, in line beside it or later, was told of it as held.
#[test]
fn what_a_dropped_ask_was_granted_stays_for_its_retry() {
    let time = ManualClock::default();
    let set = set(&time, [Limit::concurrency("slots", 1)]);
    let request = || Request::from(()).idempotency(b"request 1");
    let held = take(&set, ());
    let mut first: Waiting<'_> = Box::pin(set.acquire("k", request()));
    let mut other: Waiting<'_> = Box::pin(set.acquire("k", ()));
    let mut retry: Waiting<'_> = Box::pin(set.acquire("k", request()));
    for waiting in [&mut first, &mut other, &mut retry] {
        assert!(poll(waiting).is_none());
    }
    drop(held);
    drop(first);
    let retry = poll(&mut retry).expect("it holds the slot, and waits for nobody");
    let mut retry = retry.unwrap().granted().expect("granted");
    let mut again = take(&set, request()).expect("it is held");
    assert_eq!(retry.id(), again.id());
    assert!(again.renew(HOUR).wait().is_ok(), "what is granted is held");
    assert!(poll(&mut other).is_none(), "two hold the only slot");
    retry.release().wait().unwrap();
    assert!(poll(&mut other).is_some());
}

/// 5: "the loop dies when the tracker is full, and all later requests hang".
#[test]
fn a_full_tracker_is_an_error_to_its_caller_alone() {
    let time = ManualClock::default();
    let limits = [Limit::rate("r", 100, HOUR), Limit::concurrency("slots", 1)];
    let builder = LimitSet::builder().limits(limits).clock(time.clock());
    let set = builder.max_leases(2).build().unwrap();
    let key = |number: usize| format!("key {number}");
    let mut held: Vec<_> = (0..2)
        .map(|n| set.acquire(&key(n), 1).wait().unwrap().granted())
        .collect();
    let full = DecisionError::Store(StoreError::LeasesFull { max_leases: 2 });
    assert_eq!(set.acquire(&key(2), 1).wait().unwrap_err(), full);
    let zero = key(0);
    let mut waiting: Waiting<'_> = Box::pin(set.acquire(&zero, 1));
    assert!(poll(&mut waiting).is_none(), "its key's slot is held");
    assert!(set.debit(&key(3), &[("r", 1)]).wait().unwrap().admitted());
    drop(held.swap_remove(0));
    let served = poll(&mut waiting)
        .expect("its turn")
        .expect("there is room");
    assert!(served.granted().is_some());
    assert!(set.acquire(&key(2), 1).wait().unwrap().granted().is_some());
}

/// 6: "retry truncated to 0". However fast the rate, a refusal's instant is
/// after the refusal.
#[test]
fn the_time_to_retry_is_never_nothing() {
    for (amount, period) in [
        (20_000_000, SECOND),
        (1_500_000, SECOND),
        (7, HOUR),
        (1, HOUR),
    ] {
        let time = ManualClock::default();
        let set = set(&time, [Limit::rate("r", amount, period).burst(3)]);
        let mut refused = 0;
        for step in 0..200_u64 {
            let decision = set.check("k", 3).wait().unwrap();
            if !decision.admitted() {
                refused += 1;
                let now: Timestamp = time.clock().now();
                let wait = decision.not_until().expect("not now").since(now);
                assert!(wait > Span::ZERO, "{amount} per {period:?}");
            }
            time.advance(Duration::from_micros(step % 2));
        }
        assert!(refused >= 50, "{refused}");
    }
}

/// 6: "unfair mode can wedge for ever". Waiters of a leaky bucket that leave
/// at any time keep nobody else from their turn.
#[test]
fn a_leaky_bucket_goes_on_however_many_leave_its_line() {
    let time = ManualClock::default();
    let limit = Limit::rate("leak", 100, SECOND).algorithm(Algorithm::LeakyBucket);
    let set = set(&time, [limit.burst(1)]);
    let mut waiting: Vec<Waiting<'_>> = (0..90)
        .map(|_| Box::pin(set.acquire("k", 1)) as Waiting<'_>)
        .collect();
    let mut served = waiting.iter_mut().filter_map(poll).count();
    for round in 0..200 {
        // Every third leaves, from wherever it stands.
        if round % 3 == 0 && !waiting.is_empty() {
            drop(waiting.swap_remove(round * 7 % waiting.len()));
        }
        time.advance(Duration::from_millis(10));
        waiting.retain_mut(|turn| match poll(turn) {
            Some(answer) => {
                served += usize::from(answer.expect("no error").granted().is_some());
                false
            }
            None => true,
        });
    }
    assert!(waiting.is_empty(), "{} still wait", waiting.len());
    assert!(served >= 50, "{served} were served");
    assert_eq!(set.statistics().waiting, 0);
}

/// 6: "after a capacity cut it grants negative leases, which its client takes
/// for unlimited".
#[test]
fn a_capacity_cut_below_what_is_in_use_grants_nothing_until_it_is_free() {
    let time = ManualClock::default();
    let set = set(
        &time,
        [Limit::concurrency("slots", 5), Limit::rate("r", 10, HOUR)],
    );
    let request = [("slots", 1), ("r", 2)];
    let mut held: Vec<_> = (0..4).filter_map(|_| take(&set, &request)).collect();
    set.put_limit(Limit::concurrency("slots", 2)).unwrap();
    set.put_limit(Limit::rate("r", 5, HOUR)).unwrap();
    let standing = set.peek("k", 1).wait().unwrap().standing("slots").unwrap();
    assert_eq!(
        (standing.remaining, standing.debt, left(&set, "r")),
        (0, 2, 0)
    );
    let free = [("slots", 1), ("r", 0)];
    for still_held in [3, 2] {
        drop(held.pop());
        assert!(take(&set, &free).is_none(), "{still_held} are held of 2");
    }
    drop(held.pop());
    assert!(take(&set, &free).is_some());
}

/// 1: the same threads for permits of one process.
#[test]
fn eight_threads_on_one_permit_each_get_their_share() {
    let semaphore = Semaphore::new(1);
    assert_cyclic(&holders(|| semaphore.acquire()));
}

/// Ours: a request was told that its time was over only when an alarm would have come that had
/// been taken back, by how the clock went before it jumped ahead.
#[test]
fn a_wait_ends_in_time_on_a_clock_that_has_jumped() {
    let (ahead, system) = (Arc::new(AtomicU64::new(0)), Clock::system());
    let by = Arc::clone(&ahead);
    let clock = Clock::custom(move || system.now() + Span::from_micros(by.load(Ordering::SeqCst)));
    let limit = Limit::concurrency("slots", 1).ttl(24 * HOUR);
    let built = LimitSet::builder().limit(limit).clock(clock).build();
    let set = built.expect("sensible limits");
    let _held = take(&set, ());
    let refused = |wait: Duration| {
        let (set, (told, ends)) = (set.clone(), std::sync::mpsc::sync_channel(1));
        thread::spawn(move || {
            let waited = wait_in_line(
                &AtomicU64::new(0),
                set.acquire("k", Request::from(()).within(wait)),
            );
            let _ = told.send(waited.expect("no error").refused().is_some());
        });
        ends.recv_timeout(Duration::from_secs(60))
    };
    {
        // Its alarm is in an hour, and stays so when the next one's has rung.
        let mut waits = pin!(set.acquire("k", Request::from(()).within(HOUR)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert_eq!(refused(Duration::from_millis(20)), Ok(true));
        thread::park_timeout(Duration::from_millis(20));
    }
    ahead.store(2 * HOUR.as_micros() as u64, Ordering::SeqCst);
    assert_eq!(refused(Duration::from_millis(20)), Ok(true));
}
