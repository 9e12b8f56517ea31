//! A future that goes on by itself: when it is woken, the timer's thread polls it. Nobody who
//! goes away takes it along.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use tidegate_store::core::Timestamp;
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicU8, Ordering};
use tidegate_store::{Timer, TimerHandler};

const IDLE: u8 = 0;
/// The timer is to poll it.
const DUE: u8 = 1;
const POLLED: u8 = 2;
/// It is polled, and to be polled once more.
const WOKEN: u8 = 3;
const OVER: u8 = 4;

/// So often at most it is polled by one thread at a time, if it is woken meanwhile: what is polled
/// for a task of tokio's whose budget is spent is woken each time, and never ready there.
const MOST_AT_A_TIME: u8 = 8;

struct Task {
    stage: AtomicU8,
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    timer: Arc<dyn Timer>,
    /// Itself, while it is due: the timer does not keep it.
    due: Mutex<Option<Arc<Self>>>,
}

/// Runs `future` on this thread until it waits for something, and from then on by `timer`. It
/// must not block.
pub(crate) fn run(timer: &Arc<dyn Timer>, future: impl Future<Output = ()> + Send + 'static) {
    let task = Arc::new(Task {
        stage: AtomicU8::new(POLLED),
        future: Mutex::new(Some(Box::pin(future))),
        timer: Arc::clone(timer),
        due: Mutex::new(None),
    });
    task.poll();
}

impl Task {
    /// Polls it, as the only one who does.
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        for _ in 0..MOST_AT_A_TIME {
            let mut future = self.future.lock();
            let polled = match future.as_mut() {
                Some(future) => future.as_mut().poll(&mut Context::from_waker(&waker)),
                None => Poll::Ready(()),
            };
            if polled.is_ready() {
                let over = future.take();
                drop(future);
                self.stage.store(OVER, Ordering::Release);
                return drop(over);
            }
            drop(future);
            if self.goes(POLLED, IDLE) {
                return;
            }
            self.stage.store(POLLED, Ordering::Release);
        }
        self.stage.store(DUE, Ordering::Release);
        self.leave_to_timer();
    }

    /// The timer polls it next, as soon as it can.
    fn leave_to_timer(self: &Arc<Self>) {
        *self.due.lock() = Some(Arc::clone(self));
        let this: Weak<dyn TimerHandler> = Arc::<Self>::downgrade(self);
        self.timer.set(self.timer.now(), this);
    }

    fn goes(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.stage
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }
}

impl Wake for Task {
    /// Polls nothing: its caller may have a lock that the future needs.
    fn wake(self: Arc<Self>) {
        loop {
            if self.goes(IDLE, DUE) {
                return self.leave_to_timer();
            }
            match self.stage.load(Ordering::Acquire) {
                DUE | WOKEN | OVER => return,
                _ if self.goes(POLLED, WOKEN) => return,
                _ => {}
            }
        }
    }
}

impl TimerHandler for Task {
    fn fire(self: Arc<Self>, _: Timestamp) {
        drop(self.due.lock().take());
        if self.goes(DUE, POLLED) {
            self.poll();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use tidegate_store::Alarm;

    use super::*;

    /// Fires what is due when it is told to.
    #[derive(Default)]
    struct Hand(Mutex<Vec<Weak<dyn TimerHandler>>>);

    impl std::fmt::Debug for Hand {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Hand")
        }
    }

    impl Timer for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::MIN
        }

        fn set(&self, at: Timestamp, handler: Weak<dyn TimerHandler>) -> Alarm {
            self.0.lock().push(handler);
            Alarm { at, number: 0 }
        }

        fn unset(&self, _: Alarm) {}
    }

    impl Hand {
        /// How many were due.
        fn fire(&self) -> usize {
            let due = std::mem::take(&mut *self.0.lock());
            let count = due.len();
            for handler in due.into_iter().filter_map(|handler| handler.upgrade()) {
                handler.fire(Timestamp::MIN);
            }
            count
        }
    }

    fn hand() -> (Arc<Hand>, Arc<dyn Timer>) {
        let hand = Arc::<Hand>::default();
        let timer = Arc::clone(&hand) as Arc<dyn Timer>;
        (hand, timer)
    }

    type Waiting = Arc<Mutex<Option<Waker>>>;

    /// Is woken so often while it is polled, then waits.
    struct Often(u32, Arc<AtomicU32>, Waiting);

    impl Future for Often {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.1.fetch_add(1, Ordering::Relaxed);
            if self.0 > 0 {
                self.0 -= 1;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.2.lock().replace(context.waker().clone()) {
                None => Poll::Pending,
                Some(_) => Poll::Ready(()),
            }
        }
    }

    #[test]
    fn the_timer_polls_a_task_that_was_woken_and_one_that_wakes_itself_is_polled_again() {
        let (hand, timer) = hand();
        let (polls, waits) = (Arc::new(AtomicU32::new(0)), Waiting::default());
        run(&timer, Often(3, Arc::clone(&polls), Arc::clone(&waits)));
        assert_eq!(polls.load(Ordering::Relaxed), 4);
        let waker = waits.lock().clone().expect("it waits");
        for _ in 0..3 {
            waker.wake_by_ref();
        }
        assert_eq!(polls.load(Ordering::Relaxed), 4);
        assert_eq!(hand.fire(), 1);
        assert_eq!(polls.load(Ordering::Relaxed), 5);
        // It is over: nobody polls it again.
        waker.wake();
        assert_eq!((hand.fire(), polls.load(Ordering::Relaxed)), (0, 5));
    }

    /// A server that was told to stop gave hundreds of grants back within one poll of a task of
    /// tokio's, whose budget of answers was spent by then: it polled one of them for ever.
    #[test]
    fn a_task_that_wakes_itself_for_ever_is_left_to_the_timer() {
        let (hand, timer) = hand();
        let (polls, waits) = (Arc::new(AtomicU32::new(0)), Waiting::default());
        run(&timer, Often(u32::MAX, Arc::clone(&polls), waits));
        let most = u32::from(MOST_AT_A_TIME);
        assert_eq!(polls.load(Ordering::Relaxed), most);
        assert_eq!((hand.fire(), polls.load(Ordering::Relaxed)), (1, 2 * most));
    }

    /// A connection that is made anew wakes its commands while it holds the lock by which the next
    /// command asks for it: the thread that polled the next command there waited for itself.
    #[test]
    fn a_task_may_be_woken_by_one_who_has_a_lock_that_it_needs() {
        let (hand, timer) = hand();
        let (polls, waits) = (Arc::new(AtomicU32::new(0)), Waiting::default());
        run(&timer, Often(0, Arc::clone(&polls), Arc::clone(&waits)));
        let held = waits.lock();
        held.as_ref().expect("it waits").wake_by_ref();
        drop(held);
        assert_eq!((hand.fire(), polls.load(Ordering::Relaxed)), (1, 2));
    }

    #[test]
    fn a_task_that_is_due_is_there_though_nobody_else_keeps_it() {
        let (hand, timer) = hand();
        let (polls, waits) = (Arc::new(AtomicU32::new(0)), Waiting::default());
        run(&timer, Often(0, Arc::clone(&polls), Arc::clone(&waits)));
        waits.lock().take().expect("it waits").wake();
        assert_eq!((hand.fire(), polls.load(Ordering::Relaxed)), (1, 2));
    }

    #[test]
    fn threads_that_wake_a_task_at_once_lose_none_of_it() {
        for _ in 0..200 {
            let (hand, timer) = hand();
            let (polls, waits) = (Arc::new(AtomicU32::new(0)), Waiting::default());
            run(&timer, Often(0, Arc::clone(&polls), Arc::clone(&waits)));
            let waker = waits.lock().clone().expect("it waits");
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        waker.wake_by_ref();
                        hand.fire();
                    });
                }
            });
            assert_eq!(polls.load(Ordering::Relaxed), 2);
        }
    }
}
