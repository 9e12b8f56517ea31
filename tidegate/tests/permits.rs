//! Semaphore and mutex: in order, cancel-safe, nothing lost.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tidegate::{AcquireError, Mutex, Semaphore};

fn is_ready<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    future
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

#[test]
fn permits_go_to_who_came_first_and_a_large_ask_is_not_overtaken() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire();
    let mut large = pin!(semaphore.acquire_many(2));
    assert!(!is_ready(large.as_mut()));
    assert!(semaphore.try_acquire().is_err(), "nobody overtakes");
    let mut small = pin!(semaphore.acquire());
    assert!(!is_ready(small.as_mut()));
    drop(held);
    assert!(is_ready(large.as_mut()));
    assert!(
        is_ready(small.as_mut()),
        "the large one was dropped when it was ready"
    );
    assert_eq!(semaphore.available_permits(), 2);
}

#[test]
fn a_dropped_future_gives_back_its_place_and_its_permit() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire();
    {
        let mut first = Box::pin(semaphore.acquire());
        assert!(!is_ready(first.as_mut()));
        let mut second = pin!(semaphore.acquire());
        assert!(!is_ready(second.as_mut()));
        drop(held);
        drop(first);
        assert!(is_ready(second.as_mut()));
    }
    assert_eq!(semaphore.available_permits(), 1);
    assert!(semaphore.try_acquire().is_ok());
}

#[test]
fn threads_share_permits_and_lose_none() {
    let semaphore = Arc::new(Semaphore::new(3));
    let held = Arc::new(AtomicUsize::new(0));
    let threads = (0..8).map(|_| {
        let (semaphore, held) = (Arc::clone(&semaphore), Arc::clone(&held));
        thread::spawn(move || {
            for _ in 0..500 {
                let permit = semaphore.acquire().wait();
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
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn a_mutex_lets_one_in_at_a_time() {
    let counter = Mutex::new(0_u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1_000).for_each(|_| *counter.lock().wait() += 1));
        }
    });
    assert_eq!(*counter.lock().wait(), 4_000);
    let guard = counter.lock().wait();
    assert!(counter.try_lock().is_none());
    drop(guard);
    assert!(counter.try_lock().is_some());
}

/// Peers let such a request wait for ever, and everyone behind it.
#[test]
fn more_permits_than_there_are_is_an_error_at_once() {
    let semaphore = Semaphore::new(2);
    let wrong = semaphore.acquire_many(5).wait().unwrap_err();
    let too_many = AcquireError::TooMany {
        requested: 5,
        permits: 2,
    };
    assert_eq!(wrong, too_many);
    assert_eq!(
        semaphore
            .try_acquire_many(usize::MAX)
            .unwrap_err()
            .to_string(),
        format!(
            "the semaphore has 2 permits and never grants {} at once",
            usize::MAX
        )
    );
    assert!(semaphore.acquire_many(2).wait().is_ok());
}

#[test]
fn a_permit_that_does_not_come_in_time_is_given_up() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().wait();
    let soon = Duration::from_millis(5);
    assert!(semaphore.acquire().wait_within(soon).is_none());
    drop(held);
    assert!(semaphore.acquire().wait_within(Duration::ZERO).is_some());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_lock_is_passed_on_by_a_holder_that_panicked() {
    let mutex = std::sync::Arc::new(Mutex::new(1));
    let theirs = std::sync::Arc::clone(&mutex);
    let holder = std::thread::spawn(move || {
        let _guard = theirs.lock().wait();
        panic!("the holder is gone");
    });
    assert!(holder.join().is_err());
    assert_eq!(
        mutex.lock().wait_within(Duration::from_secs(5)).as_deref(),
        Some(&1)
    );
}

#[test]
fn owned_permits_and_guards_move_into_other_threads() {
    let semaphore = Arc::new(Semaphore::new(2));
    let permit = Arc::clone(&semaphore).acquire_owned().wait().unwrap();
    let tried = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert_eq!(
        semaphore.try_acquire().unwrap_err(),
        AcquireError::NoPermits
    );
    thread::spawn(move || drop((permit, tried))).join().unwrap();
    assert_eq!(semaphore.available_permits(), 2);

    let mutex = Arc::new(Mutex::new(vec![1]));
    let mut guard = Arc::clone(&mutex).lock_owned().wait();
    guard.push(2);
    assert!(Arc::clone(&mutex).try_lock_owned().is_none());
    thread::spawn(move || {
        guard.push(3);
        drop(guard);
    })
    .join()
    .unwrap();
    assert_eq!(*mutex.lock().wait(), [1, 2, 3]);
}

#[test]
fn permits_that_are_added_go_to_whoever_waits() {
    let semaphore = Semaphore::new(0);
    let none = semaphore.acquire().wait().unwrap_err();
    assert!(matches!(none, AcquireError::TooMany { permits: 0, .. }));
    semaphore.add_permits(1);
    let held = semaphore.acquire().wait().unwrap();
    let mut next = pin!(semaphore.acquire());
    assert!(!is_ready(next.as_mut()));
    semaphore.add_permits(2);
    let mut last = pin!(semaphore.acquire_many(2));
    assert!(!is_ready(last.as_mut()), "nobody overtakes");
    assert!(is_ready(next.as_mut()));
    drop(held);
    assert!(is_ready(last.as_mut()));
    assert_eq!(semaphore.available_permits(), 3);
    semaphore.add_permits(usize::MAX);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
}

#[test]
fn a_closed_semaphore_tells_everyone_so_and_takes_back_what_is_held() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.acquire().wait().unwrap();
    let mut waits = pin!(semaphore.acquire());
    assert!(!is_ready(waits.as_mut()));
    semaphore.close();
    let told = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(
        told,
        std::task::Poll::Ready(Err(AcquireError::Closed))
    ));
    assert_eq!(semaphore.try_acquire().unwrap_err(), AcquireError::Closed);
    assert_eq!(
        semaphore.acquire().wait().unwrap_err(),
        AcquireError::Closed
    );
    assert!(semaphore.is_closed());
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
}
