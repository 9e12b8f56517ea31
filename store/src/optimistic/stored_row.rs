//! The bytes of a row as a backend keeps them.
//!
//! ```text
//! version u8, the instant it was written at i64,
//! a root's? u8 [, the revision up to which its leases followed changes u32,
//!               the next lease's sequence number u64, until when it is kept i64],
//! a row as `bytes` has it, with the number of its revision
//! ```
//! One that retains something of limits that its revision does not know is of another
//! version, and has that before the row.

use crate::bytes::{Reader, decode_row, encode_own, encode_row, row_head, versioned};
use tidegate_core::{DecodeError, Rule, State, Timestamp};

use crate::decide::Row;
use crate::plan::PlanLimit;
use crate::retained::Retained;
use crate::retained::{decode_retained, encode_retained};

/// The version of most rows.
const VERSION: u8 = crate::bytes::VERSION;

/// The version of a row that retains something.
const RETAINS: u8 = VERSION + 1;

/// A row as it was kept.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct StoredRow {
    /// When it was written.
    pub(crate) latest: Timestamp,
    /// What a root's row says beside its states.
    pub(crate) head: Option<RootHeader>,
    /// The revision that wrote it.
    pub(crate) revision: u32,
    /// What it has of limits that its revision does not know.
    pub(crate) retained: Vec<Retained>,
    /// The rules it goes by, if they are not its revision's.
    pub(crate) own: Option<Vec<Rule>>,
    pub(crate) states: Row,
}

/// What a root's row says of everything below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RootHeader {
    /// The revision up to which its leases followed changes of limits.
    pub(crate) followed: u32,
    /// The sequence number of the next lease that is written.
    pub(crate) sequence: u64,
    /// From when on nothing below the root is needed any more.
    pub(crate) until: Timestamp,
}

/// By what limits a row's states go, and what it has beside them.
pub(crate) struct Limits<'a> {
    pub(crate) revision: u32,
    pub(crate) own: Option<&'a [PlanLimit]>,
    pub(crate) retained: &'a [Retained],
}

/// Appends a row.
pub(crate) fn encode(
    latest: Timestamp,
    head: Option<&RootHeader>,
    limits: &Limits<'_>,
    states: &[State],
    out: &mut Vec<u8>,
) {
    let retains = !limits.retained.is_empty();
    out.push(if retains { RETAINS } else { VERSION });
    out.extend(latest.as_micros().to_le_bytes());
    out.push(u8::from(head.is_some()));
    if let Some(head) = head {
        out.extend(head.followed.to_le_bytes());
        out.extend(head.sequence.to_le_bytes());
        out.extend(head.until.as_micros().to_le_bytes());
    }
    if retains {
        encode_retained(limits.retained, out);
    }
    out.extend(row_head(limits.revision, limits.own.is_some()));
    if let Some(own) = limits.own {
        encode_own(own, out);
    }
    encode_row(states, out);
}

pub(crate) fn decode(bytes: &[u8]) -> Result<StoredRow, DecodeError> {
    let retains = bytes.first() == Some(&RETAINS);
    let mut reader = match retains {
        true => Reader::new(&bytes[1..]),
        false => versioned(bytes)?,
    };
    let latest = reader.instant()?;
    let head = match reader.flag("root")? {
        false => None,
        true => Some(RootHeader {
            followed: reader.u32()?,
            sequence: reader.u64()?,
            until: reader.instant()?,
        }),
    };
    let retained = match retains {
        true => decode_retained(&mut reader)?,
        false => Vec::new(),
    };
    let row = decode_row(reader.rest())?;
    Ok(StoredRow {
        latest,
        head,
        revision: row.serial,
        retained,
        own: row.own,
        states: row.states,
    })
}
