//! The bytes of what is kept of a root beside its rows.
//!
//! ```text
//! process    namespace u64, pid u32, start u64
//! overview   waiting u32, next number u64
//! lease      due i64, sequence u64, process, idempotent u8 [, its key], its record
//! used       over at i64, keep until i64, amount u64
//! waiter     turn u128, process, wakeup slot u32, number u32, levels u8, its key's path
//! ```
//! Little-endian; byte strings have their length (u32) before them.

use tidegate_store::bytes::Reader;
use tidegate_store::core::{DecodeError, Timestamp};

use crate::process::Process;
use crate::tree::Bytes;

/// Nobody: a lease that ends with no process.
pub(crate) const NOBODY: Process = Process {
    namespace: 0,
    pid: 0,
    start: 0,
};

/// What is to be known of a root at every look.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Overview {
    /// How many requests wait.
    pub(crate) waiting: u32,
    /// The number of the next that waits.
    pub(crate) next: u64,
}

/// What is kept of a lease before its record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Lease<'b> {
    pub(crate) due: Timestamp,
    pub(crate) sequence: u64,
    /// With which it ends.
    pub(crate) process: Process,
    pub(crate) idempotency_key: Option<&'b [u8]>,
    pub(crate) record: &'b [u8],
}

/// What was used of a row and a limit in an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Used {
    /// From when on it is listed no more, and from when on it may go.
    pub(crate) over_at: Timestamp,
    pub(crate) keep_until: Timestamp,
    pub(crate) amount: u64,
}

/// One that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    pub(crate) turn: u128,
    pub(crate) process: Process,
    /// The wakeup slot of its process, and which of its requests is woken.
    pub(crate) wakeup_slot: u32,
    pub(crate) number: u32,
    /// The levels of its path for whose rows it waits.
    pub(crate) levels: u8,
    pub(crate) key: Vec<u8>,
}

fn put_process(process: Process, out: &mut Bytes) {
    out.extend_from_slice(&process.namespace.to_le_bytes());
    out.extend_from_slice(&process.pid.to_le_bytes());
    out.extend_from_slice(&process.start.to_le_bytes());
}

fn process(reader: &mut Reader<'_>) -> Result<Process, DecodeError> {
    Ok(Process {
        namespace: reader.u64()?,
        pid: reader.u32()?,
        start: reader.u64()?,
    })
}

fn put_bytes(bytes: &[u8], out: &mut Bytes) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl Overview {
    pub(crate) fn encode(self) -> Bytes {
        let mut out = Bytes::new();
        out.extend_from_slice(&self.waiting.to_le_bytes());
        out.extend_from_slice(&self.next.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            waiting: reader.u32()?,
            next: reader.u64()?,
        })
    }
}

impl<'b> Lease<'b> {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Bytes::new();
        out.extend_from_slice(&self.due.as_micros().to_le_bytes());
        out.extend_from_slice(&self.sequence.to_le_bytes());
        put_process(self.process, &mut out);
        out.push(u8::from(self.idempotency_key.is_some()));
        if let Some(key) = self.idempotency_key {
            put_bytes(key, &mut out);
        }
        out.extend_from_slice(self.record);
        out
    }

    pub(crate) fn decode(bytes: &'b [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            due: reader.instant()?,
            sequence: reader.u64()?,
            process: process(&mut reader)?,
            idempotency_key: match reader.flag("idempotency")? {
                true => Some(reader.bytes()?),
                false => None,
            },
            record: reader.rest(),
        })
    }
}

impl Used {
    pub(crate) fn encode(self) -> Bytes {
        let mut out = Bytes::new();
        out.extend_from_slice(&self.over_at.as_micros().to_le_bytes());
        out.extend_from_slice(&self.keep_until.as_micros().to_le_bytes());
        out.extend_from_slice(&self.amount.to_le_bytes());
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            over_at: reader.instant()?,
            keep_until: reader.instant()?,
            amount: reader.u64()?,
        })
    }
}

impl Waiter {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Bytes::new();
        out.extend_from_slice(&self.turn.to_le_bytes());
        put_process(self.process, &mut out);
        out.extend_from_slice(&self.wakeup_slot.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(self.levels);
        out.extend_from_slice(&self.key);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        Ok(Self {
            turn: reader.u128()?,
            process: process(&mut reader)?,
            wakeup_slot: reader.u32()?,
            number: reader.u32()?,
            levels: reader.u8()?,
            key: reader.rest().to_vec(),
        })
    }
}
