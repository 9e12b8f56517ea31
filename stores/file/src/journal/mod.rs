//! The changes of all tables, written in groups by one thread.
//!
//! | room | holds |
//! |---|---|
//! | `shared` | what threads and the writer share |
//! | `progress` | which group a change is in, and who waits for it |
//! | `tracked` | a table with what the file knows of it |
//! | `group` | one group as one transaction |
//! | `writer` | the thread: collects, commits, opens the file again after an error |

mod group;
mod progress;
mod shared;
mod tracked;
mod writer;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use redb::Database;
use tidegate_store::StoreError;

use crate::disk::Disk;
use crate::error::FileError;
use crate::options::SyncMode;
use progress::Progress;
use shared::Shared;
pub(crate) use shared::{Change, Kind};
pub(crate) use tracked::{Layouts, Tracked};
use writer::Writer;

/// The journal of one file. The last one to drop it waits for what is not
/// written yet.
#[derive(Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Starts the thread that writes.
    pub(crate) fn start(
        (database, disk): (Database, Disk),
        sync: SyncMode,
        tables: Vec<Arc<Tracked>>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            progress: Progress::new(sync),
            tables: Mutex::new(tables),
            definitions: Mutex::default(),
            forgotten: Mutex::default(),
        });
        let writer = Writer::new(Arc::clone(&shared), database, disk);
        let thread = thread::Builder::new().name("tidegate-journal".into());
        let thread = thread.spawn(move || writer.run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Adds a table; returns once the file knows it.
    pub(crate) fn add(&self, tracked: Arc<Tracked>) -> Result<(), StoreError> {
        tracked.touch();
        self.shared.tables.lock().push(tracked);
        self.flush()
    }

    /// Has the tables of these numbers deleted from the file, some of it at a time;
    /// nothing of them is written any more.
    pub(crate) fn forget(&self, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        let mut tables = self.shared.tables.lock();
        tables.retain(|table| !ids.contains(&table.id));
        drop(tables);
        self.shared.forgotten.lock().extend(ids);
        self.shared.progress.want();
    }

    /// The tables that are being deleted.
    pub(crate) fn forgotten(&self) -> Vec<u32> {
        self.shared.forgotten.lock().clone()
    }

    /// Makes changes of definitions, all of them or none; returns once they are written. One
    /// step at a time.
    ///
    /// # Errors
    /// As [`check`](Self::check); then nothing is changed.
    pub(crate) fn define(&self, step: Vec<Change>) -> Result<(), StoreError> {
        self.check()?;
        self.shared.definitions.lock().extend(step);
        self.flush().inspect_err(|_| {
            self.shared.definitions.lock().clear();
        })
    }

    /// A change is about to be made.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] for as long as the file cannot be written.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.shared.progress.check()
    }

    /// A change was made: whether it may be acknowledged now; else when.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    #[inline]
    pub(crate) fn keep(&self) -> Result<Option<Kept>, StoreError> {
        let group = self.shared.progress.keep()?;
        Ok(group.map(|group| self.kept(group)))
    }

    /// Ends once everything changed so far is written.
    pub(crate) fn written(&self) -> Kept {
        self.kept(self.shared.progress.next_group())
    }

    /// Returns once everything changed so far is written.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        tidegate_store::block_on(self.written())
    }

    fn kept(&self, group: u64) -> Kept {
        Kept {
            shared: Arc::clone(&self.shared),
            group,
        }
    }

    /// Has the file made as small as it can be; whether it became smaller.
    pub(crate) fn compact(&self) -> Result<bool, FileError> {
        let answer = self.shared.progress.ask_compaction();
        let closed = || FileError::Journal("the store is closed".into());
        answer.recv().unwrap_or_else(|_| Err(closed()))
    }
}

/// Ends once a group is written, or cannot be.
#[derive(Debug)]
pub(crate) struct Kept {
    shared: Arc<Shared>,
    group: u64,
}

impl Future for Kept {
    type Output = Result<(), StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let progress = &self.shared.progress;
        progress.poll_written(self.group, context.waker())
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.progress.close();
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has written what it could.
            let _ = thread.join();
        }
    }
}
