//! Keys as callers write them.

use tidegate_store::{KeyError, key};

/// The longest idempotency key, in bytes: it is remembered with its lease, and for a
/// while after that ended.
pub const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Who or what is limited: text or any other bytes.
///
/// In a set with levels, `/` separates them; [`Key::path`] composes a key from
/// segments of any content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// The key's bytes.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }
}

impl Key<'_> {
    /// Whether it has a length that a key can have: 1 to 4,096 bytes.
    ///
    /// # Errors
    /// [`KeyError`]: empty or too long.
    pub const fn check(&self) -> Result<(), KeyError> {
        key::check(self.0)
    }

    /// The key whose levels are `segments`, each escaped so that no two lists
    /// of segments give the same key.
    ///
    /// ```
    /// assert_eq!(tidegate::Key::path(["acme", "a/b"]), b"acme/a%2Fb");
    /// ```
    #[must_use]
    pub fn path<S: AsRef<[u8]>>(segments: impl IntoIterator<Item = S>) -> Vec<u8> {
        let mut path = Vec::new();
        for segment in segments {
            key::push_segment(&mut path, segment.as_ref());
        }
        path
    }
}

impl<'a> From<&'a str> for Key<'a> {
    #[inline]
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl<'a> From<&'a String> for Key<'a> {
    fn from(text: &'a String) -> Self {
        Self(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Key<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Key<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Key<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self(bytes)
    }
}
