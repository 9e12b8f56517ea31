//! Those who wait before limits.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tidegate::fair::{Bounds, FairCharge, FairError, FairQueue, FairRequest};
use tidegate::{Admission, ErrorKind, Lease, Limit, LimitPool, LimitSet, ManualClock};

const HOUR: Duration = Duration::from_secs(3_600);

type Answer = Result<Admission<(Lease, FairCharge)>, FairError>;

/// Counts how often it is woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A request, polled by hand.
struct Asked<'a> {
    future: Pin<Box<dyn Future<Output = Answer> + 'a>>,
    bell: Arc<Bell>,
}

impl<'a> Asked<'a> {
    fn new(future: impl Future<Output = Answer> + 'a) -> Self {
        let (future, bell) = (Box::pin(future), Arc::default());
        Self { future, bell }
    }

    fn waiting(future: impl Future<Output = Answer> + 'a) -> Self {
        let mut asked = Self::new(future);
        assert!(asked.poll().is_none(), "it was to wait");
        asked
    }

    fn poll(&mut self) -> Option<Answer> {
        let waker = Waker::from(Arc::clone(&self.bell));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    fn woken(&self) -> usize {
        self.bell.0.swap(0, Ordering::SeqCst)
    }

    fn granted(&mut self) -> Option<(Lease, FairCharge)> {
        self.poll()?.expect("no error").granted()
    }
}

fn set(time: &ManualClock, limits: impl IntoIterator<Item = Limit>) -> LimitSet {
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    set.build().expect("sensible limits")
}

fn queue(time: &ManualClock) -> FairQueue {
    FairQueue::builder()
        .clock(time.clock())
        .build()
        .expect("the usual weights")
}

fn slots(count: u64) -> [Limit; 1] {
    [Limit::concurrency("slots", count)]
}

/// Polls those that were woken until nobody is, and answers who was granted.
fn granted(asked: &mut [(&'static str, Asked<'_>)]) -> Vec<(&'static str, (Lease, FairCharge))> {
    let mut granted = Vec::new();
    let mut goes_on = true;
    while std::mem::take(&mut goes_on) {
        for (flow, asked) in asked.iter_mut() {
            if asked.woken() > 0 {
                goes_on = true;
                granted.extend(asked.granted().map(|held| (*flow, held)));
            }
        }
    }
    granted
}

#[test]
fn a_flood_of_one_tenant_does_not_hold_up_another() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let first = queue
        .acquire(&set, FairRequest::of("flood"), "k", ())
        .wait()
        .unwrap();
    let mut held = first.granted().expect("it is free");
    let flows = std::iter::repeat_n("flood", 50).chain(["small", "small"]);
    let mut asked: Vec<_> = flows
        .map(|flow| {
            (
                flow,
                Asked::waiting(queue.acquire(&set, FairRequest::of(flow), "k", ())),
            )
        })
        .collect();
    let mut order = Vec::new();
    for _ in 0..6 {
        drop(held);
        let mut next = granted(&mut asked);
        assert_eq!(next.len(), 1, "exactly those that the limits admit start");
        let (flow, next) = next.remove(0);
        order.push(flow);
        held = next;
    }
    assert_eq!(
        order,
        ["flood", "small", "flood", "small", "flood", "flood"]
    );
    assert_eq!(
        set.statistics().waiting,
        1,
        "the first alone waits at the limits"
    );
}

#[test]
fn a_release_wakes_the_one_that_starts_and_the_one_that_is_next() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let held = queue
        .acquire(&set, FairRequest::of("a"), "k", ())
        .wait()
        .unwrap()
        .granted();
    let ask = |_| Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let mut asked: Vec<Asked<'_>> = (0..100).map(ask).collect();
    drop(held);
    let woken = |asked: &[Asked<'_>]| asked.iter().map(Asked::woken).collect::<Vec<_>>();
    let first = woken(&asked);
    assert_eq!((first[0], first.iter().sum::<usize>()), (1, 1));
    let held = asked[0].granted();
    let next = woken(&asked);
    assert_eq!((next[1], next.iter().sum::<usize>()), (1, 1));
    drop(held);
}

/// Given up in the queue, when called, or at the limits: the next one comes all the same, and
/// in the end nothing is held.
#[test]
fn whoever_goes_away_takes_nobodys_turn() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let held = queue
        .acquire(&set, FairRequest::of("a"), "k", ())
        .wait()
        .unwrap()
        .granted();
    let ask = || Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let (at_limits, called, in_queue, mut last) = (ask(), ask(), ask(), ask());
    drop(in_queue);
    assert_eq!(queue.waiting(), 2);
    drop(at_limits);
    assert_eq!(called.woken(), 1, "it is its turn");
    drop(called);
    assert_eq!(last.woken(), 1, "it is its turn");
    assert!(last.granted().is_none(), "the slot is taken");
    drop(held);
    assert_eq!(last.woken(), 1);
    let last = last.granted();
    assert!(last.is_some());
    drop(last);
    assert_eq!((queue.waiting(), queue.flows()), (0, 0));
    let slots = set.peek("k", ()).wait().unwrap().standing("slots").unwrap();
    assert_eq!(slots.remaining, 1);
}

/// A granted lease whose caller went away before it was told comes back, and its turn with it.
#[test]
fn what_was_granted_to_nobody_comes_back() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let held = queue
        .acquire(&set, FairRequest::of("a"), "k", ())
        .wait()
        .unwrap()
        .granted();
    let first = Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let mut second = Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    drop(held);
    assert_eq!(first.woken(), 1);
    drop(first);
    assert_eq!(second.woken(), 1);
    assert!(second.granted().is_some());
}

/// Defect of others: an oversize request blocks its queue for ever.
#[test]
fn what_never_fits_is_refused_at_once_and_is_in_nobodys_way() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(2)), queue(&time));
    let all = queue
        .acquire(&set, FairRequest::of("a"), "k", &[("slots", 2)])
        .wait()
        .unwrap();
    let held = all.granted();
    let mut waits = Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let mut behind = Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let mut never = Asked::new(queue.acquire(&set, FairRequest::of("a"), "k", &[("slots", 3)]));
    let answer = never
        .poll()
        .expect("it is answered at once")
        .expect("no error");
    assert!(answer.refused().is_some_and(|decision| decision.is_never()));
    let mut wrong = Asked::new(queue.acquire(&set, FairRequest::of("a"), "k", &[("slot", 1)]));
    let error = wrong.poll().expect("it is answered at once").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(queue.waiting(), 1);
    drop(held);
    assert!(waits.granted().is_some());
    assert!(behind.granted().is_some());
    let never = queue
        .acquire(&set, FairRequest::of("a"), "k", &[("slots", 3)])
        .wait()
        .unwrap();
    assert!(
        never.refused().is_some_and(|decision| decision.is_never()),
        "nor when nobody waits"
    );
}

#[test]
fn a_deadline_ends_the_wait_in_the_queue_and_at_the_limits() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let held = queue
        .acquire(&set, FairRequest::of("a"), "k", ())
        .wait()
        .unwrap()
        .granted();
    let entry = |seconds| FairRequest::of("a").within(Duration::from_secs(seconds));
    let mut at_limits = Asked::waiting(queue.acquire(&set, entry(10), "k", ()));
    let mut in_queue = Asked::waiting(queue.acquire(&set, entry(5), "k", ()));
    let mut last = Asked::waiting(queue.acquire(&set, entry(20), "k", ()));
    time.advance(Duration::from_secs(5));
    assert_eq!(in_queue.woken(), 1);
    let error = in_queue.poll().expect("its time is over").unwrap_err();
    assert_eq!(error, FairError::WaitedTooLong(Duration::from_secs(5)));
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(queue.waiting(), 1);
    time.advance(Duration::from_secs(5));
    assert_eq!(at_limits.woken(), 1);
    let refused = at_limits
        .poll()
        .expect("its time is over")
        .expect("no error");
    assert!(refused.refused().is_some());
    assert_eq!(last.woken(), 1, "it is its turn");
    assert!(last.granted().is_none());
    drop(held);
    assert!(last.granted().is_some());
}

#[test]
fn one_that_does_not_wait_is_refused_behind_others_and_served_alone() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let at_once = FairRequest::of("a").within(Duration::ZERO);
    let held = queue
        .acquire(&set, at_once, "k", ())
        .wait()
        .unwrap()
        .granted();
    assert!(held.is_some());
    let refused = queue.acquire(&set, at_once, "k", ()).wait().unwrap();
    assert!(refused.refused().is_some());
    let _waits = Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let mut behind = Asked::new(queue.acquire(&set, at_once, "k", ()));
    let error = behind.poll().expect("it does not wait").unwrap_err();
    assert_eq!(error, FairError::WaitedTooLong(Duration::ZERO));
}

/// It was late for its own turn by the clock's next microsecond.
#[test]
fn one_that_does_not_wait_has_the_turn_that_is_free_by_any_clock() {
    let queue = FairQueue::new();
    for _ in 0..1_000 {
        let turn = queue
            .dispatch(FairRequest::of("a").within(Duration::ZERO))
            .wait();
        turn.expect("nobody else is there").started().settle(1);
    }
}

/// A tenant that has used up a limit of its own waits for that beside the queue, and others
/// have their turns.
#[test]
fn a_limit_of_a_tenants_own_holds_up_nobody_else() {
    let time = ManualClock::default();
    let limits = [
        Limit::concurrency("slots", 1).at_level("account"),
        Limit::rate("own", 10, HOUR).at_level("tenant"),
    ];
    let levels = LimitSet::builder()
        .levels(["account", "tenant"])
        .limits(limits);
    let (set, queue) = (levels.clock(time.clock()).build().unwrap(), queue(&time));
    let ask = |flow: &'static str, key: &'static str, own| {
        queue.acquire(&set, FairRequest::of(flow).within(2 * HOUR), key, own)
    };
    let held = ask("a", "all/a", &[("own", 10)]).wait().unwrap().granted();
    let mut own = Asked::waiting(ask("a", "all/a", &[("own", 10)]));
    let mut behind = Asked::waiting(ask("a", "all/a", &[("own", 1)]));
    let mut other = Asked::waiting(ask("b", "all/b", &[("own", 1)]));
    drop(held);
    assert!(own.granted().is_none());
    let held = other.granted();
    assert!(held.is_some(), "another tenant has room");
    assert!(
        behind.granted().is_none(),
        "a tenant does not overtake itself"
    );
    drop(held);
    time.advance(HOUR);
    let held = own.granted();
    assert!(held.is_some());
    drop(held);
    time.advance(HOUR);
    assert!(behind.granted().is_some());
    assert_eq!((queue.waiting(), queue.flows()), (0, 0));
}

/// A tenant's limit was used up when a request of its own stood at the limits already: nobody looked
/// again, and all others waited until that limit had room.
#[test]
fn a_limit_of_a_tenants_own_that_is_used_up_meanwhile_holds_up_nobody_else() {
    let time = ManualClock::default();
    let limits = [
        Limit::concurrency("slots", 1).at_level("account"),
        Limit::rate("own", 10, HOUR).at_level("tenant"),
    ];
    let levels = LimitSet::builder()
        .levels(["account", "tenant"])
        .limits(limits);
    let (set, queue) = (levels.clock(time.clock()).build().unwrap(), queue(&time));
    let ask = |flow: &'static str, key: &'static str| {
        let entry = FairRequest::of(flow).within(2 * HOUR);
        queue.acquire(&set, entry, key, &[("own", 1)])
    };
    let held = ask("b", "all/b").wait().unwrap().granted();
    let mut at_limits = Asked::waiting(ask("a", "all/a"));
    let mut other = Asked::waiting(ask("b", "all/b"));
    // A call that runs has used more than it had said, say.
    let more = set.debit("all/a", &[("own", 10)]).wait();
    assert!(more.is_ok());
    drop(held);
    assert!(at_limits.granted().is_none());
    time.advance(Duration::from_millis(100));
    assert!(at_limits.granted().is_none());
    let held = other.granted();
    assert!(held.is_some(), "another tenant has room");
    drop(held);
    time.advance(HOUR);
    assert!(at_limits.granted().is_some(), "it has waited beside them");
    assert_eq!((queue.waiting(), queue.flows()), (0, 0));
}

#[test]
fn it_stands_before_a_pool_as_before_a_set() {
    let time = ManualClock::default();
    let mut pool = LimitPool::builder();
    for name in ["eu", "us"] {
        pool = pool.member(name, set(&time, slots(1)));
    }
    let (pool, queue) = (pool.build().unwrap(), queue(&time));
    let ask = |flow| queue.acquire(&pool, FairRequest::of(flow), "k", ());
    let held = [0, 1].map(|_| ask("flood").wait().unwrap().granted().expect("one each"));
    let mut asked = ["flood", "flood", "small"].map(|flow| (flow, Asked::waiting(ask(flow))));
    drop(held);
    let order: Vec<&str> = granted(&mut asked)
        .into_iter()
        .map(|(flow, _)| flow)
        .collect();
    assert_eq!(order, ["flood", "small"]);
}

#[test]
fn a_bound_is_told_to_the_one_that_meets_it() {
    let time = ManualClock::default();
    let bounds = Bounds {
        waiting: 1,
        ..Bounds::default()
    };
    let queue = FairQueue::builder()
        .clock(time.clock())
        .bounds(bounds)
        .build()
        .unwrap();
    let set = set(&time, slots(1));
    let ask = || queue.acquire(&set, FairRequest::of("a"), "k", ());
    let held = ask().wait().unwrap().granted();
    let mut at_limits = Asked::waiting(ask());
    let mut in_queue = Asked::waiting(ask());
    let error = ask().wait().unwrap_err();
    assert_eq!(error, FairError::QueueFull(1));
    assert_eq!(error.kind(), ErrorKind::Busy);
    drop(held);
    let held = at_limits.granted();
    assert!(held.is_some());
    drop(held);
    assert!(
        in_queue.granted().is_some(),
        "the others have noticed nothing"
    );
}

#[test]
fn everyone_who_waits_is_sent_away_when_a_server_closes() {
    let time = ManualClock::default();
    let (set, queue) = (set(&time, slots(1)), queue(&time));
    let held = queue
        .acquire(&set, FairRequest::of("a"), "k", ())
        .wait()
        .unwrap()
        .granted();
    let _at_limits = Asked::waiting(queue.acquire(&set, FairRequest::of("a"), "k", ()));
    let mut in_queue = Asked::waiting(queue.acquire(&set, FairRequest::of("b"), "k", ()));
    queue.stop_waiting();
    assert_eq!(in_queue.woken(), 1);
    assert_eq!(
        in_queue.poll().expect("it is told").unwrap_err(),
        FairError::Stopped
    );
    drop(held);
}

/// Threads wait as tasks do: no more than the slots run at once, each gets its turns, and
/// nothing is left.
#[test]
fn threads_of_several_tenants_share_the_slots() {
    let set = LimitSet::new(slots(2)).unwrap();
    let (queue, running) = (FairQueue::new(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for tenant in ["a", "a", "a", "a", "b", "c"] {
            let (set, queue, running) = (&set, &queue, &running);
            scope.spawn(move || {
                for _ in 0..200 {
                    let entry = FairRequest::of(tenant).cost(3).within(Duration::MAX);
                    let got = queue.acquire(set, entry, "k", ()).wait().expect("no error");
                    let (lease, served) = got.granted().expect("it waits for ever");
                    assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
                    running.fetch_sub(1, Ordering::SeqCst);
                    drop(lease);
                    served.settle(5);
                }
            });
        }
    });
    assert_eq!((queue.waiting(), queue.flows()), (0, 0));
}

/// 10,000 requests of two tenants through real limits, ten to one in demand, equal in weight:
/// what they use is equal within 2 %, though nobody says the truth beforehand.
#[test]
fn ten_to_one_in_demand_is_one_to_one_before_a_set() {
    let time = ManualClock::default();
    let set = set(&time, slots(8));
    let queue = queue(&time);
    let (mut drawn, mut used) = (1_u64, [0_u64; 2]);
    let mut draw = |below: u64| {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (drawn >> 33) % below
    };
    // Each tenant has so many callers, who ask again as soon as they are answered.
    let rung = Arc::new(Mutex::new(VecDeque::new()));
    let ask = |caller: usize, estimate: u64| {
        let tenant = ["large", "small"][usize::from(caller >= 200)];
        Box::pin(queue.acquire(
            &set,
            FairRequest::of(tenant).cost(estimate).within(Duration::MAX),
            "k",
            (),
        ))
    };
    let mut estimates: Vec<u64> = (0..220).map(|_| 1 + draw(2_000)).collect();
    let mut callers: Vec<_> = (0..220)
        .map(|caller| ask(caller, estimates[caller]))
        .collect();
    rung.lock().unwrap().extend(0..220);
    let (mut running, mut served) = (VecDeque::new(), 0);
    while served < 10_000 {
        let Some(caller) = rung.lock().unwrap().pop_front() else {
            let (held, tenant, truth): ((Lease, FairCharge), usize, u64) =
                running.pop_front().expect("some run");
            drop(held.0);
            held.1.settle(truth);
            (used[tenant], served) = (used[tenant] + truth, served + 1);
            continue;
        };
        let waker = Waker::from(Arc::new(Rung(caller, Arc::clone(&rung))));
        if let Poll::Ready(answer) = callers[caller]
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
        {
            let held = answer
                .expect("no error")
                .granted()
                .expect("it waits for ever");
            let estimate = estimates[caller];
            let (tenant, truth) = match caller {
                0..200 => (0, estimate + draw(2 * estimate + 1)),
                _ => (1, draw(estimate + 1)),
            };
            running.push_back((held, tenant, truth));
            estimates[caller] = 1 + draw(2_000);
            callers[caller] = ask(caller, estimates[caller]);
            rung.lock().unwrap().push_back(caller);
        }
    }
    let apart = used[0].abs_diff(used[1]) as f64 / used[0].max(used[1]) as f64;
    println!("tokens: {used:?}, {:.2} % apart", apart * 100.0);
    assert!(apart < 0.02, "{used:?}");
}

/// Says which caller is to be polled.
struct Rung(usize, Arc<Mutex<VecDeque<usize>>>);

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push_back(self.0);
    }
}
