//! What `acquire` is answered.

use crate::answer::Answer;
use crate::lease::Lease;

/// What `acquire` is answered.
#[derive(Debug)]
#[must_use]
pub enum Admission {
    /// Granted: held until the lease ends.
    Granted(Lease),
    /// Admitted though the server's store could not tell: the policy's failure mode says so.
    /// Nothing is held, and there is nothing to end.
    Degraded(Answer),
    /// Refused: not now.
    Refused(Answer),
}

impl Admission {
    /// The answer: where everything stands, and of a refusal, by which limit and until when.
    #[must_use]
    pub const fn answer(&self) -> &Answer {
        match self {
            Self::Granted(lease) => lease.answer(),
            Self::Degraded(answer) | Self::Refused(answer) => answer,
        }
    }

    /// The lease, if there is one.
    #[must_use]
    pub fn lease(self) -> Option<Lease> {
        match self {
            Self::Granted(lease) => Some(lease),
            Self::Degraded(_) | Self::Refused(_) => None,
        }
    }
}
