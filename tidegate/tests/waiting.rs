//! Who waits is served in order, by a release or an exact timer, and gives
//! back what it took when it is dropped. Virtual time throughout, but for the
//! tests of blocking threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{
    Admission, Algorithm, DecisionError, Limit, LimitPool, LimitSet, ManualClock, Request,
    Timestamp,
};

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<Admission, DecisionError>> + 'a>>;

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future polled by hand, and whether it was woken since.
struct Polled<'a> {
    future: Waiting<'a>,
    flag: Arc<Flag>,
}

impl<'a> Polled<'a> {
    fn new(future: impl Future<Output = Result<Admission, DecisionError>> + 'a) -> Self {
        Self {
            future: Box::pin(future),
            flag: Arc::new(Flag(AtomicBool::new(false))),
        }
    }

    fn poll(&mut self) -> Option<Result<Admission, DecisionError>> {
        let waker = Waker::from(Arc::clone(&self.flag));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    fn granted(&mut self) -> Option<tidegate::Lease> {
        self.poll()
            .and_then(|answer| answer.expect("no error").granted())
    }

    fn woken(&self) -> bool {
        self.flag.0.swap(false, Ordering::SeqCst)
    }
}

fn slots(time: &ManualClock, count: u64) -> LimitSet {
    let limit = Limit::concurrency("slots", count);
    let set = LimitSet::builder().limit(limit).clock(time.clock());
    set.build().expect("a sensible set")
}

fn rate(time: &ManualClock, count: u64) -> LimitSet {
    let limit = Limit::rate("rate", count, Duration::from_secs(1));
    let set = LimitSet::builder().limit(limit).clock(time.clock());
    set.build().expect("a sensible set")
}

#[test]
fn waiters_are_served_in_order() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let mut lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waiters: Vec<_> = (0..100)
        .map(|_| Polled::new(set.acquire("k", ())))
        .collect();
    assert!(waiters.iter_mut().all(|waiter| waiter.poll().is_none()));
    for turn in 0..waiters.len() {
        drop(lease.take());
        let woken: Vec<usize> = (0..100).filter(|&i| waiters[i].woken()).collect();
        assert_eq!(woken, [turn], "one wake-up an admission, in order");
        lease = waiters[turn].granted();
        assert!(lease.is_some());
    }
}

#[test]
fn a_waiter_for_a_rate_wakes_at_its_exact_instant() {
    let time = ManualClock::default();
    let set = rate(&time, 1_000);
    assert!(set.check("k", 1_000).wait().unwrap().admitted());
    let mut waiter = Polled::new(set.acquire("k", 500));
    assert!(waiter.poll().is_none());
    time.advance(Duration::from_micros(499_999));
    assert!(!waiter.woken());
    time.advance(Duration::from_micros(1));
    assert!(waiter.woken());
    assert!(waiter.granted().is_some());
}

#[test]
fn a_lease_that_waited_was_granted_at_the_end_of_its_wait() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let first = set.try_acquire("k", ()).wait().unwrap().granted();
    let first = first.expect("it fits");
    let mut waiter = Polled::new(set.acquire("k", ()));
    assert!(waiter.poll().is_none());
    time.advance(Duration::from_millis(70));
    drop(first);
    let granted_at = set.now();
    // The answer may be looked at as late as it likes.
    time.advance(Duration::from_millis(5));
    let second = waiter.granted().expect("it was served");
    assert_eq!(second.granted_at(), granted_at);
}

#[test]
fn a_large_ask_is_not_starved_by_small_ones() {
    let time = ManualClock::default();
    let set = slots(&time, 4);
    let small = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut large = Polled::new(set.acquire("k", &[("slots", 4)]));
    assert!(large.poll().is_none());
    assert!(
        set.try_acquire("k", ()).wait().unwrap().granted().is_none(),
        "nobody overtakes"
    );
    let mut later = Polled::new(set.acquire("k", ()));
    assert!(later.poll().is_none());
    drop(small);
    let large = large.granted();
    assert!(large.is_some());
    assert!(later.poll().is_none());
    drop(large);
    assert!(later.granted().is_some());
}

#[test]
fn the_urgent_go_first_and_nobody_starves() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut patient = Polled::new(set.acquire("k", ()));
    assert!(patient.poll().is_none());
    time.advance(Duration::from_secs(2));
    let mut urgent = Polled::new(set.acquire("k", Request::from(()).priority(3)));
    assert!(urgent.poll().is_none());
    time.advance(Duration::from_secs(2));
    let mut too_late = Polled::new(set.acquire("k", Request::from(()).priority(3)));
    assert!(too_late.poll().is_none());
    drop(lease);
    let first = urgent.granted();
    assert!(first.is_some() && patient.poll().is_none());
    drop(first);
    let second = patient.granted();
    assert!(second.is_some() && too_late.poll().is_none());
    drop(second);
    assert!(too_late.granted().is_some());
}

#[test]
fn a_dropped_future_gives_back_its_place_and_what_it_was_given() {
    let time = ManualClock::default();
    let set = rate(&time, 10);
    assert!(set.check("k", 10).wait().unwrap().admitted());
    let mut first = Polled::new(set.acquire("k", 10));
    let mut second = Polled::new(set.acquire("k", 10));
    assert!(first.poll().is_none() && second.poll().is_none());
    time.advance(Duration::from_secs(1));
    assert!(first.woken(), "given, but never told");
    drop(first);
    assert!(second.woken(), "what the first gave back is the second's");
    assert!(second.granted().is_some());
    assert_eq!(set.statistics().waiting, 0);
    assert_eq!(set.statistics().abandoned, 1);
}

#[test]
fn a_deadline_ends_the_wait_at_its_instant_and_changes_nothing() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let request = Request::from(()).within(Duration::from_millis(5));
    let mut waiter = Polled::new(set.acquire("k", request));
    assert!(waiter.poll().is_none());
    time.advance(Duration::from_micros(4_999));
    assert!(!waiter.woken());
    time.advance(Duration::from_micros(1));
    let refused = waiter
        .poll()
        .expect("told")
        .unwrap()
        .refused()
        .expect("a refusal");
    assert_eq!(refused.binding(), Some("slots"));
    assert_eq!(set.statistics().waiting, 0);
    drop(lease);
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_some());
}

/// One that says nothing waited for ever.
#[test]
fn a_request_that_does_not_say_how_long_waits_for_half_a_minute() {
    let time = ManualClock::default();
    let slots = [Limit::concurrency("slots", 1).ttl(Duration::from_secs(600))];
    let set = LimitSet::builder().limits(slots).clock(time.clock());
    let set = set.build().expect("a sensible set");
    let pool = LimitPool::builder().member("only", set.clone()).build();
    let pool = pool.expect("a sensible pool");
    let lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waits = Polled::new(set.acquire("k", ()));
    let mut of_a_pool = Polled::new(pool.acquire("k", ()));
    let mut for_ever = Polled::new(set.acquire("k", Request::default().within(Duration::MAX)));
    assert!(waits.poll().is_none() && of_a_pool.poll().is_none());
    assert!(for_ever.poll().is_none());
    time.advance(tidegate::DEFAULT_WAIT - Duration::from_micros(1));
    assert!(waits.poll().is_none() && of_a_pool.poll().is_none());
    time.advance(Duration::from_micros(1));
    let is_refused = |one: &mut Polled<'_>| one.poll().expect("told").unwrap().refused().is_some();
    assert!(is_refused(&mut waits) && is_refused(&mut of_a_pool));
    time.advance(Duration::from_secs(500));
    assert!(for_ever.poll().is_none());
    drop(lease);
    assert!(for_ever.granted().is_some());
}

/// It waited for its whole patience, and was refused at its end.
#[test]
fn a_request_that_its_rates_cannot_admit_in_time_is_refused_at_once() {
    let time = ManualClock::default();
    let set = rate(&time, 10);
    assert!(set.check("k", 10).wait().unwrap().admitted());
    // A tenth of a second for each.
    let within = |millis| Request::from(3).within(Duration::from_millis(millis));
    let mut hopeless = Polled::new(set.acquire("k", within(299)));
    let refused = hopeless.poll().expect("at once").unwrap().refused();
    let refused = refused.expect("a refusal");
    assert_eq!(refused.binding(), Some("rate"));
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(300)));
    let mut in_time = Polled::new(set.acquire("k", within(300)));
    assert!(in_time.poll().is_none());
    // Also behind one that waits.
    let mut behind = Polled::new(set.acquire("k", within(100)));
    assert!(behind.poll().expect("at once").unwrap().refused().is_some());
    time.advance(Duration::from_millis(300));
    assert!(in_time.granted().is_some());
    assert_eq!(set.statistics().waiting, 0);
}

/// Slots come back when they are released, whatever their leases say; what a lease gives
/// back to a rate is waited for by those who say so.
#[test]
fn a_request_that_hopes_for_refunds_waits_for_them() {
    let time = ManualClock::default();
    let limits = [
        Limit::budget("budget", 10, Duration::from_secs(3_600)),
        Limit::concurrency("slots", 1).ttl(Duration::from_secs(600)),
    ];
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    let set = set.build().expect("a sensible set");
    let lease = set.try_acquire("k", 8).wait().unwrap().granted();
    let second = Duration::from_secs(1);
    // The slot alone refuses it: it is back when the lease ends.
    let mut for_the_slot = Polled::new(set.acquire("k", Request::from(2).within(second)));
    assert!(for_the_slot.poll().is_none());
    drop(for_the_slot);
    let mut at_once = Polled::new(set.acquire("k", Request::from(5).within(second)));
    assert!(
        at_once
            .poll()
            .expect("at once")
            .unwrap()
            .refused()
            .is_some()
    );
    let hopes = Request::from(5).within(second).wait_for_refunds();
    let mut waits = Polled::new(set.acquire("k", hopes));
    assert!(waits.poll().is_none());
    let mut lease = lease.expect("it is free");
    lease.settle(&[("budget", 1)]).wait().expect("it is held");
    assert!(waits.woken());
    assert!(waits.granted().is_some());
}

/// It is adapted to what a provider says at any time: with the capacity there may be room.
#[test]
fn a_rate_whose_capacity_adapts_is_waited_for() {
    let time = ManualClock::default();
    let limit = Limit::rate("tpm", 100, Duration::from_secs(60));
    let limit = limit.algorithm(Algorithm::SlidingWindow).adaptive();
    let set = LimitSet::builder().limit(limit).clock(time.clock());
    let set = set.build().expect("a sensible set");
    assert!(set.check("k", 60).wait().unwrap().admitted());
    set.set_capacity("tpm", 50).unwrap();
    let half_a_minute = Duration::from_secs(30);
    let mut waits = Polled::new(set.acquire("k", Request::from(30).within(half_a_minute)));
    assert!(waits.poll().is_none());
    set.set_capacity("tpm", 100).unwrap();
    assert!(waits.granted().is_some());
}

/// Nobody has waited, and no deadline has come.
#[test]
fn a_request_that_is_refused_at_once_has_not_timed_out() {
    let time = ManualClock::default();
    let set = rate(&time, 10);
    let pool = LimitPool::builder().member("only", set.clone());
    let pool = pool.build().expect("a pool");
    assert!(set.check("k", 10).wait().unwrap().admitted());
    let soon = || Request::from(3).within(Duration::from_millis(100));
    let mut of_pool = Polled::new(pool.acquire("k", soon()));
    assert!(
        of_pool
            .poll()
            .expect("at once")
            .unwrap()
            .refused()
            .is_some()
    );
    let mut of_set = Polled::new(set.acquire("k", soon()));
    assert!(of_set.poll().expect("at once").unwrap().refused().is_some());
    let timed_out = (set.statistics().timed_out, pool.statistics().timed_out);
    assert_eq!(timed_out, (0, 0));
}

#[test]
fn an_ask_that_is_admitted_after_a_wait_was_never_refused() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waiter = Polled::new(set.acquire("k", ()));
    assert!(waiter.poll().is_none());
    drop(lease);
    assert!(waiter.granted().is_some());
    let counted = set.statistics();
    assert_eq!((counted.admitted, counted.waited), (2, 1));
    assert_eq!((counted.refused, counted.timed_out), (0, 0));
}

#[test]
fn the_queue_is_bounded() {
    let time = ManualClock::default();
    let set = LimitSet::builder()
        .limit(Limit::concurrency("slots", 1))
        .max_waiting(1)
        .clock(time.clock())
        .build()
        .unwrap();
    let _lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waits = Polled::new(set.acquire("k", ()));
    assert!(waits.poll().is_none());
    let mut too_many = Polled::new(set.acquire("k", ()));
    assert!(matches!(
        too_many.poll(),
        Some(Err(DecisionError::QueueFull(1)))
    ));
}

#[test]
fn an_expired_holder_is_passed_over_for_the_next_in_line() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let mut lost = set.try_acquire("k", ()).wait().unwrap().granted().unwrap();
    let patient = Request::default().within(Duration::MAX);
    let mut waiter = Polled::new(set.acquire("k", patient));
    assert!(waiter.poll().is_none());
    time.advance(Duration::from_secs(120));
    let lease = waiter.granted().expect("the holder's ttl is over");
    assert!(lease.fence() > lost.fence());
    assert!(lost.settle(()).wait().unwrap().expired());
    assert!(
        set.try_acquire("k", ()).wait().unwrap().granted().is_none(),
        "nothing came back twice"
    );
}

#[test]
fn siblings_pass_a_waiter_whose_own_limit_binds_but_not_one_their_parent_keeps_back() {
    let time = ManualClock::default();
    let set = LimitSet::builder()
        .levels(["org", "user"])
        .limit(Limit::concurrency("org", 3).at_level("org"))
        .limit(Limit::concurrency("user", 1))
        .clock(time.clock())
        .build()
        .unwrap();
    let alice = set.try_acquire("acme/alice", ()).wait().unwrap().granted();
    let mut again = Polled::new(set.acquire("acme/alice", ()));
    assert!(again.poll().is_none());
    let bob = set.try_acquire("acme/bob", ()).wait().unwrap().granted();
    assert!(bob.is_some(), "alice waits for herself, not for acme");
    let carol = set.try_acquire("acme/carol", ()).wait().unwrap().granted();
    assert!(carol.is_some());
    let mut dave = Polled::new(set.acquire("acme/dave", ()));
    assert!(dave.poll().is_none());
    let refused = set
        .try_acquire("acme/erin", ())
        .wait()
        .unwrap()
        .refused()
        .unwrap();
    assert_eq!(refused.binding(), Some("org"));
    drop(alice);
    assert!(again.granted().is_some(), "she was first");
    assert!(dave.granted().is_some());
}

#[test]
fn raising_a_limit_serves_who_waits_and_lowering_it_below_an_ask_says_never() {
    let time = ManualClock::default();
    let set = slots(&time, 2);
    let _held = set
        .try_acquire("k", &[("slots", 2)])
        .wait()
        .unwrap()
        .granted();
    let mut waiter = Polled::new(set.acquire("k", &[("slots", 2)]));
    assert!(waiter.poll().is_none());
    set.put_limit(Limit::concurrency("slots", 4)).unwrap();
    let lease = waiter.granted();
    assert!(lease.is_some());
    let mut large = Polled::new(set.acquire("k", &[("slots", 4)]));
    assert!(large.poll().is_none());
    set.put_limit(Limit::concurrency("slots", 3)).unwrap();
    let never = large.poll().expect("an answer").unwrap().refused();
    assert!(never.is_some_and(|refusal| refusal.is_never()));
}

#[test]
fn blocked_threads_are_woken_by_a_release() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let lease = set.acquire("k", ()).wait().unwrap().granted();
    let (sender, receiver) = mpsc::sync_channel(1);
    let theirs = set.clone();
    let thread = thread::spawn(move || {
        let lease = theirs.acquire("k", ()).wait().unwrap().granted();
        sender.send(lease.is_some()).unwrap();
    });
    while set.statistics().waiting == 0 {
        thread::park_timeout(Duration::from_micros(200));
    }
    assert!(receiver.try_recv().is_err(), "it waits");
    drop(lease);
    assert!(receiver.recv_timeout(Duration::from_secs(60)).unwrap());
    thread.join().unwrap();
}

#[test]
fn a_blocked_thread_is_woken_by_the_timer_at_its_deadline() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let _lease = set.acquire("k", ()).wait().unwrap().granted();
    let request = Request::from(()).within(Duration::from_millis(30));
    assert!(
        set.acquire("k", request)
            .wait()
            .unwrap()
            .refused()
            .is_some()
    );
}

/// An alarm that rings before its waiter stands in line must not be lost: the
/// shortest waits are where that happens.
#[test]
fn the_shortest_deadlines_are_kept_too() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let _held = set
        .try_acquire("k", ())
        .wait()
        .unwrap()
        .granted()
        .expect("free");
    for nanos in (100..20_000).step_by(100) {
        let request = Request::default().within(Duration::from_nanos(nanos));
        assert!(
            set.acquire("k", request)
                .wait()
                .unwrap()
                .granted()
                .is_none()
        );
    }
}

#[test]
fn a_lease_renewed_to_a_shorter_end_lets_its_waiter_in_then() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let mut held = set
        .try_acquire("k", ())
        .wait()
        .unwrap()
        .granted()
        .expect("free");
    let mut waiting = Polled::new(set.acquire("k", ()));
    assert!(waiting.poll().is_none());
    held.renew(Duration::from_millis(100)).wait().unwrap();
    time.advance(Duration::from_millis(99));
    assert!(waiting.granted().is_none());
    time.advance(Duration::from_millis(1));
    assert!(waiting.woken() && waiting.granted().is_some());
}

/// What a dead holder used is refunded when its lease expires: nobody sleeps
/// through that.
#[test]
fn a_refund_at_expiry_wakes_who_waits_for_it() {
    let time = ManualClock::default();
    let day = Duration::from_secs(86_400);
    let limit = Limit::rate("tokens", 10, day).on_failure(tidegate::OnFailure::Refund);
    let set = LimitSet::builder().limit(limit).clock(time.clock());
    let set = set.build().unwrap();
    let request = Request::from(10).ttl(Duration::from_secs(5));
    // Its holder dies: nobody drops it.
    let _lost = std::mem::ManuallyDrop::new(set.try_acquire("k", request).wait().unwrap());
    let mut waiting = Polled::new(set.acquire("k", 10));
    assert!(waiting.poll().is_none());
    time.advance(Duration::from_secs(5));
    assert!(waiting.woken() && waiting.granted().is_some());
}

/// Peers say "in a moment" to whoever would fit but for the queue, and so make
/// it poll.
#[test]
fn who_stands_behind_others_is_told_when_their_turn_comes() {
    let time = ManualClock::default();
    let set = LimitSet::builder().limit(Limit::rate("r", 10, Duration::from_secs(10)));
    let set = set.clock(time.clock()).build().unwrap();
    assert!(set.check("k", 8).wait().unwrap().admitted());
    let mut large = Polled::new(set.acquire("k", 9));
    assert!(large.poll().is_none());
    let refusal = set.check("k", 1).wait().unwrap();
    let turn = time.clock().now() + tidegate::Span::from_secs(7);
    assert_eq!(refusal.not_until(), Some(turn));
}

#[test]
fn an_ask_that_waits_is_counted_once() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let held = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waiting = Polled::new(set.acquire("k", ()));
    assert!(waiting.poll().is_none());
    drop(held);
    assert!(waiting.granted().is_some());
    let counted = set.statistics();
    assert_eq!((counted.admitted, counted.refused), (2, 0));
    assert_eq!((counted.waited, counted.waiting), (1, 0));
}

#[test]
fn a_try_takes_nobodys_place_in_a_bounded_queue() {
    let time = ManualClock::default();
    let builder = LimitSet::builder().limit(Limit::concurrency("slots", 1));
    let set = builder.max_waiting(1).clock(time.clock()).build().unwrap();
    let _held = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waiting = Polled::new(set.acquire("k", ()));
    assert!(waiting.poll().is_none());
    assert!(set.try_acquire("k", ()).wait().unwrap().granted().is_none());
    assert_eq!(set.statistics().waiting, 1);
}

/// Its place used to be computed beyond the beginning of time.
#[test]
fn the_most_urgent_waiter_is_served_at_the_beginning_of_time() {
    let time = ManualClock::starting_at(Timestamp::MIN);
    let set = slots(&time, 1);
    let lease = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut urgent = Polled::new(set.acquire("k", Request::from(()).priority(u8::MAX)));
    assert!(urgent.poll().is_none());
    drop(lease);
    assert!(urgent.granted().is_some());
}

/// On a real clock, which a busy machine runs ahead of: only who would forget a
/// deadline is as late as this. By how much it is missed on a quiet machine is
/// the bench's to say.
#[test]
fn an_ask_with_a_deadline_is_answered_at_it_and_not_before() {
    let set = LimitSet::new([Limit::concurrency("slots", 1)]).unwrap();
    let _lease = set.acquire("k", ()).wait().unwrap().granted();
    for _ in 0..50 {
        let late = late(&set, Duration::from_millis(4));
        assert!(late < Duration::from_secs(30), "{late:?}");
    }
}

/// How long after its deadline a request is refused; never before it.
#[expect(
    clippy::disallowed_methods,
    reason = "the promise is about time that really passes"
)]
fn late(set: &LimitSet, longest: Duration) -> Duration {
    let asked = Instant::now();
    let answer = set
        .acquire("k", Request::from(()).within(longest))
        .wait()
        .unwrap();
    let waited = asked.elapsed();
    assert!(answer.refused().is_some());
    // Time is counted in whole microseconds.
    assert!(waited + Duration::from_micros(1) >= longest, "{waited:?}");
    waited.saturating_sub(longest)
}

/// It was told to nobody, and its limits had changed since: who took it back asked by the
/// older ones, and it stayed held until it expired.
#[test]
fn what_a_request_was_granted_comes_back_though_the_limits_have_changed_since() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let taken = || set.try_acquire("k", ()).wait().unwrap().granted();
    let held = taken().expect("it is free");
    let mut waiter = Polled::new(set.acquire("k", ()));
    assert!(waiter.poll().is_none());
    drop(held);
    assert!(waiter.woken(), "it was granted");
    assert!(taken().is_none());
    let calls = Limit::calls("calls", 9, Duration::from_secs(1));
    set.put_limit(calls).unwrap();
    drop(waiter);
    assert!(taken().is_some(), "nobody holds it");
}

/// It waited behind others, to be told at the end of its patience.
#[test]
fn a_request_that_never_fits_is_told_at_once_behind_others_that_wait() {
    let time = ManualClock::default();
    let set = slots(&time, 2);
    let held = set.try_acquire("k", &[("slots", 2)]).wait().unwrap();
    let _held = held.granted().expect("they are free");
    let mut waiter = Polled::new(set.acquire("k", &[("slots", 1)]));
    assert!(waiter.poll().is_none());
    for within in [Duration::from_secs(2), Duration::MAX] {
        let named = [("slots", 3)];
        let request = Request::named(&named).within(within);
        let mut never = Polled::new(set.acquire("k", request));
        let refused = never.poll().expect("at once").unwrap().refused();
        assert!(refused.is_some_and(|refusal| refusal.is_never()));
    }
    assert_eq!(set.statistics().waiting, 1);
    assert_eq!(set.statistics().timed_out, 0);
}

#[test]
fn the_end_of_a_default_wait_is_a_timeout() {
    let time = ManualClock::default();
    let set = slots(&time, 1);
    let held = set.try_acquire("k", ()).wait().unwrap().granted();
    let mut waiter = Polled::new(set.acquire("k", ()));
    assert!(held.is_some() && waiter.poll().is_none());
    time.advance(tidegate::DEFAULT_WAIT + Duration::from_secs(1));
    let refused = waiter.poll().expect("at its end").unwrap().refused();
    assert!(refused.is_some());
    assert_eq!(set.statistics().timed_out, 1);
}

/// It counted as one that waits, and met a full queue.
#[test]
fn a_sibling_that_has_its_turn_at_once_does_not_wait() {
    let time = ManualClock::default();
    let set = LimitSet::builder()
        .levels(["org", "user"])
        .limit(Limit::concurrency("slots", 1).at_level("user"))
        .max_waiting(1)
        .clock(time.clock())
        .build()
        .unwrap();
    let held = set.try_acquire("acme/a", ()).wait().unwrap().granted();
    let mut waiter = Polled::new(set.acquire("acme/a", ()));
    assert!(held.is_some() && waiter.poll().is_none());
    let sibling = set.acquire("acme/b", ()).now_or_never().expect("at once");
    assert!(sibling.expect("its queue is not full").granted().is_some());
    assert_eq!(set.statistics().waited, 0);
}
