//! The file as redb sees it.
//!
//! Until the file is trusted, writes are held back in memory (redb marks a file
//! as open, and repairs one that was not closed): a file that is refused in the
//! end is left as it was found. The lock belongs to the file handle, and so
//! outlives a database that has to be opened again after an error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use redb::StorageBackend;

/// redb's page with its head; it is written last when held writes are released.
const HEAD: u64 = 4_096;

/// A file, perhaps not trusted yet.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    file: Arc<File>,
    /// What is held back, until it is released.
    held: Arc<Mutex<Option<Held>>>,
    /// Whether a sync is passed on.
    syncs: bool,
}

/// Writes that have not reached the file.
#[derive(Debug, Default)]
struct Held {
    writes: BTreeMap<u64, Vec<u8>>,
    length: Option<u64>,
}

impl Disk {
    /// A file whose writes are held back until they are released.
    pub(crate) fn held(file: Arc<File>, syncs: bool) -> Self {
        Self {
            file,
            held: Arc::new(Mutex::new(Some(Held::default()))),
            syncs,
        }
    }

    /// A file that is trusted.
    pub(crate) fn open(file: Arc<File>, syncs: bool) -> Self {
        Self {
            file,
            held: Arc::default(),
            syncs,
        }
    }

    /// Writes what was held back, the head last; from here on nothing is.
    pub(crate) fn release(&self) -> io::Result<()> {
        let mut place = self.held.lock();
        let Some(held) = place.take() else {
            return Ok(());
        };
        if let Some(length) = held.length {
            self.file.set_len(length)?;
        }
        let (head, rest): (Vec<_>, Vec<_>) =
            held.writes.into_iter().partition(|(at, _)| *at < HEAD);
        for writes in [rest, head] {
            for (offset, data) in writes {
                write_at(&self.file, offset, &data)?;
            }
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// How long the file is.
    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl Held {
    fn len(&self, file: &File) -> io::Result<u64> {
        self.length.map_or_else(|| Ok(file.metadata()?.len()), Ok)
    }

    /// Reads the file with what is held back laid over it.
    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let end = offset + out.len() as u64;
        if end > self.len(file)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let there = file.metadata()?.len().clamp(offset, end) - offset;
        let (from_file, beyond) = out.split_at_mut(there as usize);
        read_at(file, offset, from_file)?;
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
        match &*self.held.lock() {
            Some(held) => held.len(&self.file),
            None => self.length(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match &*self.held.lock() {
            Some(held) => held.read(&self.file, offset, out),
            None => read_at(&self.file, offset, out),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        match &mut *self.held.lock() {
            Some(held) => held.length = Some(length),
            None => self.file.set_len(length)?,
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.syncs && self.held.lock().is_none() {
            true => self.file.sync_data(),
            false => Ok(()),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &mut *self.held.lock() {
            Some(held) => {
                held.writes.insert(offset, data.to_vec());
                Ok(())
            }
            None => write_at(&self.file, offset, data),
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(unix)]
fn write_at(file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, data, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (offset, out) = (offset + read as u64, &mut out[read..]),
        }
    }
    Ok(())
}

#[cfg(windows)]
fn write_at(file: &File, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, data, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => (offset, data) = (offset + written as u64, &data[written..]),
        }
    }
    Ok(())
}
