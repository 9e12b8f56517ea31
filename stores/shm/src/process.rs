//! Which process somebody is, and whether it is there.
//!
//! A process is known by its number, by when it was started (so that a number that is used
//! again is no other's), and by the namespace in which that number counts. Of another
//! namespace (this process may have moved) nothing can be told: it is taken to be there.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
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
    pub(crate) start: u64,
}

/// How many forks this process descends from, as far as it was told: a child is another
/// process than its parent.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// This process, as of a generation.
static ME: Mutex<Option<(u64, Process)>> = Mutex::new(None);

/// Processes that were there when they were looked at.
static KNOWN: Mutex<Option<HashMap<Process, OwnedFd>>> = Mutex::new(None);

/// So many are remembered.
const MOST_KNOWN: usize = 1_024;

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
    let generation = generation();
    let mut known = ME.lock();
    match *known {
        Some((of, me)) if of == generation => me,
        _ => {
            let pid = std::process::id();
            let me = Process {
                namespace: namespace(),
                pid,
                start: start(pid).unwrap_or(0),
            };
            *known = Some((generation, me));
            me
        }
    }
}

/// The namespace in which this process has its number.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// When the process of this number was started, in the kernel's ticks since it booted.
fn start(pid: u32) -> Option<u64> {
    let said = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Its name, in parentheses, may hold anything; the 22nd field is the 20th behind it.
    let (_, rest) = said.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl Process {
    /// Whether it is there: killed, it is not, whether its parent has noticed or not.
    pub(crate) fn is_there(&self) -> bool {
        if *self == me() || self.namespace != me().namespace {
            return true;
        }
        let mut known = KNOWN.lock();
        let known = known.get_or_insert_default();
        if let Some(handle) = known.get(self) {
            let is_there = is_running(handle);
            if !is_there {
                known.remove(self);
            }
            return is_there;
        }
        match self.handle() {
            Ok(Some(handle)) => {
                let is_there = is_running(&handle);
                if known.len() >= MOST_KNOWN {
                    known.clear();
                }
                if is_there {
                    known.insert(*self, handle);
                }
                is_there
            }
            Ok(None) => false,
            // Nothing can be told.
            Err(_) => true,
        }
    }

    /// A handle that tells when it ends; `None`: it has.
    pub(crate) fn handle(&self) -> Result<Option<OwnedFd>, Errno> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // Its number may have been another's when the handle was made.
            Ok(handle) => match start(self.pid) {
                // 0: it could not read its own.
                Some(start) => Ok((start == self.start || self.start == 0).then_some(handle)),
                // It has ended, or nothing can be read here: its handle says which.
                None if is_running(&handle) => Err(Errno::MFILE),
                None => Ok(None),
            },
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_running(handle: &OwnedFd) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    let at_once = Timespec::default();
    !matches!(poll(&mut asked, Some(&at_once)), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_killed_process_is_not_there_before_its_parent_has_noticed() {
        assert!(me().is_there());
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .spawn()
            .expect("a process");
        let pid = child.id();
        let process = Process {
            pid,
            start: start(pid).expect("it is there"),
            ..me()
        };
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
}
