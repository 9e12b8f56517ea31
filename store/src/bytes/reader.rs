//! Reads from the front of a slice, and never past its end.

use tidegate_core::{Amount, DecodeError, MAX_AMOUNT, Timestamp};

/// What is left to read.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// All of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    /// A byte.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take::<1>()?[0])
    }

    /// A number, little-endian.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// A number, little-endian.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// A number, little-endian.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.take()?))
    }

    /// A number, little-endian.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        Ok(u128::from_le_bytes(self.take()?))
    }

    /// An instant in microseconds.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn instant(&mut self) -> Result<Timestamp, DecodeError> {
        Ok(Timestamp::from_micros(self.i64()?))
    }

    /// Whether; `what` it is, for the error.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn flag(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Corrupt(what)),
        }
    }

    /// An amount, at most [`MAX_AMOUNT`].
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn amount(&mut self) -> Result<Amount, DecodeError> {
        match self.u64()? {
            amount @ 0..=MAX_AMOUNT => Ok(amount),
            _ => Err(DecodeError::Corrupt("amount")),
        }
    }

    /// A count of things of at least `size` bytes, all of which must be there.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn count(&mut self, size: usize) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if self.0.len() < count.saturating_mul(size) {
            return Err(DecodeError::Truncated);
        }
        Ok(count)
    }

    /// Bytes with their length before them.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.count(1)?;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }

    /// A size of eight bytes.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn size(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(self.u64()?).map_err(|_| DecodeError::Corrupt("size"))
    }

    /// Text of UTF-8 with its length before it; `what` it is, for the error.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Corrupt(what))
    }

    /// Something that may not be there; `what` it is, for the error.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn option<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        match self.flag(what)? {
            true => Ok(Some(read(self)?)),
            false => Ok(None),
        }
    }

    /// Things of at least `size` bytes, with their count before them. There is room for them
    /// only as they are read.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn list<T>(
        &mut self,
        size: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.count(size)?;
        (0..count).map(|_| read(self)).collect()
    }

    /// All that is left.
    #[must_use]
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// Too few bytes, or none that can stand there.
    pub fn end(self) -> Result<(), DecodeError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(DecodeError::Corrupt("bytes after the end")),
        }
    }
}
