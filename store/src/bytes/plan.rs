//! A plan, and when it came into force.
//!
//! ```text
//! version u8, plan version u64, levels u8, keep u64, adopted i64,
//! n u32, n x calendar: there u8 [, start i64, end i64, next end i64],
//! n u32, n x limit: name, uid u32, level u8, postpaid u8, shadow u8, refund u8, rule
//! [, usage u64: for how long it is kept]
//! rule: kind u8
//!   1 bucket  drain u64, weight u64, burst u64
//!   2 window  capacity u64, align u8: 0 epoch, 1 first use (, period u64), 2 calendar
//!   3 ring    capacity u64, step u64, steps u32
//!   4 log     capacity u64, window u64, entries u32
//!   5 slots   capacity u64, ttl u64
//! ```
//! A plan that counts usage is of another version, and says for how long that is kept at its
//! end: who does not count must not decide by it.

use crate::adopted::Adopted;
use crate::key::MAX_LEVELS;
use crate::{Plan, PlanLimit, rebuild};
use tidegate_core::{Align, Bounds, DecodeError, Log, Payment, Rule, Slots, Span, Window};

use super::reader::Reader;
use super::version::{VERSION, of_version, put_bytes};

/// The version of a plan that counts usage.
const WITH_USAGE: u8 = VERSION + 1;

/// A plan as bytes.
#[must_use]
pub fn encode_plan(plan: &Plan, adopted: &Adopted) -> Vec<u8> {
    let mut out = vec![if plan.usage().is_some() {
        WITH_USAGE
    } else {
        VERSION
    }];
    out.extend(plan.version().to_le_bytes());
    out.push(plan.levels() as u8);
    out.extend(plan.keep().as_micros().to_le_bytes());
    out.extend(adopted.at.as_micros().to_le_bytes());
    out.extend((adopted.calendars.len() as u32).to_le_bytes());
    for calendar in &adopted.calendars {
        encode_calendar(calendar.as_ref(), &mut out);
    }
    out.extend((plan.limits().len() as u32).to_le_bytes());
    for limit in plan.limits() {
        encode_limit(limit, &mut out);
    }
    if let Some(keep) = plan.usage() {
        numbers([keep.as_micros()], &mut out);
    }
    out
}

pub(super) fn encode_calendar(calendar: Option<&Bounds>, out: &mut Vec<u8>) {
    out.push(u8::from(calendar.is_some()));
    if let Some(bounds) = calendar {
        for instant in [bounds.start, bounds.end, bounds.next_end] {
            out.extend(instant.as_micros().to_le_bytes());
        }
    }
}

fn encode_limit(limit: &PlanLimit, out: &mut Vec<u8>) {
    put_bytes(limit.name.as_bytes(), out);
    out.extend(limit.uid.to_le_bytes());
    out.push(limit.level as u8);
    out.push(u8::from(limit.payment == Payment::Postpaid));
    out.push(u8::from(limit.shadow));
    out.push(u8::from(limit.refund_on_expiry));
    encode_rule(&limit.rule, out);
}

pub(crate) fn encode_rule(rule: &Rule, out: &mut Vec<u8>) {
    match rule {
        Rule::Bucket(bucket) => {
            out.push(1);
            numbers([bucket.drain(), bucket.weight(), bucket.capacity()], out);
        }
        Rule::Window(window) => {
            out.push(2);
            numbers([window.capacity()], out);
            encode_align(window.align(), out);
        }
        Rule::Ring(ring) => {
            out.push(3);
            numbers([ring.capacity(), ring.step().as_micros()], out);
            out.extend(ring.steps().to_le_bytes());
        }
        Rule::Log(log) => {
            out.push(4);
            numbers([log.capacity(), log.window().as_micros()], out);
            out.extend(log.max_entries().to_le_bytes());
        }
        Rule::Slots(slots) => {
            out.push(5);
            numbers([slots.capacity(), slots.ttl().as_micros()], out);
        }
    }
}

fn encode_align(align: Align, out: &mut Vec<u8>) {
    let (kind, period) = match align {
        Align::Epoch(period) => (0, period),
        Align::FirstUse(period) => (1, period),
        Align::Calendar => return out.push(2),
    };
    out.push(kind);
    numbers([period.as_micros()], out);
}

fn numbers<const N: usize>(numbers: [u64; N], out: &mut Vec<u8>) {
    numbers.iter().for_each(|n| out.extend(n.to_le_bytes()));
}

/// Reads a plan from all of `bytes`.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_plan(bytes: &[u8]) -> Result<(Plan, Adopted), DecodeError> {
    let counts = bytes.first() != Some(&VERSION);
    let mut reader = of_version(bytes, if counts { WITH_USAGE } else { VERSION })?;
    let (version, levels) = (reader.u64()?, usize::from(reader.u8()?));
    if !(1..=MAX_LEVELS).contains(&levels) {
        return Err(DecodeError::Corrupt("levels"));
    }
    let (keep, at) = (Span::from_micros(reader.u64()?), reader.instant()?);
    let count = reader.count(1)?;
    let calendars: Result<_, _> = (0..count).map(|_| decode_calendar(&mut reader)).collect();
    let adopted = Adopted {
        at,
        calendars: calendars?,
    };
    let count = reader.count(13)?;
    let limits: Result<_, _> = (0..count)
        .map(|_| decode_limit(&mut reader, levels))
        .collect();
    let usage = counts.then(|| span(&mut reader)).transpose()?;
    reader.end()?;
    let plan = Plan::new(version, levels, limits?, keep).counting_usage(usage);
    Ok((plan, adopted))
}

pub(super) fn decode_calendar(reader: &mut Reader<'_>) -> Result<Option<Bounds>, DecodeError> {
    if !reader.flag("calendar")? {
        return Ok(None);
    }
    Ok(Some(Bounds {
        start: reader.instant()?,
        end: reader.instant()?,
        next_end: reader.instant()?,
    }))
}

fn decode_limit(reader: &mut Reader<'_>, levels: usize) -> Result<PlanLimit, DecodeError> {
    let name = std::str::from_utf8(reader.bytes()?).map_err(|_| DecodeError::Corrupt("name"))?;
    let (uid, level) = (reader.u32()?, usize::from(reader.u8()?));
    if level >= levels {
        return Err(DecodeError::Corrupt("level"));
    }
    let postpaid = reader.flag("payment")?;
    Ok(PlanLimit {
        name: name.into(),
        uid,
        level,
        payment: match postpaid {
            true => Payment::Postpaid,
            false => Payment::Prepaid,
        },
        shadow: reader.flag("shadow")?,
        refund_on_expiry: reader.flag("refund")?,
        adaptive: None,
        rule: decode_rule(reader)?,
    })
}

pub(crate) fn decode_rule(reader: &mut Reader<'_>) -> Result<Rule, DecodeError> {
    let rule = match reader.u8()? {
        1 => rebuild::bucket(reader.u64()?, reader.u64()?, reader.u64()?).map(Rule::Bucket),
        2 => Window::new(reader.u64()?, decode_align(reader)?).map(Rule::Window),
        3 => rebuild::ring(reader.u64()?, span(reader)?, reader.u32()?).map(Rule::Ring),
        4 => Log::new(reader.u64()?, span(reader)?, reader.u32()?).map(Rule::Log),
        5 => Slots::new(reader.u64()?, span(reader)?).map(Rule::Slots),
        _ => return Err(DecodeError::Corrupt("rule")),
    };
    rule.map_err(|_| DecodeError::Corrupt("rule"))
}

fn span(reader: &mut Reader<'_>) -> Result<Span, DecodeError> {
    Ok(Span::from_micros(reader.u64()?))
}

fn decode_align(reader: &mut Reader<'_>) -> Result<Align, DecodeError> {
    match reader.u8()? {
        0 => Ok(Align::Epoch(span(reader)?)),
        1 => Ok(Align::FirstUse(span(reader)?)),
        2 => Ok(Align::Calendar),
        _ => Err(DecodeError::Corrupt("align")),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::{Bucket, Timestamp};

    use super::*;
    use crate::Adaptive;

    fn plan(burst: u64, adaptive: Option<Adaptive>) -> Plan {
        let limit = PlanLimit {
            name: "upstream".into(),
            uid: 7,
            rule: Rule::Bucket(Bucket::new(5, Span::SECOND, burst).expect("a bucket")),
            level: 0,
            payment: Payment::Prepaid,
            shadow: false,
            refund_on_expiry: false,
            adaptive,
        };
        Plan::new(3, 1, vec![limit], Span::from_secs(60))
    }

    /// The bytes do not say which limits are adaptive. Stores took a plan that has such for
    /// another than what they had written of it, and made a revision at each opening.
    #[test]
    fn a_plan_that_is_opened_again_has_the_limits_that_were_written_of_it() {
        let learnt = Adaptive::default();
        learnt.set(2);
        let (at, calendars) = (Timestamp::MIN, Vec::new());
        let adopted = Adopted { at, calendars };
        for adaptive in [None, Some(Adaptive::default()), Some(learnt)] {
            let opened = plan(9, adaptive);
            let bytes = encode_plan(&opened, &adopted);
            let (read, _) = decode_plan(&bytes).expect("it was written just now");
            assert!(read.has_limits_of(&opened) && opened.has_limits_of(&read));
            assert!(!read.has_limits_of(&plan(8, None)));
        }
    }
}
