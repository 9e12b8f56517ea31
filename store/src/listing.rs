//! What a table holds, a page at a time.
//!
//! A listing takes no lock for long: it is told in pages, and between two of
//! them everything may change. What is there from its first page to its last is
//! in exactly one of them (a lease that is renewed meanwhile, in at least one);
//! what comes or goes meanwhile may be in one.

use smallvec::SmallVec;
use tidegate_core::{Amount, Timestamp};

use crate::key::row_name;
use crate::owned::OwnedKey;

/// Which page of which listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listing<'a> {
    /// Of which keys.
    pub select: Select<'a>,
    /// Where the page before it has ended ([`Page::next`]); the first page if
    /// not said.
    pub after: Option<&'a [u8]>,
    /// How many items it has at most (one at least).
    pub most: usize,
    /// As of when: what equals "never seen", or has expired by then, is left out.
    pub now: Timestamp,
    /// How many levels the keys have, by which rows are named.
    pub levels: usize,
}

/// Which keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Select<'a> {
    /// All of them.
    #[default]
    All,
    /// Those that begin so: with whole segments or not.
    Prefix(&'a [u8]),
    /// This one, by the name of its row ([`row_name`]): leases of a path of entities are its last
    /// entity's, whatever its parents were.
    Key(&'a [u8]),
}

/// A [`Listing`] that borrows nothing.
#[derive(Clone, Debug)]
pub struct OwnedListing {
    select: OwnedSelect,
    after: Option<Box<[u8]>>,
    most: usize,
    now: Timestamp,
    levels: usize,
}

#[derive(Clone, Debug)]
enum OwnedSelect {
    All,
    Prefix(Box<[u8]>),
    Key(Box<[u8]>),
}

impl OwnedListing {
    /// Copies what `listing` borrows.
    #[must_use]
    pub fn of(listing: &Listing<'_>) -> Self {
        Self {
            select: match listing.select {
                Select::All => OwnedSelect::All,
                Select::Prefix(prefix) => OwnedSelect::Prefix(prefix.into()),
                Select::Key(key) => OwnedSelect::Key(key.into()),
            },
            after: listing.after.map(Into::into),
            most: listing.most.max(1),
            now: listing.now,
            levels: listing.levels,
        }
    }

    /// As it was asked for.
    #[must_use]
    pub fn lend(&self) -> Listing<'_> {
        Listing {
            select: match &self.select {
                OwnedSelect::All => Select::All,
                OwnedSelect::Prefix(prefix) => Select::Prefix(prefix),
                OwnedSelect::Key(key) => Select::Key(key),
            },
            after: self.after.as_deref(),
            most: self.most,
            now: self.now,
            levels: self.levels,
        }
    }
}

/// A page of a listing, in an order of the store's own.
///
/// It may have fewer items than it could, or none, and not be the last: a store
/// looks at a bounded number of its keys for each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page goes on, if there is one. It tells nothing that is
    /// secret, and nothing but the store can read it.
    pub next: Option<Vec<u8>>,
}

/// A lease that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldLease {
    /// Whose it is.
    pub key: OwnedKey,
    /// Its id: a secret of its holder.
    pub id: u128,
    /// When it was granted, by the clock that decided.
    pub granted_at: Timestamp,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// Larger than that of every earlier lease on the same slots; 0 without.
    pub fence: u64,
    /// What was taken, by the limits' [`uid`](crate::PlanLimit::uid).
    pub taken: Taken,
}

/// How much was taken of each limit, by its [`uid`](crate::PlanLimit::uid). Collected of
/// the charges of a lease, which may have several of one limit, each limit is in it once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Taken(SmallVec<[(u32, Amount); 3]>);

impl FromIterator<(u32, Amount)> for Taken {
    fn from_iter<I: IntoIterator<Item = (u32, Amount)>>(charges: I) -> Self {
        let mut taken = Self::default();
        for (uid, amount) in charges {
            match taken.0.iter_mut().find(|(known, _)| *known == uid) {
                Some((_, total)) => *total += amount,
                None => taken.0.push((uid, amount)),
            }
        }
        taken
    }
}

impl std::ops::Deref for Taken {
    type Target = [(u32, Amount)];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'a> Select<'a> {
    /// What all of them begin with.
    #[must_use]
    pub const fn beginning(&self) -> &'a [u8] {
        match self {
            Self::All => b"",
            Self::Prefix(bytes) | Self::Key(bytes) => bytes,
        }
    }

    /// Whether `key`, the name of a row or a lease's, is one of them, under a set of `levels`
    /// levels.
    #[must_use]
    pub fn takes(&self, key: &[u8], levels: usize) -> bool {
        match self {
            Self::All => true,
            Self::Prefix(prefix) => key.starts_with(prefix),
            Self::Key(one) => *row_name(key, levels) == **one,
        }
    }
}

impl Listing<'_> {
    /// Whether `key`, the name of a row or a lease's, is one of those that are listed.
    #[must_use]
    pub fn takes(&self, key: &[u8]) -> bool {
        self.select.takes(key, self.levels)
    }
}

impl<T> Page<T> {
    /// The last page, with nothing on it.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            items: Vec::new(),
            next: None,
        }
    }
}
