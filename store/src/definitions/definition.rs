//! A definition, and what has changed of an owner's.

use std::convert::Infallible;
use std::time::Duration;

use crate::key::MAX_LEVELS;

/// So many of an owner's last changes a store notes: which key each version changed.
pub const MOST_CHANGES: usize = 1_024;

/// No page of definitions or events has more, whatever is asked for.
pub const MOST_A_PAGE: usize = 1_000;

/// At most so many [ancestors](crate::Store::definition_with_ancestors) are read with a definition.
pub const MOST_ANCESTORS: usize = MAX_LEVELS - 1;

/// No change deletes more events that are over, nor more of too many: later ones go on.
pub const MOST_DROPPED: usize = 100;

/// How many a page has that is asked for with so many: one at least.
#[must_use]
pub fn page_size(most: usize) -> usize {
    most.clamp(1, MOST_A_PAGE)
}

/// What is kept under a key of an owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Definition {
    /// The key; any bytes.
    pub key: Vec<u8>,
    /// What is said of it; `None`: nothing any more.
    pub value: Option<Vec<u8>>,
    /// For how long from now on, by the store's clock, if not for good.
    pub lasts: Option<Duration>,
    /// The owner's version of its last change. Of one that is to be kept it means nothing:
    /// the store says.
    pub version: u64,
}

impl Definition {
    /// `value` under `key`, for good.
    #[must_use]
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            value: Some(value.into()),
            lasts: None,
            version: 0,
        }
    }

    /// Nothing under `key` any more.
    #[must_use]
    pub fn none(key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: key.into(),
            value: None,
            lasts: None,
            version: 0,
        }
    }

    /// The key that the value holds at the byte `offset`: a 1, the key's length (u32, little-endian), the
    /// key. `None`, if anything else is there.
    #[must_use]
    pub fn parent_key(&self, offset: u8) -> Option<&[u8]> {
        let (&is_there, rest) = self.value.as_deref()?.get(offset.into()..)?.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        (is_there == 1).then(|| rest.get(..length)).flatten()
    }

    /// The definition under `key` and its [ancestors'](crate::Store::definition_with_ancestors), each
    /// as `read` finds it.
    ///
    /// # Errors
    /// What `read` says.
    pub fn with_ancestors<E>(
        key: &[u8],
        parent_offset: u8,
        mut read: impl FnMut(&[u8]) -> Result<Option<Self>, E>,
    ) -> Result<Vec<Self>, E> {
        let mut found: Vec<Self> = read(key)?.into_iter().collect();
        while found.len() <= MOST_ANCESTORS
            && let Some(parent) = found.last().and_then(|one| one.parent_key(parent_offset))
            && let Some(parent) = read(parent)?
        {
            found.push(parent);
        }
        Ok(found)
    }

    /// Of what was `found` for `key` and its ancestors, as much as is there and is the parent of the one
    /// before it: a query may have read other bytes of a value as a key.
    #[must_use]
    pub fn chain(
        key: &[u8],
        parent_offset: u8,
        found: impl IntoIterator<Item = Self>,
    ) -> Vec<Self> {
        let mut found = found.into_iter();
        let is_it = |one: &Self, key: &[u8]| one.key == key && one.value.is_some();
        let read = |key: &[u8]| Ok::<_, Infallible>(found.next().filter(|one| is_it(one, key)));
        let Ok(chain) = Self::with_ancestors(key, parent_offset, read);
        chain
    }

    /// The same, for so long from now on.
    #[must_use]
    pub const fn lasting(mut self, lasts: Duration) -> Self {
        self.lasts = Some(lasts);
        self
    }

    /// The same, changed last at this version.
    #[must_use]
    pub const fn at_version(mut self, version: u64) -> Self {
        self.version = version;
        self
    }
}

/// What has changed for an owner since a version.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Definitions {
    /// The version that this goes on from: a follower that knows another version ignores this
    /// answer.
    pub newer_than: u64,
    /// The version it leads to: smaller than that if the store has lost what it kept.
    /// 0 before the first change.
    pub version: u64,
    /// Followers forget what they knew. For a follower of everything, all definitions are here;
    /// for a [partial](crate::Follower::is_partial) one, none are.
    pub whole: bool,
    /// Each key once, as it is now, in no order; at most [`MOST_CHANGES`] unless it is
    /// the whole, which has no removed ones. To who keeps some, keys alone are told, with
    /// no value: what it knew of them holds no longer.
    pub changed: Vec<Definition>,
}

impl Definitions {
    /// What is told to who knows `newer_than`, but for what has changed since. `is_noted`: it
    /// is a version of the changes that the store [notes](MOST_CHANGES).
    ///
    /// The one rule of every store: who knows a version that is noted, or the last, goes on from
    /// there. Whoever knows another forgets what it knew: it is too old, or was never made in
    /// what the store has. (A failover may lose the last changes, and others be made in their
    /// place.)
    #[must_use]
    pub const fn since(newer_than: u64, version: u64, is_noted: bool) -> Self {
        let is_known = is_noted || newer_than == version;
        Self {
            newer_than,
            version,
            whole: newer_than == 0 || !is_known,
            changed: Vec::new(),
        }
    }

    /// The same, as it is told to who keeps [some](crate::Follower::is_partial).
    #[must_use]
    pub fn keys_alone(mut self) -> Self {
        match self.whole {
            true => self.changed.clear(),
            false => {
                for definition in &mut self.changed {
                    (definition.value, definition.lasts) = (None, None);
                }
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parents_key_is_read_if_it_is_whole() {
        let parent = |value: &[u8], offset| {
            let definition = Definition::new("k", value);
            definition.parent_key(offset).map(<[u8]>::to_vec)
        };
        let whole = b"v\x01\x02\0\0\0abmore";
        assert_eq!(parent(whole, 1), Some(b"ab".to_vec()));
        assert_eq!(parent(b"v\x01\0\0\0\0", 1), Some(Vec::new()));
        assert_eq!(parent(b"v\x02\x02\0\0\0ab", 1), None, "another flag");
        assert_eq!(parent(b"v\0", 1), None, "no parent");
        for end in 0..8 {
            assert_eq!(parent(&whole[..end], 1), None, "cut at {end}");
        }
        assert_eq!(parent(b"v\x01\x02\0\0\x01ab", 1), None, "longer than all");
        assert_eq!(parent(whole, 2), None);
        assert_eq!(parent(whole, u8::MAX), None, "past the end");
        assert_eq!(Definition::none("k").parent_key(0), None);
    }

    #[test]
    fn a_chain_ends_where_another_key_was_found() {
        let below = |key: &str, parent: &str| {
            let length = (parent.len() as u32).to_le_bytes();
            Definition::new(key, [&[1], &length[..], parent.as_bytes()].concat())
        };
        let keys = |key: &str, found: &[Definition]| {
            let chain = Definition::chain(key.as_bytes(), 0, found.to_vec());
            chain.into_iter().map(|one| one.key).collect::<Vec<_>>()
        };
        let (a, b, c) = (below("a", "b"), below("b", "c"), Definition::new("c", ""));
        let all = [a.clone(), b.clone(), c.clone()];
        assert_eq!(keys("a", &all), [b"a", b"b", b"c"]);
        assert_eq!(keys("a", &[a.clone(), c.clone()]), [b"a"]);
        assert_eq!(keys("b", &all), [] as [Vec<u8>; 0]);
        assert_eq!(keys("a", &[a, Definition::none("b"), c]), [b"a"]);
    }
}
