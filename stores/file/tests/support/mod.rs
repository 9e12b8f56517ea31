//! What the tests share: a file, and a limit set on it with a clock by hand.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tidegate::{Limit, LimitSet, ManualClock};
use tidegate_file::{FileError, FileStore, Options, SyncMode};

/// A file in a folder of its own.
pub struct Place {
    folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn open(&self) -> Arc<FileStore> {
        open(&self.path(), SyncMode::Always).expect("a file that opens")
    }

    pub fn error(&self) -> FileError {
        open(&self.path(), SyncMode::Always).expect_err("a file that is refused")
    }
}

pub fn open(path: &Path, sync: SyncMode) -> Result<Arc<FileStore>, FileError> {
    let options = Options {
        sync,
        ..Options::default()
    };
    FileStore::open(path, options).map(Arc::new)
}

/// A set of these limits on `store`.
pub fn set(store: Arc<FileStore>, clock: &ManualClock, limits: Vec<Limit>) -> LimitSet {
    LimitSet::builder()
        .name("set")
        .limits(limits)
        .clock(clock.clock())
        .store(store)
        .build()
        .expect("sensible limits")
}

/// A budget of 10 a day and 2 slots for a minute.
pub fn limits() -> Vec<Limit> {
    vec![
        Limit::budget("budget", 10, Duration::from_secs(86_400)),
        Limit::concurrency("slots", 2).ttl(Duration::from_secs(60)),
    ]
}

/// What is left of a limit for a key.
pub fn remaining(set: &LimitSet, key: &str, limit: &str) -> u64 {
    let peeked = set.peek(key, &[(limit, 1)]).wait().expect("a peek");
    peeked.standing(limit).expect("a standing").remaining
}
