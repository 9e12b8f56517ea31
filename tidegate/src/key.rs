//! Keys as callers write them.

use tidegate_store::{KeyError, key};

/// The longest idempotency key, in bytes: it is remembered with its lease, and for a
/// while after that ended.
pub const MAX_IDEMPOTENCY_KEY: usize = 255;

/// Who or what is limited: text or any other bytes.
///
/// In a set with levels, `/` separates them; [`Key::path`] composes a key from
/// segments of any content. There, one that begins with `/` is a path of entities
/// ([`Key::entities`]): each is found by the first and its own id, so that it may move
/// between the two.
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

impl Key<'_> {
    /// The path of entities whose ids are `ids`, from the root on: a key that charges each of
    /// them, in a set with levels. What an entity has used is found by the root and its own id:
    /// under other parents it goes on with it. By itself a root is the key of its id.
    ///
    /// ```
    /// # use std::time::Duration;
    /// use tidegate::{Key, Limit, LimitSet};
    ///
    /// let tokens = |level| Limit::rate(level, 1_000, Duration::from_secs(60)).at_level(level);
    /// let set = LimitSet::builder()
    ///     .levels(["org", "team", "user"])
    ///     .limits(["org", "team", "user"].map(tokens))
    ///     .build()?;
    /// let search = Key::entities(["acme", "search", "alice"]);
    /// assert_eq!(search, b"/acme/search/alice");
    /// set.check(&search, 400).wait()?;
    ///
    /// let moved = set.peek(&Key::entities(["acme", "sales", "alice"]), 1).wait()?;
    /// assert_eq!(moved.remaining("user"), Some(600));
    /// assert_eq!(moved.remaining("team"), Some(1_000));
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    #[must_use]
    pub fn entities<S: AsRef<[u8]>>(ids: impl IntoIterator<Item = S>) -> Vec<u8> {
        let mut path = Self::path(ids);
        if path.contains(&b'/') {
            path.insert(0, b'/');
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
