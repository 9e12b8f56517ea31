//! What a file is written to: an operating system's file, or one that fails and
//! stalls when a test says so.

use std::fmt::Debug;
use std::fs::File;
use std::io;

/// Bytes at places, which are on the disk once they are synced.
pub(crate) trait Medium: Send + Sync + Debug {
    /// How many bytes there are.
    fn length(&self) -> io::Result<u64>;
    /// Makes it so long.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Reads as many bytes as `out` has; fewer are an error.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Returns once what was written is on the disk.
    fn sync(&self) -> io::Result<()>;
}

impl Medium for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_at(self, offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        write_at(self, offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
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
