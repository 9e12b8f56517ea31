//! What a limit is called by: its name, or what was found by that once.

use std::hash::{Hash, Hasher};

use tidegate_core::Amount;

/// A limit of one set, found by its name once: [`LimitSet::limit`](crate::LimitSet::limit).
///
/// It goes where a name goes: in requests, and in what is asked of their answers.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limit, LimitSet, Request};
///
/// let minute = Duration::from_secs(60);
/// let set = LimitSet::new([Limit::calls("rpm", 300, minute), Limit::rate("tpm", 9_000, minute)])?;
/// let tpm = set.limit("tpm")?; // an error now, and not with each request, if it is misspelt
///
/// let named = [(tpm, 4_000)];
/// let request = Request::named(&named).standings();
/// let mut lease = set.try_acquire("alice", request).wait()?.granted().expect("there is room");
/// assert_eq!(lease.decision().and_then(|decision| decision.remaining(tpm)), Some(5_000));
/// lease.settle(&[(tpm, 3_120)]).wait()?;
/// assert_eq!(set.peek("alice", 1).wait()?.remaining(tpm), Some(5_880));
/// # Ok::<(), tidegate::Error>(())
/// ```
///
/// It stays good while the limits change, until its limit is removed or has another name:
/// from then on it is refused ([`RequestError::LimitRemoved`](crate::RequestError::LimitRemoved)),
/// also once there is a limit of that name again, which is to be found anew. Every other set
/// refuses it ([`RequestError::OtherSet`](crate::RequestError::OtherSet)), and so do the
/// other members of a pool: there, use names.
#[derive(Clone, Copy, Debug)]
pub struct LimitId {
    /// The set that found it.
    pub(crate) set: u64,
    /// Which one it is of all limits that the set ever had.
    pub(crate) number: u64,
    /// Where it stood then.
    pub(crate) near: u16,
}

/// Where it stood is a hint, and no part of which limit it is.
impl PartialEq for LimitId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        (self.set, self.number) == (other.set, other.number)
    }
}

impl Eq for LimitId {}

impl Hash for LimitId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.set, self.number).hash(state);
    }
}

/// What a limit is called by: its name, or a [`LimitId`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitName<'a>(pub(crate) Called<'a>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Called<'a> {
    Name(&'a str),
    Id(LimitId),
}

impl<'a> From<&'a str> for LimitName<'a> {
    #[inline]
    fn from(name: &'a str) -> Self {
        Self(Called::Name(name))
    }
}

impl<'a> From<&'a &str> for LimitName<'a> {
    #[inline]
    fn from(name: &'a &str) -> Self {
        Self(Called::Name(name))
    }
}

impl<'a> From<&'a String> for LimitName<'a> {
    #[inline]
    fn from(name: &'a String) -> Self {
        Self(Called::Name(name))
    }
}

impl From<LimitId> for LimitName<'_> {
    #[inline]
    fn from(id: LimitId) -> Self {
        Self(Called::Id(id))
    }
}

/// Amounts, each of the limit that it is called by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NamedAmounts<'a> {
    Named(&'a [(&'a str, Amount)]),
    Found(&'a [(LimitId, Amount)]),
}

impl Default for NamedAmounts<'_> {
    fn default() -> Self {
        Self::Named(&[])
    }
}

impl<'a> NamedAmounts<'a> {
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        match self {
            Self::Named(all) => all.is_empty(),
            Self::Found(all) => all.is_empty(),
        }
    }
}
