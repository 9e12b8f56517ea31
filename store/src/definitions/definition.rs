//! A definition, and what has changed of an owner's.

use std::time::Duration;

/// So many of an owner's last changes a store notes: which key each version changed.
pub const MOST_CHANGES: usize = 1_024;

/// No page of definitions or events has more, whatever is asked for.
pub const MOST_A_PAGE: usize = 1_000;

/// So many [ancestors](crate::Store::definition_with_ancestors) of a definition are read with it.
pub const MOST_ANCESTORS: usize = 8;

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

    /// The key that the value names at the byte `at`: a 1, the key's length (u32, little-endian), the
    /// key. Nothing, if something else is there.
    #[must_use]
    pub fn names(&self, at: u8) -> Option<&[u8]> {
        let (&is_named, rest) = self.value.as_deref()?.get(at.into()..)?.split_first()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        (is_named == 1).then(|| rest.get(..length)).flatten()
    }

    /// The definition under `key` and its [ancestors'](crate::Store::definition_with_ancestors), each
    /// as `read` finds it.
    ///
    /// # Errors
    /// What `read` says.
    pub fn with_ancestors<E>(
        key: &[u8],
        parent_at: u8,
        mut read: impl FnMut(&[u8]) -> Result<Option<Self>, E>,
    ) -> Result<Vec<Self>, E> {
        let mut found: Vec<Self> = read(key)?.into_iter().collect();
        while let Some(parent) = found.last().and_then(|below| below.names(parent_at)) {
            let parent = match found.len() <= MOST_ANCESTORS {
                true => read(parent)?,
                false => None,
            };
            match parent {
                Some(parent) => found.push(parent),
                None => break,
            }
        }
        Ok(found)
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
