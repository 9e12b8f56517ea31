//! Sets that come from a store beyond a network, made beside the threads of requests.
//!
//! To open one asks the store, which blocks for as long as that takes. It is done on a
//! thread for such work, once for all who ask for the same at once, and of so many at a
//! time; they wait for it as they do for any answer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::error::GateError;
use crate::error::Error;

/// So many are made at once, each on a thread of its own.
const MOST: usize = 32;

/// What is being made, by name.
pub(super) struct Making<N: Eq + Hash, T>(Mutex<UnderWay<N, T>>);

type UnderWay<N, T> = HashMap<N, Arc<Made<T>>, foldhash::fast::RandomState>;

/// What it came to, once it is known.
type Made<T> = OnceCell<Result<T, Error>>;

/// Somebody waits for it.
struct Waiter<'a, N: Eq + Hash, T> {
    making: &'a Making<N, T>,
    name: N,
    made: Arc<Made<T>>,
}

impl<N: Eq + Hash, T> Default for Making<N, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<N: Copy + Eq + Hash, T: Clone + Send + 'static> Making<N, T> {
    /// What `make` makes, on a thread of `runtime` for work that blocks.
    ///
    /// # Errors
    /// Those of `make`, for all who wait for it; [`GateError::Busy`]: so many others are
    /// being made.
    pub(super) async fn make(
        &self,
        runtime: &Handle,
        name: N,
        make: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, GateError> {
        let waiter = self.wait_for(name)?;
        let beside = async {
            let made = runtime.spawn_blocking(make).await;
            made.unwrap_or(Err(Error::Stopped))
        };
        Ok(waiter.made.get_or_init(|| beside).await.clone()?)
    }

    fn wait_for(&self, name: N) -> Result<Waiter<'_, N, T>, GateError> {
        let mut under_way = self.lock();
        if under_way.len() >= MOST && !under_way.contains_key(&name) {
            return Err(GateError::Busy);
        }
        let made = Arc::clone(under_way.entry(name).or_default());
        Ok(Waiter {
            making: self,
            name,
            made,
        })
    }
}

impl<N: Eq + Hash, T> Making<N, T> {
    fn lock(&self) -> MutexGuard<'_, UnderWay<N, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: Eq + Hash, T> Drop for Waiter<'_, N, T> {
    /// The last one takes it away: who comes later asks anew.
    fn drop(&mut self) {
        let mut under_way = self.making.lock();
        // The map's own, and this one's.
        let others = Arc::strong_count(&self.made) - 2;
        if others == 0 {
            under_way.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

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
        assert!(making.lock().is_empty());
    }

    #[test]
    fn so_many_are_made_at_once_and_who_gives_up_makes_room() {
        let making: Making<usize, ()> = Making::default();
        let waiters: Vec<_> = (0..MOST).map(|name| making.wait_for(name)).collect();
        assert!(matches!(making.wait_for(MOST), Err(GateError::Busy)));
        assert!(making.wait_for(0).is_ok(), "with who waits already");
        drop(waiters);
        assert!(making.wait_for(MOST).is_ok());
        assert!(making.lock().is_empty());
    }

    #[test]
    fn all_who_wait_are_told_why_it_failed_and_the_next_asks_anew() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let making = Making::default();
        let handle = runtime.handle().clone();
        let failing = || making.make(&handle, "rate", || Err::<u8, _>(Error::NothingAsked));
        runtime.block_on(async {
            let both = tokio::join!(failing(), failing());
            let told = Err(GateError::Limits(Error::NothingAsked));
            assert_eq!(both, (told.clone(), told));
            assert_eq!(making.make(&handle, "rate", || Ok(7)).await, Ok(7));
        });
    }
}
