//! The file as redb sees it.
//!
//! Until the file is trusted, writes are held back in memory (redb marks a file
//! as open, and repairs one that was not closed): a file that is refused in the
//! end is left as it was found. The lock belongs to the file handle, and so
//! outlives a database that has to be opened again after an error.
//!
//! **After a sync that failed** the operating system may say that the next one
//! succeeds, and read back what no disk has: of such a file nothing more is read
//! or written, whatever redb tries.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use redb::StorageBackend;

use crate::medium::Medium;

/// redb's page with its head; it is written last when held writes are released.
const HEAD: u64 = 4_096;

/// A file, perhaps not trusted yet.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    file: Arc<dyn Medium>,
    /// What is held back, until it is released.
    held: Arc<Mutex<Option<Held>>>,
    /// Whether a sync is passed on.
    syncs: bool,
    /// How the sync failed, if one did.
    failed: Arc<OnceLock<String>>,
}

/// Writes that have not reached the file.
#[derive(Debug, Default)]
struct Held {
    writes: BTreeMap<u64, Vec<u8>>,
    length: Option<u64>,
}

impl Disk {
    /// A file whose writes are held back until they are released.
    pub(crate) fn held(file: Arc<dyn Medium>, syncs: bool) -> Self {
        Self {
            file,
            held: Arc::new(Mutex::new(Some(Held::default()))),
            syncs,
            failed: Arc::default(),
        }
    }

    /// A file that is trusted.
    pub(crate) fn open(file: Arc<dyn Medium>, syncs: bool) -> Self {
        Self {
            file,
            held: Arc::default(),
            syncs,
            failed: Arc::default(),
        }
    }

    /// Writes what was held back, the head last; from here on nothing is.
    pub(crate) fn release(&self) -> io::Result<()> {
        let mut place = self.held.lock();
        let Some(held) = place.take() else {
            return Ok(());
        };
        if let Some(length) = held.length {
            self.file.set_length(length)?;
        }
        let (head, rest): (Vec<_>, Vec<_>) =
            held.writes.into_iter().partition(|(at, _)| *at < HEAD);
        for writes in [rest, head] {
            for (offset, data) in writes {
                self.file.write_at(offset, &data)?;
            }
            self.sync()?;
        }
        Ok(())
    }

    /// How long the file is.
    pub(crate) fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    /// Syncs the file; where that fails, nothing more is done to it.
    fn sync(&self) -> io::Result<()> {
        self.check()?;
        self.file.sync().or_else(|error| {
            let _ = self.failed.set(error.to_string());
            self.check()
        })
    }

    fn check(&self) -> io::Result<()> {
        match self.failed.get() {
            None => Ok(()),
            Some(error) => Err(io::Error::other(format!(
                "the disk could not sync the file ({error}), so it is not known what it holds; \
                 see to the disk, and restart the server (or open the file again)"
            ))),
        }
    }
}

impl Held {
    fn len(&self, file: &dyn Medium) -> io::Result<u64> {
        self.length.map_or_else(|| file.length(), Ok)
    }

    /// Reads the file with what is held back laid over it.
    fn read(&self, file: &dyn Medium, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        if end > self.len(file)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let there = file.length()?.clamp(offset, end) - offset;
        let (from_file, beyond) = out.split_at_mut(there as usize);
        file.read_at(offset, from_file)?;
        beyond.fill(0);
        for (&start, data) in self.writes.range(..end) {
            lay_over(out, offset, data, start);
        }
        Ok(())
    }
}

/// Copies what `data`, which starts at `start`, shares with `out` at `offset`.
fn lay_over(out: &mut [u8], offset: u64, data: &[u8], start: u64) {
    let from = start.max(offset);
    let to = (start + data.len() as u64).min(offset + out.len() as u64);
    if from < to {
        let here = (from - offset) as usize..(to - offset) as usize;
        let there = (from - start) as usize..(to - start) as usize;
        out[here].copy_from_slice(&data[there]);
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.check()?;
        match &*self.held.lock() {
            Some(held) => held.len(&*self.file),
            None => self.length(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check()?;
        match &*self.held.lock() {
            Some(held) => held.read(&*self.file, offset, out),
            None => self.file.read_at(offset, out),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.check()?;
        match &mut *self.held.lock() {
            Some(held) => held.length = Some(length),
            None => self.file.set_length(length)?,
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.syncs && self.held.lock().is_none() {
            true => self.sync(),
            false => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        match &mut *self.held.lock() {
            Some(held) => {
                held.writes.insert(offset, data.to_vec());
                Ok(())
            }
            None => self.file.write_at(offset, data),
        }
    }
}
