//! A future that goes on by itself: who wakes it polls it. No thread and no executor is
//! needed, and nobody who goes away takes it along.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const POLLED: u8 = 1;
/// It is polled, and to be polled once more.
const WOKEN: u8 = 2;
const OVER: u8 = 3;

struct Task {
    stage: AtomicU8,
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
}

/// Runs `future` on this thread until it waits for something, and from then on where that is
/// told. It must not block.
pub(crate) fn run(future: impl Future<Output = ()> + Send + 'static) {
    let task = Arc::new(Task {
        stage: AtomicU8::new(POLLED),
        future: Mutex::new(Some(Box::pin(future))),
    });
    task.poll();
}

impl Task {
    /// Polls it, as the only one who does.
    fn poll(self: &Arc<Self>) {
        let waker = Waker::from(Arc::clone(self));
        loop {
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
    }

    fn goes(&self, from: u8, to: u8) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.stage
            .compare_exchange(from, to, success, failure)
            .is_ok()
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        loop {
            if self.goes(IDLE, POLLED) {
                return self.poll();
            }
            if self.goes(POLLED, WOKEN) || self.stage.load(Ordering::Acquire) >= WOKEN {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// Is woken so often while it is polled, then waits.
    struct Often(u32, Arc<AtomicU32>, Arc<Mutex<Option<Waker>>>);

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
    fn who_wakes_a_task_polls_it_and_one_that_wakes_itself_is_polled_again() {
        let (polls, waits) = (Arc::new(AtomicU32::new(0)), Arc::default());
        run(Often(3, Arc::clone(&polls), Arc::clone(&waits)));
        assert_eq!(polls.load(Ordering::Relaxed), 4);
        let waker = waits.lock().clone().expect("it waits");
        waker.wake_by_ref();
        assert_eq!(polls.load(Ordering::Relaxed), 5);
        // It is over: nobody polls it again.
        waker.wake();
        assert_eq!(polls.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn threads_that_wake_a_task_at_once_lose_none_of_it() {
        for _ in 0..200 {
            let (polls, waits) = (
                Arc::new(AtomicU32::new(0)),
                Arc::<Mutex<Option<Waker>>>::default(),
            );
            run(Often(0, Arc::clone(&polls), Arc::clone(&waits)));
            let waker = waits.lock().clone().expect("it waits");
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| waker.wake_by_ref());
                }
            });
            assert_eq!(polls.load(Ordering::Relaxed), 2);
        }
    }
}
