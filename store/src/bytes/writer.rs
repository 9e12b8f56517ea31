//! Writes what a [`Reader`](super::Reader) reads.

use tidegate_core::Timestamp;

use super::version::put_bytes;

/// Bytes that are being written: numbers little-endian, lengths and counts in four bytes.
#[derive(Clone, Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// What is written so far.
    #[must_use]
    pub fn done(self) -> Vec<u8> {
        self.0
    }

    /// A byte.
    pub fn u8(&mut self, byte: u8) -> &mut Self {
        self.0.push(byte);
        self
    }

    /// A number.
    pub fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    /// A number.
    pub fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    /// A number.
    pub fn u128(&mut self, number: u128) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    /// A size, as a number of eight bytes.
    pub fn size(&mut self, size: usize) -> &mut Self {
        self.u64(size as u64)
    }

    /// Whether.
    pub fn flag(&mut self, whether: bool) -> &mut Self {
        self.u8(u8::from(whether))
    }

    /// An instant, in microseconds.
    pub fn instant(&mut self, at: Timestamp) -> &mut Self {
        self.raw(&at.as_micros().to_le_bytes())
    }

    /// Bytes with their length before them.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        put_bytes(bytes, &mut self.0);
        self
    }

    /// Something that may not be there.
    pub fn option<T>(&mut self, it: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        self.flag(it.is_some());
        if let Some(it) = it {
            write(self, it);
        }
        self
    }

    /// As many as there are, with their count before them.
    pub fn list<T>(
        &mut self,
        items: impl ExactSizeIterator<Item = T>,
        mut write: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.u32(items.len() as u32);
        for item in items {
            write(self, item);
        }
        self
    }

    /// Bytes as they are: who reads them knows how many there are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Has `write` append.
    pub(super) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        write(&mut self.0);
        self
    }
}
