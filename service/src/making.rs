//! Sets that come from a store beyond a network, made beside the threads of requests.
//!
//! To open one asks the store, which blocks for as long as that takes. It is done on a
//! thread for such work, once for all who ask for the same at once, and of so many at a
//! time; they wait for it as they do for any answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::error::{Crowded, ServiceError};
use tidegate::Error;

/// So many are made at once, each on a thread of its own.
const MOST: usize = 32;

/// What is being made, by name, whoever still waits for it.
pub(super) struct Making<N: Eq + Hash, T>(Arc<Mutex<UnderWay<N, T>>>);

type UnderWay<N, T> = HashMap<N, watch::Receiver<Made<T>>, foldhash::fast::RandomState>;

/// What it came to, once it is known.
type Made<T> = Option<Result<T, Error>>;

/// A thread makes it.
struct Place<N: Eq + Hash, T> {
    under_way: Arc<Mutex<UnderWay<N, T>>>,
    name: N,
}

impl<N: Eq + Hash, T> Default for Making<N, T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<N, T> Making<N, T>
where
    N: Copy + Eq + Hash + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// What `make` makes, on a thread of `runtime` for work that blocks. A thread that has
    /// begun goes on to its end, and is one of those at once until then.
    ///
    /// # Errors
    /// Those of `make`, for all who wait for it; [`ServiceError::Busy`]: so many others are
    /// being made.
    pub(super) async fn make(
        &self,
        runtime: &Handle,
        name: N,
        make: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let mut made = self.begin(runtime, name, make)?;
        let told = made.wait_for(Option::is_some).await;
        // A thread that says nothing has panicked, or was never begun.
        let made = told.ok().and_then(|made| made.clone());
        Ok(made.unwrap_or(Err(Error::Stopped))?)
    }

    /// Where it is said what `name` came to, which is made now unless it is already.
    fn begin(
        &self,
        runtime: &Handle,
        name: N,
        make: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<watch::Receiver<Made<T>>, ServiceError> {
        let mut under_way = lock(&self.0);
        if let Some(made) = under_way.get(&name) {
            return Ok(made.clone());
        }
        if under_way.len() >= MOST {
            return Err(ServiceError::Busy(Crowded::Opening));
        }
        let (told, made) = watch::channel(None);
        under_way.insert(name, made.clone());
        drop(under_way);
        let place = Place {
            under_way: Arc::clone(&self.0),
            name,
        };
        runtime.spawn_blocking(move || {
            let made = make();
            // Whoever comes later asks anew.
            drop(place);
            told.send_replace(Some(made));
        });
        Ok(made)
    }
}

impl<N: Eq + Hash, T> Drop for Place<N, T> {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::task::yield_now;

    use super::*;

    /// Many asked for a new rate while the store stood still, and held every thread.
    #[test]
    fn what_is_made_holds_up_no_thread_of_others_and_is_made_once() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (making, made) = (Making::default(), Arc::new(AtomicUsize::new(0)));
        let (go_on, waits) = mpsc::sync_channel::<()>(1);
        let waits = Arc::new(Mutex::new(waits));
        let make = || {
            let (waits, made) = (Arc::clone(&waits), Arc::clone(&made));
            move || {
                let _ = waits.lock().unwrap().recv();
                Ok(made.fetch_add(1, Ordering::SeqCst))
            }
        };
        let handle = runtime.handle().clone();
        runtime.block_on(async {
            let one = making.make(&handle, "rate", make());
            let two = making.make(&handle, "rate", make());
            let other = async {
                // This thread is free while both wait.
                yield_now().await;
                assert_eq!(made.load(Ordering::SeqCst), 0);
                go_on.send(()).unwrap();
            };
            let (one, two, ()) = tokio::join!(one, two, other);
            assert_eq!((one, two), (Ok(0), Ok(0)));
        });
        assert!(lock(&making.0).is_empty());
    }

    /// Whoever asked for a new rate and went left a thread that waited for the store, and
    /// the place of it to the next.
    #[test]
    fn so_many_are_made_at_once_also_when_whoever_asked_has_gone() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let making = Making::default();
        let store = Arc::new(Mutex::new(()));
        let begin = |name: usize| {
            let store = Arc::clone(&store);
            let make = move || {
                drop(store.lock());
                Ok(name)
            };
            let made = pin!(making.make(runtime.handle(), name, make));
            made.poll(&mut Context::from_waker(Waker::noop()))
        };
        let stands_still = store.lock().unwrap();
        for name in 0..MOST {
            assert!(begin(name).is_pending());
        }
        assert!(begin(0).is_pending(), "it is being made already");
        assert_eq!(
            begin(MOST),
            Poll::Ready(Err(ServiceError::Busy(Crowded::Opening)))
        );
        drop(stands_still);
        while !lock(&making.0).is_empty() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        // There is room for it: it is begun, if it is not made already.
        assert_ne!(
            begin(MOST),
            Poll::Ready(Err(ServiceError::Busy(Crowded::Opening)))
        );
    }

    #[test]
    fn all_who_wait_are_told_why_it_failed_and_the_next_asks_anew() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let making = Making::default();
        let handle = runtime.handle().clone();
        let failing = || {
            making.make(&handle, "rate", || {
                Err::<u8, _>(Error::NoWorker(String::new()))
            })
        };
        runtime.block_on(async {
            let both = tokio::join!(failing(), failing());
            let told = Err(ServiceError::Limits(Error::NoWorker(String::new())));
            assert_eq!(both, (told.clone(), told));
            assert_eq!(making.make(&handle, "rate", || Ok(7)).await, Ok(7));
        });
    }
}
