//! What a service has its store keep, as bytes: numbers are little-endian, a text has its
//! length (u32) before it, what may be missing has 0 or 1 before it.

use tidegate_core::{DecodeError, Timestamp};

/// What is written.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    /// Begins with the version of what follows.
    pub(crate) fn new(version: u8) -> Self {
        Self(vec![version])
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
    }

    pub(crate) fn some_bytes(&mut self, bytes: Option<&[u8]>) {
        self.0.push(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    pub(crate) fn some_text(&mut self, text: Option<&str>) {
        self.some_bytes(text.map(str::as_bytes));
    }

    pub(crate) fn some_instant(&mut self, at: Option<Timestamp>) {
        self.0.push(u8::from(at.is_some()));
        if let Some(at) = at {
            self.0.extend(at.as_micros().to_le_bytes());
        }
    }
}

/// What is left to read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Behind the version, if it is one that is known here.
    pub(crate) fn new(bytes: &'a [u8], reads: u8) -> Result<Self, DecodeError> {
        let mut reader = Self(bytes);
        match reader.byte()? {
            0 => Err(DecodeError::Corrupt("version")),
            version if version > reads => Err(DecodeError::Newer { version, reads }),
            _ => Ok(reader),
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        self.take().map(|[byte]: [u8; 1]| byte)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.0.split_first_chunk();
        let (taken, rest) = taken.ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, DecodeError> {
        let text = str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Corrupt("text"))?;
        Ok(text.to_owned())
    }

    fn is_there(&mut self) -> Result<bool, DecodeError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Corrupt("what may be missing")),
        }
    }

    pub(crate) fn some_bytes(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        self.is_there()?.then(|| self.bytes()).transpose()
    }

    pub(crate) fn some_text(&mut self) -> Result<Option<String>, DecodeError> {
        self.is_there()?.then(|| self.text()).transpose()
    }

    pub(crate) fn some_instant(&mut self) -> Result<Option<Timestamp>, DecodeError> {
        let instant = |bytes| Timestamp::from_micros(i64::from_le_bytes(bytes));
        let taken = self.is_there()?.then(|| self.take()).transpose()?;
        Ok(taken.map(instant))
    }

    /// So many texts, behind their number.
    pub(crate) fn many(&mut self, most: usize) -> Result<Vec<String>, DecodeError> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        if count > most {
            return Err(DecodeError::Corrupt("number of texts"));
        }
        (0..count).map(|_| self.text()).collect()
    }

    /// Nothing is left.
    pub(crate) const fn end(&self) -> Result<(), DecodeError> {
        match self.0 {
            [] => Ok(()),
            _ => Err(DecodeError::Corrupt("bytes after the end")),
        }
    }
}
