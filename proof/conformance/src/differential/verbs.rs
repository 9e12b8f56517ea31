//! The verb of a table that a deed is, if it is one.

use tidegate_core::{MAX_AMOUNT, Span, Timestamp};
use tidegate_store::{Ending, Terms, Verb};

use super::script::{Deed, EndingData, LeaseData};

impl Deed {
    /// The verb, for a plan of so many limits.
    pub(crate) fn verb(&self, limits: usize, now: Timestamp) -> Option<Verb<'_>> {
        let in_micros = |micros: u64| now + Span::from_micros(micros);
        Some(match self {
            // As many as there are limits, as a set sends: stores have faster ways for just that.
            Self::Take {
                amounts,
                lease,
                detail,
            } => Verb::Take {
                amounts: &amounts[..limits],
                lease: lease.as_ref().map(|lease| lease.terms(limits, now)),
                detail: *detail,
            },
            Self::Debit(amounts) => Verb::Debit { amounts },
            Self::Peek(amounts) => Verb::Peek { amounts },
            Self::End {
                id,
                ending,
                remember,
            } => Verb::End {
                id: u128::from(*id),
                ending: ending.ending(),
                remember: *remember,
            },
            Self::Renew { id, ttl } => Verb::Renew {
                id: u128::from(*id),
                until: in_micros(*ttl),
            },
            Self::Adjust {
                id,
                to,
                overdraw,
                detail,
            } => Verb::Adjust {
                id: u128::from(*id),
                to,
                overdraw: *overdraw,
                detail: *detail,
            },
            Self::Reset => Verb::Reset,
            Self::Admit(_)
            | Self::AdmitOne(_)
            | Self::ByBucket(_)
            | Self::Pin
            | Self::Unpin
            | Self::Outdated => return None,
        })
    }

    /// Whether what it does on a clock that has stepped back is, for a single bucket,
    /// anybody's guess.
    pub(crate) fn needs_the_latest_instant(&self) -> bool {
        match self {
            Self::End { .. } | Self::Adjust { .. } => true,
            Self::Debit(amounts) => amounts.contains(&MAX_AMOUNT),
            _ => false,
        }
    }
}

impl LeaseData {
    fn terms(&self, limits: usize, now: Timestamp) -> Terms<'_> {
        Terms {
            id: u128::from(self.id),
            expires_at: now + Span::from_micros(self.ttl),
            idempotency: self.idempotency.as_ref().map(<[u8; 1]>::as_slice),
            least: self.least.as_ref().map(|least| &least[..limits]),
        }
    }
}

impl EndingData {
    fn ending(&self) -> Ending<'_> {
        match self {
            Self::Settle(used) => Ending::Settle(used),
            Self::Release => Ending::Release,
            Self::Fail(back) => Ending::Fail(back),
            Self::Cancel => Ending::Cancel,
        }
    }
}
