//! A key kept by someone: in place up to 22 bytes, on the heap beyond.

use std::cmp::Ordering;

/// The longest key that needs no allocation.
const INLINE: usize = 22;

/// A key's bytes in 24 bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum OwnedKey {
    /// A short key.
    Inline {
        /// How many of `bytes` it has.
        length: u8,
        /// The key, then zeros.
        bytes: [u8; INLINE],
    },
    /// A long one.
    Heap(Box<[u8]>),
}

/// In the order of their bytes.
impl Ord for OwnedKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for OwnedKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl AsRef<[u8]> for OwnedKey {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl OwnedKey {
    /// No key (no key is empty).
    pub const VACANT: Self = Self::Inline {
        length: 0,
        bytes: [0; INLINE],
    };

    /// Copies `key`.
    #[must_use]
    #[inline]
    pub fn new(key: &[u8]) -> Self {
        if key.len() > INLINE {
            return Self::Heap(key.into());
        }
        // In place: what was just written piece by piece is slow to copy.
        let mut owned = Self::Inline {
            length: key.len() as u8,
            bytes: [0; INLINE],
        };
        if let Self::Inline { bytes, .. } = &mut owned {
            bytes[..key.len()].copy_from_slice(key);
        }
        owned
    }

    /// Whether this is the key `bytes`.
    #[inline]
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        self.bytes() == bytes
    }

    /// Whether this is no key.
    #[inline]
    #[must_use]
    pub const fn is_vacant(&self) -> bool {
        matches!(self, Self::Inline { length: 0, .. })
    }

    /// The key.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Heap(bytes) => bytes,
        }
    }
}
