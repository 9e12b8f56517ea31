//! A segment of a test's own.
#![allow(dead_code, reason = "each test needs some of it")]

pub mod child;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_shm::{Clock, Options, ShmStore};

/// A directory in memory, which goes with this.
pub struct Dir(TempDir);

impl Default for Dir {
    fn default() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").expect("a directory in memory"))
    }
}

impl Dir {
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn open(&self, clock: Clock) -> ShmStore {
        let options = options(self.path());
        ShmStore::open("test", Options { clock, ..options }).expect("a segment")
    }

    pub fn store(&self) -> ShmStore {
        self.open(Clock::Server)
    }
}

/// A request that has its place, and waits.
pub fn waits<F: Future>(request: impl IntoFuture<IntoFuture = F>) -> Pin<Box<F>> {
    let mut request = Box::pin(request.into_future());
    let mut context = Context::from_waker(Waker::noop());
    assert!(request.as_mut().poll(&mut context).is_pending());
    request
}

/// As tests open it: patient, since who holds a lock may not be run for long on a busy machine.
pub fn options(dir: impl Into<PathBuf>) -> Options {
    Options {
        dir: dir.into(),
        deadline: Duration::from_secs(60),
        ..Options::default()
    }
}
