//! Which process somebody is, and whether it is there.
//!
//! A process is known by its number, by when it was started (so that a number that is used
//! again is no other's), by the program that it runs (another, once it has called `execve`: what it
//! held before is nobody's), and by the namespace in which that number counts. Of another
//! namespace (this process may have moved) nothing can be told: it is taken to be there.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::lock;

/// A process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Process {
    pub(crate) namespace: u64,
    pub(crate) pid: u32,
    /// [When it was started, and what it runs](start).
    pub(crate) start: u64,
}

/// How many forks this process descends from, as far as it was told: a child is another
/// process than its parent.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// This process, as of a generation: one more than that, and the same words by whoever of its
/// threads writes them. There is no lock that a child could find taken.
static ME: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// Processes that were there when they were looked at. Who finds it locked (for good, in the
/// child of a fork) goes without.
static KNOWN: Mutex<Option<HashMap<Process, Known>>> = Mutex::new(None);

/// So many are remembered, with two files each.
const MOST_KNOWN: usize = 32;

extern "C" fn forked() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// A number that changes with every fork.
pub(crate) fn generation() -> u64 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| lock::at_fork(forked));
    GENERATION.load(Ordering::Relaxed)
}

/// This process.
pub(crate) fn me() -> Process {
    let [of, namespace, pid, start] = &ME;
    let generation = generation() + 1;
    if of.load(Ordering::Acquire) == generation {
        return Process {
            namespace: namespace.load(Ordering::Relaxed),
            pid: pid.load(Ordering::Relaxed) as u32,
            start: start.load(Ordering::Relaxed),
        };
    }
    let number = std::process::id();
    let me = Process {
        namespace: own_namespace(),
        pid: number,
        start: started(number).unwrap_or(0),
    };
    namespace.store(me.namespace, Ordering::Relaxed);
    pid.store(me.pid.into(), Ordering::Relaxed);
    start.store(me.start, Ordering::Relaxed);
    of.store(generation, Ordering::Release);
    me
}

/// The namespace in which this process has its number.
fn own_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Where the kernel says what a process is.
fn stat(pid: u32) -> Option<File> {
    File::open(format!("/proc/{pid}/stat")).ok()
}

fn started(pid: u32) -> Option<u64> {
    start(&stat(pid)?)
}

/// Bits of when a process was started.
const TICKS: u32 = 40;

/// When a process was started, in the kernel's ticks since it booted, and above them what it runs:
/// of where its stack begins, which is another place for each program that it was made to run. 0
/// there: that cannot be told. `None`: nothing can.
fn start(stat: &File) -> Option<u64> {
    let mut said = [0; 1_024];
    let length = stat.read_at(&mut said, 0).ok()?;
    let said = said.get(..length)?;
    // Its name, in parentheses, may hold anything; the 22nd field is the 20th behind it.
    let behind = said.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = str::from_utf8(&said[behind..]).ok()?;
    let mut fields = fields.split_whitespace().skip(19);
    let ticks: u64 = fields.next()?.parse().ok()?;
    let stack: u64 = fields.nth(5)?.parse().ok()?;
    // Below are the bits that differ least.
    let runs = (stack >> 4 ^ stack >> 28) << TICKS;
    Some(runs | ticks & ((1 << TICKS) - 1))
}

/// Whether both may be of one process that runs one program.
fn is_same(one: u64, other: u64) -> bool {
    // It could not read its own.
    if one == 0 || other == 0 {
        return true;
    }
    let (runs, others) = (one >> TICKS, other >> TICKS);
    (one ^ other) << (u64::BITS - TICKS) == 0 && (runs == 0 || others == 0 || runs == others)
}

/// A process that was there.
struct Known {
    handle: OwnedFd,
    stat: File,
}

impl Known {
    /// Whether it is there, and runs what it ran.
    fn is(&self, process: &Process) -> bool {
        // What cannot be read any more, its handle tells.
        is_running(&self.handle)
            && start(&self.stat).is_none_or(|start| is_same(start, process.start))
    }
}

/// Whether processes are there, each looked at once.
#[derive(Default)]
pub(crate) struct There(HashMap<Process, bool>);

impl There {
    pub(crate) fn is(&mut self, process: Process) -> bool {
        *self.0.entry(process).or_insert_with(|| process.is_there())
    }
}

impl Process {
    /// Whether it is there: killed, it is not, whether its parent has noticed or not. The system is
    /// asked: under the lock of a shard of few.
    pub(crate) fn is_there(&self) -> bool {
        #[cfg(test)]
        looks::note();
        let me = me();
        if *self == me || self.namespace != me.namespace {
            return true;
        }
        let mut known = KNOWN.try_lock();
        let Some(known) = known.as_deref_mut() else {
            // Nothing can be told: it is there.
            return !matches!(self.found(), Ok(None));
        };
        let known = known.get_or_insert_default();
        if let Some(found) = known.get(self) {
            let is_there = found.is(self);
            if !is_there {
                known.remove(self);
            }
            return is_there;
        }
        match self.found() {
            Ok(Some(found)) => {
                // Of those that have ended, nobody asks again.
                known.retain(|_, found| is_running(&found.handle));
                if known.len() >= MOST_KNOWN
                    && let Some(other) = known.keys().next().copied()
                {
                    known.remove(&other);
                }
                known.insert(*self, found);
                true
            }
            Ok(None) => false,
            // Nothing can be told.
            Err(_) => true,
        }
    }

    /// A handle that tells when it ends; `None`: it has.
    pub(crate) fn handle(&self) -> Result<Option<OwnedFd>, Errno> {
        Ok(self.found()?.map(|found| found.handle))
    }

    fn found(&self) -> Result<Option<Known>, Errno> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let handle = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(Errno::SRCH) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Its number may have been another's when the handle was made.
        let stat = stat(self.pid);
        let start = stat.as_ref().and_then(start);
        match (stat, start) {
            (Some(stat), Some(start)) => {
                let is_it = is_same(start, self.start) && is_running(&handle);
                Ok(is_it.then_some(Known { handle, stat }))
            }
            // It has ended, or nothing can be read here: its handle says which.
            _ if is_running(&handle) => Err(Errno::MFILE),
            _ => Ok(None),
        }
    }
}

fn is_running(handle: &OwnedFd) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    let at_once = Timespec::default();
    !matches!(poll(&mut asked, Some(&at_once)), Ok(1..))
}

/// How many processes a test's thread has looked at under the lock of a shard.
#[cfg(test)]
pub(crate) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOCKS: Cell<usize> = const { Cell::new(0) };
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn locked() {
        LOCKS.set(LOCKS.get() + 1);
    }

    pub(crate) fn unlocked() {
        LOCKS.set(LOCKS.get() - 1);
    }

    pub(super) fn note() {
        LOOKS.set(LOOKS.get() + usize::from(LOCKS.get() > 0));
    }

    /// How many they were since this was asked last.
    pub(crate) fn taken() -> usize {
        LOOKS.take()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that runs what it was made to: while it is being made to, where its stack begins
    /// is another place.
    pub(crate) fn child() -> (std::process::Child, Process) {
        let mut child = Command::new("cat");
        let child = child.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().expect("a process");
        let (asked, said) = (child.stdin.as_mut(), child.stdout.as_mut());
        asked.expect("a pipe").write_all(b"?").expect("it is asked");
        said.expect("a pipe").read_exact(&mut [0]).expect("it runs");
        let (pid, start) = (child.id(), started(child.id()));
        let start = start.expect("it is there");
        (child, Process { pid, start, ..me() })
    }

    #[test]
    fn a_killed_process_is_not_there_before_its_parent_has_noticed() {
        assert!(me().is_there());
        let (mut child, process) = child();
        assert!(process.is_there());
        let another = Process {
            start: process.start + 1,
            ..process
        };
        assert!(!another.is_there(), "the number was another's");
        let unread = Process {
            start: 0,
            ..process
        };
        assert!(unread.is_there(), "it could not read when it was started");
        let handle = process.handle().expect("a handle").expect("it is there");
        child.kill().expect("it is there");
        let mut asked = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
        poll(&mut asked, None).expect("it ends");
        assert!(!process.is_there());
        child.wait().expect("it has ended");
        assert!(!process.is_there());
    }

    /// Each kept a file until somebody asked for it once more, and nobody does.
    #[test]
    fn of_processes_that_have_ended_no_handle_stays() {
        let ended: Vec<Process> = (0..40)
            .map(|_| {
                let (mut child, process) = child();
                assert!(process.is_there());
                child.kill().expect("it is there");
                child.wait().expect("it ends");
                process
            })
            .collect();
        let (mut child, another) = child();
        assert!(another.is_there());
        let known = KNOWN.lock();
        let known = known.as_ref().expect("some were looked at");
        assert!(known.len() <= MOST_KNOWN);
        let kept = ended.iter().filter(|process| known.contains_key(process));
        assert!(kept.count() <= 1, "the last may have come after another");
        child.kill().expect("it is there");
        child.wait().expect("it ends");
    }

    /// A thread of the parent may have been amid a look when it forked.
    #[test]
    fn who_finds_the_known_processes_locked_goes_without_them() {
        let (mut child, process) = child();
        let _held = KNOWN.lock();
        assert!(process.is_there());
        child.kill().expect("it is there");
        child.wait().expect("it ends");
        assert!(!process.is_there());
    }
}
