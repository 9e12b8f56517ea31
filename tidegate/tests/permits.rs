//! Semaphore and mutex: in order, cancel-safe, nothing lost.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

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

/// Peers let such an ask wait for ever, and everyone behind it.
#[test]
fn more_permits_than_there_are_is_an_error_at_once() {
    let semaphore = Semaphore::new(2);
    let wrong = semaphore.acquire_many(5).unwrap_err();
    assert_eq!((wrong.asked, wrong.permits), (5, 2));
    assert!(semaphore.acquire_many(2).is_ok());
}

#[test]
fn a_permit_that_does_not_come_in_time_is_given_up() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire();
    assert!(semaphore.acquire_within(Duration::from_millis(5)).is_none());
    drop(held);
    assert!(semaphore.acquire_within(Duration::ZERO).is_some());
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn a_lock_is_passed_on_by_a_holder_that_panicked() {
    let mutex = std::sync::Arc::new(Mutex::new(1));
    let theirs = std::sync::Arc::clone(&mutex);
    let holder = std::thread::spawn(move || {
        let _guard = theirs.lock();
        panic!("the holder is gone");
    });
    assert!(holder.join().is_err());
    assert_eq!(
        mutex.lock_within(Duration::from_secs(5)).as_deref(),
        Some(&1)
    );
}
