//! What is checked when a file is opened.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{Builder, Database, ReadableDatabase};
use tidegate_memory::Bounds;
use tidegate_store::definitions::KeptDefinitions;

use crate::disk::Disk;
use crate::error::Fault;
use crate::journal::Tracked;
use crate::reading::{Reading, read_definitions};

/// How a redb file begins.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";
/// Everything is read once, at open; after that only pages that are written.
const CACHE_BYTES: usize = 32 << 20;
/// A file is compacted when it is opened, if it is larger than this
const COMPACT_FROM: u64 = 64 << 20;
/// and that many times what it holds.
const COMPACT_RATIO: u64 = 4;

pub(crate) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// What was read back.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) tables: Vec<Arc<Tracked>>,
    pub(crate) definitions: HashMap<String, KeptDefinitions>,
}

/// Checks the whole file and reads it back; what is refused is left as it was.
pub(crate) fn open(disk: &Disk, bounds: Bounds) -> Result<Opened, Fault> {
    check_head(disk)?;
    let mut opened = guarded(|| {
        let database = trusted(disk)?;
        let group = database.begin_read()?;
        let (tables, bytes) = Reading::new(&group, bounds)?.read()?;
        let definitions = read_definitions(&group)?;
        drop(group);
        let opened = Opened {
            database,
            tables,
            definitions,
        };
        Ok((opened, bytes))
    });
    if let Ok((opened, bytes)) = &mut opened {
        disk.release()?;
        let length = disk.length()?;
        if length > COMPACT_FROM && length / COMPACT_RATIO > *bytes {
            opened.database.compact()?;
        }
    }
    opened.map(|(opened, _)| opened)
}

/// Opens the database again after an error, for writing only: memory knows all.
pub(crate) fn reopen(disk: &Disk) -> Result<Database, Fault> {
    guarded(|| Ok(builder().create_with_backend(disk.clone())?))
}

/// Runs `read`; a panic of redb on bytes that nothing of its own wrote is one
/// more way to say that the file is damaged.
fn guarded<T>(read: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    let panicked = |_| Err(Fault::Damaged("its pages contradict each other".into()));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

fn check_head(disk: &Disk) -> Result<(), Fault> {
    let mut head = [0; MAGIC.len()];
    if disk.length()? < head.len() as u64 {
        return Err(Fault::NotAStore("it is too short"));
    }
    redb::StorageBackend::read(disk, 0, &mut head)?;
    match head == MAGIC {
        true => Ok(()),
        false => Err(Fault::NotAStore("it does not begin like one")),
    }
}

/// Opens the database and verifies every page. A file that was not closed is
/// verified by redb as it repairs it: a commit that is torn was never
/// acknowledged, and gives way to the one before.
fn trusted(disk: &Disk) -> Result<Database, Fault> {
    let repaired = Arc::new(AtomicBool::new(false));
    let mut builder = builder();
    let note = Arc::clone(&repaired);
    builder.set_repair_callback(move |_| note.store(true, Ordering::Relaxed));
    let opened = builder.create_with_backend(disk.clone());
    let mut database = opened.map_err(|error| truncated(error.into()))?;
    let whole = repaired.load(Ordering::Relaxed) || database.check_integrity()?;
    match whole {
        true => Ok(database),
        false => Err(Fault::Damaged("a checksum does not hold".into())),
    }
}

/// A file that ends where redb has a page was cut off.
fn truncated(fault: Fault) -> Fault {
    match fault {
        Fault::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Fault::Damaged("it ends too early".into())
        }
        Fault::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            Fault::Damaged(error.to_string())
        }
        fault => fault,
    }
}
