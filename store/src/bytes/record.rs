//! A lease's record.
//!
//! ```text
//! version u8, id u128, granted i64, expires i64, fence u64, due i64, owner,
//! n u32, n x (uid u32, amount u64, place i64, u8: 1 if it is forgotten, and twice the level
//! at which it is counted, from 1 on, if it is),
//! idempotent u8 [, key], counted u8, stage u8: 0 live, 1 expired,
//! 2 ended: expired u8, n u32, n x (uid u32, taken u64, used u64)
//! ```
//! Byte strings have their length (u32) before them.

use crate::key::MAX_LEVELS;
use crate::ledger::{LeaseStage, Record, Share};
use crate::{Granted, OwnedKey, Settlement, Use};
use tidegate_core::{ChargeReference, DecodeError};

use super::reader::Reader;
use super::version::{of_version, put_bytes};

/// The version written, and the only one that is read: no earlier one was released.
const RECORD: u8 = 4;

/// Appends a record.
pub fn encode_record(record: &Record<OwnedKey>, out: &mut Vec<u8>) {
    out.push(RECORD);
    out.extend(record.granted.id.to_le_bytes());
    out.extend(record.granted.granted_at.as_micros().to_le_bytes());
    out.extend(record.granted.expires_at.as_micros().to_le_bytes());
    out.extend(record.granted.fence.to_le_bytes());
    out.extend(record.due_at().as_micros().to_le_bytes());
    put_bytes(record.owner.bytes(), out);
    out.extend((record.shares.len() as u32).to_le_bytes());
    for share in &record.shares {
        out.extend(share.uid.to_le_bytes());
        out.extend(share.amount.to_le_bytes());
        out.extend(share.reference.as_i64().to_le_bytes());
        let counted_at = share.counted_at.map_or(0, |level| level + 1);
        out.push(u8::from(share.forgotten) + 2 * counted_at);
    }
    out.push(u8::from(record.idempotency().is_some()));
    if let Some(key) = record.idempotency() {
        put_bytes(key, out);
    }
    out.push(u8::from(record.is_counted));
    encode_stage(&record.stage, out);
}

fn encode_stage(stage: &LeaseStage, out: &mut Vec<u8>) {
    match stage {
        LeaseStage::Live => out.push(0),
        LeaseStage::Expired => out.push(1),
        LeaseStage::Ended(settlement) => {
            out.extend([2, u8::from(settlement.expired)]);
            out.extend((settlement.uses.len() as u32).to_le_bytes());
            for part in &settlement.uses {
                out.extend(part.uid.to_le_bytes());
                out.extend(part.taken.to_le_bytes());
                out.extend(part.used.to_le_bytes());
            }
        }
    }
}

/// Reads a record from all of `bytes`.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_record(bytes: &[u8]) -> Result<Record<OwnedKey>, DecodeError> {
    let mut reader = of_version(bytes, RECORD)?;
    let granted = Granted {
        id: reader.u128()?,
        granted_at: reader.instant()?,
        expires_at: reader.instant()?,
        fence: reader.u64()?,
        repeated: false,
    };
    let due_at = reader.instant()?;
    let owner = OwnedKey::new(reader.bytes()?);
    let count = reader.count(21)?;
    let shares: Result<_, _> = (0..count).map(|_| decode_share(&mut reader)).collect();
    let idempotency = match reader.flag("idempotency")? {
        true => Some(reader.bytes()?.into()),
        false => None,
    };
    let mut record = Record::new(owner, shares?, granted).under(idempotency);
    record.is_counted = reader.flag("counted")?;
    record.stage = decode_stage(&mut reader)?;
    reader.end()?;
    Ok(record.due(due_at))
}

fn decode_share(reader: &mut Reader<'_>) -> Result<Share, DecodeError> {
    let (uid, amount) = (reader.u32()?, reader.amount()?);
    let reference = ChargeReference::from_i64(reader.i64()?);
    let marks = reader.u8()?;
    let counted_at = (marks / 2).checked_sub(1);
    if counted_at.is_some_and(|level| usize::from(level) >= MAX_LEVELS) {
        return Err(DecodeError::Corrupt("counted"));
    }
    Ok(Share {
        uid,
        amount,
        reference,
        forgotten: marks % 2 == 1,
        counted_at,
    })
}

fn decode_stage(reader: &mut Reader<'_>) -> Result<LeaseStage, DecodeError> {
    match reader.u8()? {
        0 => Ok(LeaseStage::Live),
        1 => Ok(LeaseStage::Expired),
        2 => {
            let expired = reader.flag("expired")?;
            let count = reader.count(20)?;
            let uses: Result<_, _> = (0..count).map(|_| decode_use(reader)).collect();
            Ok(LeaseStage::Ended(Box::new(Settlement {
                expired,
                repeated: false,
                uses: uses?,
            })))
        }
        _ => Err(DecodeError::Corrupt("stage")),
    }
}

fn decode_use(reader: &mut Reader<'_>) -> Result<Use, DecodeError> {
    Ok(Use {
        uid: reader.u32()?,
        taken: reader.amount()?,
        used: reader.amount()?,
    })
}
