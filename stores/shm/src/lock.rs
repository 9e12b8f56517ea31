//! A robust mutex that processes share: whoever gets it after its owner was killed is told
//! so. One of the two files with `unsafe`.
#![expect(unsafe_code, reason = "the robust mutexes are those of C")]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use crate::layout::{WORD, shard};
use crate::mapping::Mapping;

const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= (shard::ENTRIES - shard::MUTEX) * WORD);

/// What a thread found that has the lock now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// Everything is as its last owner left it.
    Whole,
    /// Its owner was killed: repair, and say so by [`consistent`].
    OwnerDied,
}

fn mutex(mapping: &Mapping, at: usize) -> *mut libc::pthread_mutex_t {
    mapping.address(at + shard::MUTEX).cast()
}

/// Makes the mutex of the shard at `at`, in a segment that no other process knows yet.
pub(crate) fn make(mapping: &Mapping, at: usize) -> io::Result<()> {
    let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are made before they are used, and the mutex has its place in
    // the mapping (asserted above), where nobody uses it yet.
    unsafe {
        done(libc::pthread_mutexattr_init(attributes))?;
        done(libc::pthread_mutexattr_setpshared(
            attributes,
            libc::PTHREAD_PROCESS_SHARED,
        ))?;
        done(libc::pthread_mutexattr_setrobust(
            attributes,
            libc::PTHREAD_MUTEX_ROBUST,
        ))?;
        done(libc::pthread_mutex_init(mutex(mapping, at), attributes))?;
        done(libc::pthread_mutexattr_destroy(attributes))
    }
}

/// Waits for the mutex of the shard at `at`, at most for as long as `most`; `None`: it was
/// not given in time.
pub(crate) fn lock(mapping: &Mapping, at: usize, most: Duration) -> io::Result<Option<Found>> {
    let mutex = mutex(mapping, at);
    // SAFETY: the mutex was made with the segment, and stays for as long as the mapping.
    let mut told = unsafe { libc::pthread_mutex_trylock(mutex) };
    // Of the model checker's tasks, which are one thread, the owner is another.
    #[cfg(shuttle)]
    while told == libc::EBUSY {
        ::shuttle::thread::yield_now();
        // SAFETY: as above.
        told = unsafe { libc::pthread_mutex_trylock(mutex) };
    }
    if told == libc::EBUSY {
        let until = until(most);
        // SAFETY: as above.
        told = unsafe { libc::pthread_mutex_timedlock(mutex, &raw const until) };
    }
    match told {
        0 => Ok(Some(Found::Whole)),
        libc::EOWNERDEAD => Ok(Some(Found::OwnerDied)),
        libc::ETIMEDOUT => Ok(None),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Everything was repaired. The calling thread has the lock.
pub(crate) fn consistent(mapping: &Mapping, at: usize) {
    // SAFETY: the calling thread has the lock, and was told that its owner had died.
    unsafe { libc::pthread_mutex_consistent(mutex(mapping, at)) };
}

/// Gives the lock back. The calling thread has it.
pub(crate) fn unlock(mapping: &Mapping, at: usize) {
    // SAFETY: the calling thread has the lock.
    unsafe { libc::pthread_mutex_unlock(mutex(mapping, at)) };
}

/// From now on the child of every fork runs `child` before anything else.
pub(crate) fn at_fork(child: extern "C" fn()) {
    // SAFETY: `child` does nothing but change an atomic.
    unsafe { libc::pthread_atfork(None, None, Some(as_unsafe(child))) };
}

/// The same function, as C wants it.
fn as_unsafe(child: extern "C" fn()) -> unsafe extern "C" fn() {
    child
}

/// The instant so long from now, by the clock that such a lock waits by.
fn until(most: Duration) -> libc::timespec {
    let now = crate::clock::since_1970();
    let at = now + most;
    libc::timespec {
        tv_sec: at.as_secs().cast_signed(),
        tv_nsec: at.subsec_nanos().into(),
    }
}

fn done(told: libc::c_int) -> io::Result<()> {
    match told {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}
