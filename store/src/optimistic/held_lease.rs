//! A kept record as a lease that is listed.

use tidegate_core::{DecodeError, Timestamp};

use crate::bytes::decode_record;
use crate::ledger::LeaseStage;
use crate::listing::HeldLease;
use crate::optimistic::owned_key_command::moved;

/// The lease of a record, if it is held at `now`, for a caller whose clock stands at `asked`.
///
/// # Errors
/// What no version wrote, or only a newer one.
pub fn held_lease(
    record: &[u8],
    now: Timestamp,
    asked: Timestamp,
) -> Result<Option<HeldLease>, DecodeError> {
    let record = decode_record(record)?;
    let granted = record.granted;
    if !matches!(record.stage, LeaseStage::Live) || granted.expires_at <= now {
        return Ok(None);
    }
    let taken = record.shares.iter();
    Ok(Some(HeldLease {
        id: granted.id,
        granted_at: granted.granted_at,
        expires_at: moved(granted.expires_at, now, asked),
        fence: granted.fence,
        taken: taken.map(|share| (share.uid, share.amount)).collect(),
        key: record.owner,
    }))
}
