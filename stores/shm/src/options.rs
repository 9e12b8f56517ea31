//! How a segment is opened.

use std::path::PathBuf;
use std::time::Duration;

pub use tidegate_store::optimistic::Clock;

use crate::error::ShmError;
use crate::layout::{SMALLEST, WORD, chunk};

/// The largest segment.
const LARGEST: usize = 1 << 40;

/// How a segment is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// The directory of its file: one in memory, as `/dev/shm`.
    pub dir: PathBuf,
    /// How many bytes it has, if this makes it; one that is there keeps its own. Memory is
    /// taken as it is needed.
    pub size: usize,
    /// Whose clock decides.
    pub clock: Clock,
    /// How long a command waits for a lock that another holds. (None holds one for long,
    /// unless it is stopped in mid-step.)
    pub deadline: Duration,
    /// A lease ends with the process that made it, renewed or adjusted it last, if that is
    /// before its expiry. Without this, leases that this process made, renewed or adjusted
    /// last end with no process.
    pub leases_end_with_process: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dir: PathBuf::from("/dev/shm"),
            size: 64 << 20,
            clock: Clock::Server,
            deadline: Duration::from_secs(1),
            leases_end_with_process: true,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), ShmError> {
        let told = |what: String| Err(ShmError::Option(what));
        if !(SMALLEST..=LARGEST).contains(&self.size) {
            return told(format!(
                "a segment has {SMALLEST} to {LARGEST} bytes, not {}",
                self.size
            ));
        }
        if !self.size.is_multiple_of(chunk::WORDS * WORD) {
            return told(format!(
                "the size of a segment is a multiple of {} bytes; {} is none",
                chunk::WORDS * WORD,
                self.size
            ));
        }
        if self.deadline.is_zero() {
            return told("the deadline of a segment is longer than nothing".to_owned());
        }
        Ok(())
    }
}
