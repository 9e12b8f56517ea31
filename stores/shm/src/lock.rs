//! A robust mutex that processes share: whoever gets it after its owner was killed is told
//! so. One of the two files with `unsafe`.
#![expect(unsafe_code, reason = "the robust mutexes are those of C")]

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
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
        // SAFETY: as above.
        told = unsafe { lock_within(mutex, most) };
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

/// Waits for a mutex by a clock that nobody sets.
///
/// # Safety
/// The mutex was made, and stays meanwhile.
unsafe fn lock_within(mutex: *mut libc::pthread_mutex_t, most: Duration) -> libc::c_int {
    match clock_lock() {
        Some(clock_lock) => {
            let until = instant(monotonic() + most);
            // SAFETY: the caller's, and it is that function.
            unsafe { clock_lock(mutex, libc::CLOCK_MONOTONIC, &raw const until) }
        }
        // SAFETY: the caller's.
        None => unsafe { lock_in_slices(mutex, most) },
    }
}

/// `pthread_mutex_clocklock`.
type ClockLock = unsafe extern "C" fn(
    *mut libc::pthread_mutex_t,
    libc::clockid_t,
    *const libc::timespec,
) -> libc::c_int;

/// That function, where the C library has it: glibc since 2.30.
fn clock_lock() -> Option<ClockLock> {
    static FOUND: OnceLock<Option<ClockLock>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let name = c"pthread_mutex_clocklock";
        // SAFETY: the name ends with its zero; a function of this name has this type, or there is none.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
            std::mem::transmute::<*mut libc::c_void, Option<ClockLock>>(found)
        }
    })
}

/// So long a lock is waited for by the wall clock at once, where there is no other.
const SLICE: Duration = Duration::from_millis(100);

/// Waits by the wall clock for a little, and by the other for all of it. (musl waits by the wall clock
/// for as long as it was until then when it began; an older glibc, should the clock be set back
/// meanwhile, for so much longer.)
///
/// # Safety
/// As of [`lock_within`].
unsafe fn lock_in_slices(mutex: *mut libc::pthread_mutex_t, most: Duration) -> libc::c_int {
    let end = monotonic() + most;
    loop {
        let left = end.saturating_sub(monotonic());
        let until = instant(crate::clock::since_1970() + left.min(SLICE));
        // SAFETY: the caller's.
        let told = unsafe { libc::pthread_mutex_timedlock(mutex, &raw const until) };
        if told != libc::ETIMEDOUT || left.is_zero() {
            return told;
        }
    }
}

/// The time since some instant, by a clock that nobody sets.
fn monotonic() -> Duration {
    let mut now = instant(Duration::ZERO);
    // SAFETY: it is written to where it stands. There is that clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// An instant as C has it.
fn instant(at: Duration) -> libc::timespec {
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::mpsc::sync_channel;
    use std::thread;

    use super::*;
    use crate::clock;
    use crate::layout::{SMALLEST, shard_at};
    use crate::options::Options;
    use crate::segment::{self, Segment};

    /// Longer than any of this takes.
    const LONG: Duration = Duration::from_secs(60);

    const SHORT: Duration = Duration::from_millis(50);

    fn segment() -> (tempfile::TempDir, Segment) {
        let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
        let options = Options {
            dir: dir.path().to_owned(),
            size: SMALLEST,
            ..Options::default()
        };
        let path = segment::path("t", &options).expect("a name");
        let segment = Segment::open(&path, &options).expect("it opens");
        (dir, segment)
    }

    /// It was waited for until an instant of the wall clock: for an hour, or not at all.
    #[test]
    fn a_lock_is_waited_for_as_long_as_is_said_whatever_becomes_of_the_wall_clock() {
        let (_dir, segment) = segment();
        let (mapping, at) = (segment.mapping(), shard_at(0));
        let held = lock(mapping, at, LONG).expect("a lock");
        assert_eq!(held, Some(Found::Whole));
        let (says, said) = sync_channel(2);
        let later = thread::scope(|scope| {
            scope.spawn(|| {
                clock::set_forward(3_600);
                let _ = says.send(lock(mapping, at, SHORT).expect("a lock"));
                clock::set_forward(-3_600);
                let given = lock(mapping, at, LONG).expect("a lock");
                let _ = says.send(given);
                unlock(mapping, at);
            });
            let first = said.recv_timeout(LONG);
            // It waits, or is told at once that it was in vain.
            let at_once = said.recv_timeout(SHORT);
            unlock(mapping, at);
            (first, at_once.or_else(|_| said.recv_timeout(LONG)))
        });
        assert_eq!(later, (Ok(None), Ok(Some(Found::Whole))));
    }

    #[test]
    fn without_another_clock_a_lock_is_waited_for_in_slices() {
        let (_dir, segment) = segment();
        let (mapping, at) = (segment.mapping(), shard_at(0));
        lock(mapping, at, LONG).expect("a lock");
        let waits = |most: Duration| {
            // SAFETY: the segment stays.
            let told = unsafe { lock_in_slices(mutex(mapping, at), most) };
            if told == 0 {
                unlock(mapping, at);
            }
            told
        };
        thread::scope(|scope| {
            let in_vain = scope.spawn(|| waits(3 * SLICE)).join().expect("it ends");
            assert_eq!(in_vain, libc::ETIMEDOUT);
            let given = scope.spawn(|| waits(LONG));
            unlock(mapping, at);
            assert_eq!(given.join().expect("it ends"), 0);
        });
    }
}
