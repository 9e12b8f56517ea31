//! Keys: bytes of any content, seen as a path of ancestors.
//!
//! A set with one level takes a key as it is. A set with n levels splits it at
//! `/` into at most n segments (the last keeps the rest), and every prefix is
//! an ancestor: `acme/search/alice` under `org/team/user` has the ancestors
//! `acme` and `acme/search`. A segment that itself contains `/` is written
//! with [`escape`], which keeps composed keys unambiguous.

/// The longest key, in bytes.
pub const MAX_KEY_BYTES: usize = 4_096;
/// The most levels a set may have.
pub const MAX_LEVELS: usize = 8;

/// A key that cannot be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// No bytes at all.
    #[error("the key is empty; name who or what is limited")]
    Empty,
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("the key has {0} bytes; at most {MAX_KEY_BYTES} are accepted: hash it first")]
    TooLong(usize),
    /// Two separators with nothing between them, or one at either end.
    #[error("the key has an empty segment; write a segment's own '/' as %2F")]
    EmptySegment,
}

/// A key with the ends of its ancestors' prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPath<'a> {
    bytes: &'a [u8],
    ends: Ends,
}

/// Where the prefixes of a key's ancestors end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ends {
    ends: [u16; MAX_LEVELS - 1],
    ancestors: u8,
}

impl<'a> KeyPath<'a> {
    /// `bytes` under a set of `levels` levels.
    ///
    /// # Errors
    /// [`KeyError`]: empty, too long, or with an empty segment.
    #[inline]
    pub fn new(bytes: &'a [u8], levels: usize) -> Result<Self, KeyError> {
        check(bytes)?;
        let ends = match levels {
            0 | 1 => Ends::default(),
            _ => split(bytes, levels)?,
        };
        Ok(Self { bytes, ends })
    }

    /// A key whose ancestors are known.
    pub(crate) const fn of(bytes: &'a [u8], ends: Ends) -> Self {
        Self { bytes, ends }
    }

    pub(crate) const fn ends(&self) -> Ends {
        self.ends
    }

    /// The whole key.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many levels the key has: 1 for a key without ancestors.
    #[inline]
    #[must_use]
    pub const fn depth(&self) -> usize {
        self.ends.ancestors as usize + 1
    }

    /// The ancestor at `level`, outermost first; the last is the key itself.
    ///
    /// # Panics
    /// There is no such level.
    #[inline]
    #[must_use]
    pub fn prefix(&self, level: usize) -> &'a [u8] {
        let ancestors = usize::from(self.ends.ancestors);
        assert!(level <= ancestors, "a level that the key does not reach");
        match level < ancestors {
            true => &self.bytes[..usize::from(self.ends.ends[level])],
            false => self.bytes,
        }
    }

    /// The outermost ancestor: what decides where a store keeps all of them.
    #[inline]
    #[must_use]
    pub fn root(&self) -> &'a [u8] {
        self.prefix(0)
    }
}

/// Checks the length alone: all that a set of one level asks of a key.
///
/// # Errors
/// [`KeyError`]: empty or too long.
#[inline]
pub const fn check(bytes: &[u8]) -> Result<(), KeyError> {
    match bytes.len() {
        0 => Err(KeyError::Empty),
        1..=MAX_KEY_BYTES => Ok(()),
        length => Err(KeyError::TooLong(length)),
    }
}

/// Appends `segment` to the path `key`, its own `/` and `%` escaped; an empty
/// one is written `%`, which nothing else is.
pub fn push_segment(key: &mut Vec<u8>, segment: &[u8]) {
    if !key.is_empty() {
        key.push(b'/');
    }
    if segment.is_empty() {
        key.push(b'%');
    }
    escape(segment, key);
}

/// Writes `segment` with `%` as `%25` and `/` as `%2F`.
pub fn escape(segment: &[u8], out: &mut Vec<u8>) {
    for &byte in segment {
        match byte {
            b'/' => out.extend(b"%2F"),
            b'%' => out.extend(b"%25"),
            _ => out.push(byte),
        }
    }
}

fn split(bytes: &[u8], levels: usize) -> Result<Ends, KeyError> {
    let (mut ends, mut start) = (Ends::default(), 0);
    while usize::from(ends.ancestors) + 1 < levels.min(MAX_LEVELS) {
        let Some(length) = bytes[start..].iter().position(|&b| b == b'/') else {
            break;
        };
        if length == 0 {
            return Err(KeyError::EmptySegment);
        }
        ends.ends[usize::from(ends.ancestors)] = (start + length) as u16;
        ends.ancestors += 1;
        start += length + 1;
    }
    if start == bytes.len() {
        return Err(KeyError::EmptySegment);
    }
    Ok(ends)
}
