//! On which terms an override is changed.

use std::time::Duration;

use tidegate_core::{Span, Timestamp};

use crate::bounds::{self, LONGEST_OVERRIDE};
use crate::error::ServiceError;
use crate::field::Field;

/// What has to be there for a change to be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnlyIf {
    /// This version.
    Version(u64),
    /// Any.
    Present,
    /// Nothing.
    Absent,
}

/// Until when an override holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// Until this instant, by the server's clock.
    At(Timestamp),
    /// For so long from now on.
    For(Duration),
}

/// On which terms an override is set or removed; without any, whatever is there, for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OverrideTerms<'a> {
    /// What has to be there; else nothing is changed.
    pub only_if: Option<OnlyIf>,
    /// Why: at most [`LONGEST_REASON`](bounds::LONGEST_REASON) bytes.
    pub reason: Option<&'a str>,
    /// Of one that is set: until when.
    pub until: Option<Until>,
}

impl OnlyIf {
    /// What a number means, where 0 stands for nothing.
    #[must_use]
    pub const fn number(version: u64) -> Self {
        match version {
            0 => Self::Absent,
            version => Self::Version(version),
        }
    }

    /// Whether what is there, at this version or 0 if there is nothing, is what has to be.
    pub(crate) const fn holds(self, version: u64) -> bool {
        match self {
            Self::Version(expected) => expected == version && version != 0,
            Self::Present => version != 0,
            Self::Absent => version == 0,
        }
    }
}

impl OverrideTerms<'_> {
    /// That the reason is not too long.
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        bounds::reason(self.reason)
    }

    /// When it ends, if it does: after `now`, and at most ten years after it.
    pub(super) fn expires_at(&self, now: Timestamp) -> Result<Option<Timestamp>, ServiceError> {
        let (field, at) = match self.until {
            None => return Ok(None),
            Some(Until::At(at)) => (Field::ExpiresAt, at),
            Some(Until::For(length)) => (Field::ExpiresIn, now + Span::from(length)),
        };
        let wrong = match () {
            () if at <= now => "it is over by then; say a later instant",
            () if at.since(now) > Span::from(LONGEST_OVERRIDE) => {
                "it is more than ten years from now; leave it out to set it for good"
            }
            () => return Ok(Some(at)),
        };
        Err(ServiceError::Form { field, wrong })
    }
}
