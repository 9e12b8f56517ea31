//! The answer to a request for a lease.

use crate::decision::Decision;
use crate::lease::Lease;

/// A decision on a request for a lease.
#[derive(Debug)]
#[must_use = "a granted lease is given back when it is dropped"]
pub enum Admission<L = Lease> {
    /// Yes: what was taken is held by the lease.
    Granted(L),
    /// Not now, or never; nothing is held. The decision says until when.
    Refused(Decision),
}

impl<L> Admission<L> {
    /// The lease, if there is one.
    pub fn granted(self) -> Option<L> {
        match self {
            Self::Granted(lease) => Some(lease),
            Self::Refused(_) => None,
        }
    }

    /// The refusal, if it is one.
    pub fn refused(self) -> Option<Decision> {
        match self {
            Self::Granted(_) => None,
            Self::Refused(decision) => Some(decision),
        }
    }

    /// The refusal, if it is one.
    pub(crate) fn refusal(&self) -> Option<&Decision> {
        match self {
            Self::Granted(_) => None,
            Self::Refused(decision) => Some(decision),
        }
    }

    /// The same, with the lease in other hands.
    pub(crate) fn map<M>(self, hand_over: impl FnOnce(L) -> M) -> Admission<M> {
        match self {
            Self::Granted(lease) => Admission::Granted(hand_over(lease)),
            Self::Refused(decision) => Admission::Refused(decision),
        }
    }
}
