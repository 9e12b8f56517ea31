//! A state as bytes, with a version, so that an old one is read and a newer or
//! broken one refused: never misread.
//!
//! ```text
//! byte 0      format version: the first one that has the kind
//! byte 1      kind: 0 fresh, 1 bucket, 2 window, 3 ring, 4 log, 5 slots;
//!             since version 2: 6 bucket with low_water;
//!             since version 3: 7 bucket of which some is forgiven
//! then        fixed-width little-endian fields of the kind:
//!   bucket    level u128, at i64
//!   with low_water level u128, at i64, since i64, last i64, n u32 (at most 32),
//!             n x (number i64, level u128), both ascending, since..=last
//!   window    start i64, end i64, used u64
//!   ring      n u32, n x (index i64, count u64)
//!   log       n u32, n x (instant i64, amount u64)
//!   forgiven  forgiven u128, until i64, 1 or 6, then as that kind
//!   slots     at i64, fence u64, n u32, n x (expires i64, id u128, weight u64)
//! ```
//! Sequences ascend in their first field; at the ends of time it may repeat.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::amount::MAX_AMOUNT;
use crate::error::DecodeError;
use crate::kernel::{bucket, log, ring, slots, window};
use crate::rule::State;
use crate::time::Timestamp;

/// The newest format version that is written and read.
pub const VERSION: u8 = 3;

/// What every version has had: the kinds up to slots.
const FIRST_VERSION: u8 = 1;

/// The first one that has [`WITH_LOW_WATER`].
const SECOND_VERSION: u8 = 2;

/// The kind of a bucket with low-water marks.
const WITH_LOW_WATER: u8 = 6;

/// The kind of a bucket of which some is forgiven.
const FORGIVEN: u8 = 7;

/// Appends the bytes of `state` to `out`.
pub fn encode(state: &State, out: &mut Vec<u8>) {
    out.push(match state {
        State::Bucket(state) if state.forgiven.is_some() => VERSION,
        State::Bucket(state) if state.low_water.get().is_some() => SECOND_VERSION,
        _ => FIRST_VERSION,
    });
    match state {
        State::Fresh => out.push(0),
        State::Bucket(state) => encode_bucket(state, out),
        State::Window(state) => encode_window(state, out),
        State::Ring(state) => {
            out.push(3);
            encode_pairs(state.counts.iter().copied(), out);
        }
        State::Log(state) => {
            out.push(4);
            encode_pairs(
                state.entries.iter().map(|&(at, n)| (at.as_micros(), n)),
                out,
            );
        }
        State::Slots(state) => encode_slots(state, out),
    }
}

/// Reads a state from all of `bytes`.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode(bytes: &[u8]) -> Result<State, DecodeError> {
    let mut reader = Reader(bytes);
    let version = match reader.u8()? {
        version @ FIRST_VERSION..=VERSION => version,
        0 => return Err(DecodeError::Corrupt("version")),
        version => {
            return Err(DecodeError::Newer {
                version,
                reads: VERSION,
            });
        }
    };
    let state = match (version, reader.u8()?) {
        (FIRST_VERSION, 0) => State::Fresh,
        (FIRST_VERSION, 1) => State::Bucket(decode_bucket(&mut reader)?),
        (FIRST_VERSION, 2) => State::Window(decode_window(&mut reader)?),
        (FIRST_VERSION, 3) => State::Ring(Box::new(decode_ring(&mut reader)?)),
        (FIRST_VERSION, 4) => State::Log(Box::new(decode_log(&mut reader)?)),
        (FIRST_VERSION, 5) => State::Slots(Box::new(decode_slots(&mut reader)?)),
        (SECOND_VERSION, WITH_LOW_WATER) => State::Bucket(decode_with_low_water(&mut reader)?),
        (VERSION, FORGIVEN) => State::Bucket(decode_forgiven(&mut reader)?),
        _ => return Err(DecodeError::Corrupt("kind")),
    };
    match reader.0 {
        [] => Ok(state),
        _ => Err(DecodeError::Corrupt("bytes after the state")),
    }
}

fn encode_bucket(state: &bucket::State, out: &mut Vec<u8>) {
    if let Some(forgiven) = &state.forgiven {
        out.push(FORGIVEN);
        out.extend(forgiven.level.to_le_bytes());
        out.extend(forgiven.until.as_micros().to_le_bytes());
    }
    out.push(if state.low_water.get().is_some() {
        WITH_LOW_WATER
    } else {
        1
    });
    out.extend(state.level.to_le_bytes());
    out.extend(state.at.as_micros().to_le_bytes());
    if let Some(low_water) = state.low_water.get() {
        encode_low_water(low_water, out);
    }
}

fn encode_low_water(low_water: &bucket::Marks, out: &mut Vec<u8>) {
    out.extend(low_water.since.to_le_bytes());
    out.extend(low_water.last.to_le_bytes());
    out.extend((low_water.marks.len() as u32).to_le_bytes());
    for mark in &low_water.marks {
        out.extend(mark.number.to_le_bytes());
        out.extend(mark.level.to_le_bytes());
    }
}

fn encode_window(state: &window::State, out: &mut Vec<u8>) {
    out.push(2);
    out.extend(state.start.as_micros().to_le_bytes());
    out.extend(state.end.as_micros().to_le_bytes());
    out.extend(state.used.to_le_bytes());
}

fn encode_pairs(pairs: impl ExactSizeIterator<Item = (i64, u64)>, out: &mut Vec<u8>) {
    out.extend((pairs.len() as u32).to_le_bytes());
    for (first, second) in pairs {
        out.extend(first.to_le_bytes());
        out.extend(second.to_le_bytes());
    }
}

fn encode_slots(state: &slots::State, out: &mut Vec<u8>) {
    out.push(5);
    out.extend(state.at.as_micros().to_le_bytes());
    out.extend(state.fence.to_le_bytes());
    out.extend((state.holders.len() as u32).to_le_bytes());
    for holder in &state.holders {
        out.extend(holder.expires_at.as_micros().to_le_bytes());
        out.extend(holder.id.to_le_bytes());
        out.extend(holder.weight.to_le_bytes());
    }
}

fn decode_bucket(reader: &mut Reader<'_>) -> Result<bucket::State, DecodeError> {
    Ok(bucket::State {
        level: reader.level()?,
        at: reader.instant()?,
        low_water: bucket::LowWaterMarks::NONE,
        forgiven: None,
    })
}

fn decode_forgiven(reader: &mut Reader<'_>) -> Result<bucket::State, DecodeError> {
    let (level, until) = (reader.level()?, reader.instant()?);
    if level == 0 {
        return Err(DecodeError::Corrupt("nothing is forgiven"));
    }
    let state = match reader.u8()? {
        1 => decode_bucket(reader)?,
        WITH_LOW_WATER => decode_with_low_water(reader)?,
        _ => return Err(DecodeError::Corrupt("kind")),
    };
    Ok(bucket::State {
        forgiven: Some(Box::new(bucket::Forgiven { level, until })),
        ..state
    })
}

fn decode_with_low_water(reader: &mut Reader<'_>) -> Result<bucket::State, DecodeError> {
    let state = decode_bucket(reader)?;
    let (since, last) = (reader.i64()?, reader.i64()?);
    if since > last {
        return Err(DecodeError::Corrupt("order"));
    }
    let marks = decode_marks(reader, since, last)?;
    let low_water = bucket::Marks { since, last, marks };
    Ok(bucket::State {
        low_water: bucket::LowWaterMarks::of(low_water),
        ..state
    })
}

fn decode_marks(
    reader: &mut Reader<'_>,
    since: i64,
    last: i64,
) -> Result<Vec<bucket::Mark>, DecodeError> {
    let count = reader.count(24)?;
    if count > bucket::MOST_MARKS {
        return Err(DecodeError::Corrupt("count"));
    }
    let mut marks: Vec<bucket::Mark> = Vec::with_capacity(count);
    for _ in 0..count {
        let (number, level) = (reader.i64()?, reader.level()?);
        let after = |mark: &bucket::Mark| mark.number < number && mark.level < level;
        if !(since..=last).contains(&number) || !marks.last().is_none_or(after) {
            return Err(DecodeError::Corrupt("order"));
        }
        marks.push(bucket::Mark { number, level });
    }
    Ok(marks)
}

fn decode_window(reader: &mut Reader<'_>) -> Result<window::State, DecodeError> {
    let (start, end) = (reader.instant()?, reader.instant()?);
    if start > end {
        return Err(DecodeError::Corrupt("window ends before it starts"));
    }
    let used = reader.amount()?;
    Ok(window::State { start, end, used })
}

fn decode_ring(reader: &mut Reader<'_>) -> Result<ring::State, DecodeError> {
    let (counts, _) = decode_pairs(reader)?;
    Ok(ring::State { counts })
}

fn decode_log(reader: &mut Reader<'_>) -> Result<log::State, DecodeError> {
    let (pairs, total) = decode_pairs(reader)?;
    let entries = pairs
        .into_iter()
        .map(|(at, n)| (Timestamp::from_micros(at), n));
    Ok(log::State {
        entries: entries.collect(),
        total,
    })
}

/// Pairs in ascending order, and the sum of their amounts.
fn decode_pairs(reader: &mut Reader<'_>) -> Result<(VecDeque<(i64, u64)>, u64), DecodeError> {
    let count = reader.count(16)?;
    let mut pairs: VecDeque<(i64, u64)> = VecDeque::with_capacity(count);
    let mut total = 0;
    for _ in 0..count {
        let (first, amount) = (i64::from_le_bytes(reader.take()?), reader.amount()?);
        if pairs.back().is_some_and(|&(last, _)| last > first) {
            return Err(DecodeError::Corrupt("order"));
        }
        total += amount;
        if total > MAX_AMOUNT {
            return Err(DecodeError::Corrupt("total"));
        }
        pairs.push_back((first, amount));
    }
    Ok((pairs, total))
}

fn decode_slots(reader: &mut Reader<'_>) -> Result<slots::State, DecodeError> {
    let (at, fence) = (reader.instant()?, u64::from_le_bytes(reader.take()?));
    let count = reader.count(32)?;
    let mut holders: VecDeque<slots::Holder> = VecDeque::with_capacity(count);
    let mut total = 0;
    for _ in 0..count {
        let holder = slots::Holder {
            expires_at: reader.instant()?,
            id: u128::from_le_bytes(reader.take()?),
            weight: reader.amount()?,
        };
        if holders
            .back()
            .is_some_and(|last| last.expires_at > holder.expires_at)
        {
            return Err(DecodeError::Corrupt("order"));
        }
        total += holder.weight;
        if total > MAX_AMOUNT {
            return Err(DecodeError::Corrupt("total"));
        }
        holders.push_back(holder);
    }
    Ok(slots::State {
        holders,
        total,
        fence,
        at,
    })
}

/// Reads from the front of a slice, and never past its end.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take::<1>()?[0])
    }

    fn i64(&mut self) -> Result<i64, DecodeError> {
        Ok(i64::from_le_bytes(self.take()?))
    }

    fn instant(&mut self) -> Result<Timestamp, DecodeError> {
        Ok(Timestamp::from_micros(self.i64()?))
    }

    /// A bucket's level: no brim and debt together reach 2^102.
    fn level(&mut self) -> Result<u128, DecodeError> {
        let level = u128::from_le_bytes(self.take()?);
        if level >> 102 != 0 {
            return Err(DecodeError::Corrupt("level"));
        }
        Ok(level)
    }

    fn amount(&mut self) -> Result<u64, DecodeError> {
        let amount = u64::from_le_bytes(self.take()?);
        if amount > MAX_AMOUNT {
            return Err(DecodeError::Corrupt("amount"));
        }
        Ok(amount)
    }

    /// A count of records of `size` bytes, all of which must be there.
    fn count(&mut self, size: usize) -> Result<usize, DecodeError> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        if self.0.len() < count.saturating_mul(size) {
            return Err(DecodeError::Truncated);
        }
        Ok(count)
    }
}
