//! Semaphore and mutex: in order, cancel-safe, nothing lost.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;

use tidegate::{Mutex, Semaphore};

fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

#[test]
fn permits_go_to_who_came_first_and_a_large_ask_is_not_overtaken() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire();
    let mut large = pin!(semaphore.acquire_many_async(2));
    assert!(!is_ready(large.as_mut()));
    assert!(semaphore.try_acquire().is_none(), "nobody overtakes");
    let mut small = pin!(semaphore.acquire_async());
    assert!(!is_ready(small.as_mut()));
    drop(held);
    assert!(is_ready(large.as_mut()));
    assert!(
        is_ready(small.as_mut()),
        "the large one was dropped when it was ready"
    );
    assert_eq!(semaphore.available(), 2);
}

#[test]
fn a_dropped_future_gives_back_its_place_and_its_permit() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire();
    {
        let mut first = Box::pin(semaphore.acquire_async());
        assert!(!is_ready(first.as_mut()));
        let mut second = pin!(semaphore.acquire_async());
        assert!(!is_ready(second.as_mut()));
        drop(held);
        drop(first);
        assert!(is_ready(second.as_mut()));
    }
    assert_eq!(semaphore.available(), 1);
    assert!(semaphore.try_acquire().is_some());
}

#[test]
fn threads_share_permits_and_lose_none() {
    let semaphore = Arc::new(Semaphore::new(3));
    let held = Arc::new(AtomicUsize::new(0));
    let threads = (0..8).map(|_| {
        let (semaphore, held) = (Arc::clone(&semaphore), Arc::clone(&held));
        thread::spawn(move || {
            for _ in 0..500 {
                let permit = semaphore.acquire();
                assert!(held.fetch_add(1, Ordering::SeqCst) < 3);
                held.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(semaphore.available(), 3);
}

#[test]
fn a_mutex_lets_one_in_at_a_time() {
    let counter = Mutex::new(0_u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| *counter.lock() += 1));
        }
    });
    assert_eq!(*counter.lock(), 4_000);
    let guard = counter.lock();
    assert!(counter.try_lock().is_none());
    drop(guard);
    assert!(counter.try_lock().is_some());
}
