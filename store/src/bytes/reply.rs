//! What a store answers, on its way to another process.
//!
//! ```text
//! answer: ok u8: 0 (, error), 1 (, reply)
//! reply: kind u8: 0 done, 1 verdict, 2 decision, 3 partial, 4 settled, 5 keys, 6 leases, 7 usage,
//!        8 count, 9 batch (, n u32, n x answer: none of them a batch)
//! error: kind u8, and what it says: see `put_error`
//! verdict: kind u8: 0 admit, 1 not until (, i64), 2 never
//! page: n u32, n x item, next: there u8 [, bytes]
//! ```
//! It has no version: whatever it is a part of has one.

use tidegate_core::{DecodeError, Standing, Verdict};

use super::reader::Reader;
use super::writer::Writer;
use crate::error::StoreError;
use crate::listing::{HeldLease, Page, Taken};
use crate::owned::OwnedKey;
use crate::reply::{Answer, Count, Decision, Granted, Partial, Reply, Settlement, Use};
use crate::usage::{Hour, Usage};

/// Appends an answer. A decision that came short goes in full.
pub fn encode_answer(answer: &Answer, out: &mut Writer) {
    match answer {
        Err(error) => encode_error(error, out.u8(0)),
        Ok(reply) => put_reply(out.u8(1), reply),
    }
}

/// Reads an answer.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_answer(reader: &mut Reader<'_>) -> Result<Answer, DecodeError> {
    answer(reader, true)
}

fn answer(reader: &mut Reader<'_>, may_be_batch: bool) -> Result<Answer, DecodeError> {
    match reader.flag("answer")? {
        false => Ok(Err(decode_error(reader)?)),
        true => Ok(Ok(reply(reader, may_be_batch)?)),
    }
}

fn put_reply(out: &mut Writer, reply: &Reply) {
    match reply {
        Reply::Done => _ = out.u8(0),
        Reply::Verdict(verdict) => put_verdict(out.u8(1), *verdict),
        Reply::One(..) => {
            let in_full = reply.clone().decision();
            let in_full = in_full.unwrap_or_else(|_| Decision::bare(Verdict::Never, None));
            put_decision(out.u8(2), &in_full);
        }
        Reply::Decision(decision) => put_decision(out.u8(2), decision),
        Reply::Partial(partial) => {
            put_decision(out.u8(3), &partial.decision);
            let amounts = partial.amounts.iter();
            out.list(amounts, |out, amount| _ = out.u64(*amount));
            out.instant(partial.good_until);
        }
        Reply::Settled(settlement) => put_settlement(out.u8(4), settlement),
        Reply::Keys(page) => {
            encode_page(page, out.u8(5), |out, key| _ = out.bytes(key.bytes()));
        }
        Reply::Leases(page) => encode_page(page, out.u8(6), put_lease),
        Reply::Usage(page) => encode_page(page, out.u8(7), put_usage),
        Reply::Count(count) => {
            out.u8(8).size(count.keys);
            out.option(count.leases, |out, leases| _ = out.size(leases));
            out.option(count.remembered, |out, ended| _ = out.size(ended));
        }
        Reply::Batch(answers) => {
            out.u8(9)
                .list(answers.iter(), |out, answer| encode_answer(answer, out));
        }
    }
}

fn reply(reader: &mut Reader<'_>, may_be_batch: bool) -> Result<Reply, DecodeError> {
    Ok(match reader.u8()? {
        0 => Reply::Done,
        1 => Reply::Verdict(verdict(reader)?),
        2 => Reply::Decision(decision(reader)?),
        3 => Reply::Partial(Box::new(Partial {
            decision: decision(reader)?,
            amounts: reader.list(8, Reader::amount)?.into(),
            good_until: reader.instant()?,
        })),
        4 => Reply::Settled(settlement(reader)?),
        5 => Reply::Keys(decode_page(reader, 4, |reader| {
            Ok(OwnedKey::new(reader.bytes()?))
        })?),
        6 => Reply::Leases(decode_page(reader, 48, lease)?),
        7 => Reply::Usage(decode_page(reader, 20, usage)?),
        8 => Reply::Count(Count {
            keys: reader.size()?,
            leases: reader.option("leases", Reader::size)?,
            remembered: reader.option("remembered", Reader::size)?,
        }),
        9 if may_be_batch => Reply::Batch(reader.list(2, |reader| answer(reader, false))?),
        _ => return Err(DecodeError::Corrupt("reply")),
    })
}

fn put_verdict(out: &mut Writer, verdict: Verdict) {
    match verdict {
        Verdict::Admit => out.u8(0),
        Verdict::NotUntil(at) => out.u8(1).instant(at),
        Verdict::Never => out.u8(2),
    };
}

fn verdict(reader: &mut Reader<'_>) -> Result<Verdict, DecodeError> {
    match reader.u8()? {
        0 => Ok(Verdict::Admit),
        1 => Ok(Verdict::NotUntil(reader.instant()?)),
        2 => Ok(Verdict::Never),
        _ => Err(DecodeError::Corrupt("verdict")),
    }
}

fn put_decision(out: &mut Writer, decision: &Decision) {
    put_verdict(out, decision.verdict);
    out.option(decision.binding, |out, limit| _ = out.size(limit));
    out.u8(decision.refused_levels);
    out.option(decision.refund_at, |out, at| _ = out.instant(at));
    out.flag(decision.shadowed);
    out.list(decision.standings.iter(), |out, standing| {
        out.option(standing.as_ref(), put_standing);
    });
    out.option(decision.lease.as_ref(), put_granted);
}

fn decision(reader: &mut Reader<'_>) -> Result<Decision, DecodeError> {
    let mut decision = Decision::bare(verdict(reader)?, reader.option("binding", Reader::size)?);
    decision.refused_levels = reader.u8()?;
    decision.refund_at = reader.option("refund", Reader::instant)?;
    decision.shadowed = reader.flag("shadowed")?;
    decision.standings = reader
        .list(1, |reader| reader.option("standing", standing))?
        .into();
    decision.lease = reader.option("lease", granted)?;
    Ok(decision)
}

fn put_standing(out: &mut Writer, standing: &Standing) {
    out.u64(standing.limit).u64(standing.remaining);
    out.u64(standing.debt);
    out.option(standing.replenish_at, |out, at| _ = out.instant(at));
    out.option(standing.full_at, |out, at| _ = out.instant(at));
}

fn standing(reader: &mut Reader<'_>) -> Result<Standing, DecodeError> {
    Ok(Standing {
        limit: reader.u64()?,
        remaining: reader.u64()?,
        debt: reader.u64()?,
        replenish_at: reader.option("replenish", Reader::instant)?,
        full_at: reader.option("full", Reader::instant)?,
    })
}

fn put_granted(out: &mut Writer, granted: &Granted) {
    out.u128(granted.id).instant(granted.granted_at);
    out.instant(granted.expires_at).u64(granted.fence);
    out.flag(granted.repeated);
}

fn granted(reader: &mut Reader<'_>) -> Result<Granted, DecodeError> {
    Ok(Granted {
        id: reader.u128()?,
        granted_at: reader.instant()?,
        expires_at: reader.instant()?,
        fence: reader.u64()?,
        repeated: reader.flag("repeated")?,
    })
}

fn put_settlement(out: &mut Writer, settlement: &Settlement) {
    out.flag(settlement.expired).flag(settlement.repeated);
    out.list(settlement.uses.iter(), |out, part| {
        out.u32(part.uid).u64(part.taken).u64(part.used);
    });
}

fn settlement(reader: &mut Reader<'_>) -> Result<Settlement, DecodeError> {
    Ok(Settlement {
        expired: reader.flag("expired")?,
        repeated: reader.flag("repeated")?,
        uses: reader.list(20, used)?.into(),
    })
}

fn used(reader: &mut Reader<'_>) -> Result<Use, DecodeError> {
    Ok(Use {
        uid: reader.u32()?,
        taken: reader.amount()?,
        used: reader.amount()?,
    })
}

fn put_lease(out: &mut Writer, lease: &HeldLease) {
    out.bytes(lease.key.bytes()).u128(lease.id);
    out.instant(lease.granted_at).instant(lease.expires_at);
    out.u64(lease.fence);
    let taken = lease.taken.iter();
    out.list(taken, |out, (uid, amount)| _ = out.u32(*uid).u64(*amount));
}

fn lease(reader: &mut Reader<'_>) -> Result<HeldLease, DecodeError> {
    Ok(HeldLease {
        key: OwnedKey::new(reader.bytes()?),
        id: reader.u128()?,
        granted_at: reader.instant()?,
        expires_at: reader.instant()?,
        fence: reader.u64()?,
        taken: taken(reader)?,
    })
}

/// Charges of one limit may have added up to more than an amount can be: no sum of them.
fn taken(reader: &mut Reader<'_>) -> Result<Taken, DecodeError> {
    let charges = reader.list(12, |reader| Ok((reader.u32()?, reader.u64()?)))?;
    let mut uids: Vec<u32> = charges.iter().map(|(uid, _)| *uid).collect();
    uids.sort_unstable();
    uids.dedup();
    match uids.len() == charges.len() {
        true => Ok(charges.into_iter().collect()),
        false => Err(DecodeError::Corrupt("taken")),
    }
}

fn put_usage(out: &mut Writer, usage: &Usage) {
    out.bytes(usage.key.bytes()).bytes(usage.limit.as_bytes());
    out.u32(usage.hour.number()).u64(usage.amount);
}

fn usage(reader: &mut Reader<'_>) -> Result<Usage, DecodeError> {
    Ok(Usage {
        key: OwnedKey::new(reader.bytes()?),
        limit: reader.text("limit")?.into(),
        hour: Hour::new(reader.u32()?),
        amount: reader.u64()?,
    })
}

/// Appends a page, each item by `write`.
pub fn encode_page<T>(page: &Page<T>, out: &mut Writer, write: impl FnMut(&mut Writer, &T)) {
    out.list(page.items.iter(), write);
    out.option(page.next.as_ref(), |out, next| _ = out.bytes(next));
}

/// Reads a page of items of at least `size` bytes, each by `read`.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_page<'a, T>(
    reader: &mut Reader<'a>,
    size: usize,
    read: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<Page<T>, DecodeError> {
    Ok(Page {
        items: reader.list(size, read)?,
        next: reader.option("next", Reader::bytes)?.map(<[u8]>::to_vec),
    })
}

/// Appends an error: its number, and what it says.
pub fn encode_error(error: &StoreError, out: &mut Writer) {
    match error {
        StoreError::KeysFull { max_keys } => out.u8(0).size(*max_keys),
        StoreError::RootKeysFull { max_keys_per_root } => out.u8(1).size(*max_keys_per_root),
        StoreError::LeasesFull { max_leases } => out.u8(2).size(*max_leases),
        StoreError::RootLeasesFull {
            max_leases_per_root,
        } => out.u8(3).size(*max_leases_per_root),
        StoreError::UsageFull { max_usage } => out.u8(4).size(*max_usage),
        StoreError::Full(words) => out.u8(5).bytes(words.as_bytes()),
        StoreError::InUse(name) => out.u8(6).bytes(name.as_bytes()),
        StoreError::OtherLevels { name, kept, wanted } => {
            out.u8(7).bytes(name.as_bytes()).size(*kept).size(*wanted)
        }
        StoreError::UnknownLease => out.u8(8),
        StoreError::LeaseEnded(at) => out.u8(9).instant(*at),
        StoreError::StalePlan => out.u8(10),
        StoreError::DuplicateLease => out.u8(11),
        StoreError::CannotList => out.u8(12),
        StoreError::CannotCount => out.u8(13),
        StoreError::CannotClear => out.u8(14),
        StoreError::TableGone(words) => out.u8(15).bytes(words.as_bytes()),
        StoreError::UnknownPage => out.u8(16),
        StoreError::Unreadable(DecodeError::Newer { version, reads }) => {
            out.u8(17).u8(*version).u8(*reads)
        }
        StoreError::Unreadable(DecodeError::Truncated) => out.u8(18),
        StoreError::Unreadable(_) => out.u8(19),
        StoreError::Mismatch => out.u8(20),
        StoreError::Busy(words) => out.u8(21).bytes(words.as_bytes()),
        StoreError::Unavailable(words) => out.u8(22).bytes(words.as_bytes()),
        StoreError::CannotDefine(words) => out.u8(23).bytes(words.as_bytes()),
    };
}

/// Reads an error. What exactly a store cannot read of what it keeps stays with it.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_error(reader: &mut Reader<'_>) -> Result<StoreError, DecodeError> {
    Ok(match reader.u8()? {
        0 => StoreError::KeysFull {
            max_keys: reader.size()?,
        },
        1 => StoreError::RootKeysFull {
            max_keys_per_root: reader.size()?,
        },
        2 => StoreError::LeasesFull {
            max_leases: reader.size()?,
        },
        3 => StoreError::RootLeasesFull {
            max_leases_per_root: reader.size()?,
        },
        4 => StoreError::UsageFull {
            max_usage: reader.size()?,
        },
        5 => StoreError::Full(reader.text("words")?.to_owned()),
        6 => StoreError::InUse(reader.text("name")?.to_owned()),
        7 => StoreError::OtherLevels {
            name: reader.text("name")?.to_owned(),
            kept: reader.size()?,
            wanted: reader.size()?,
        },
        8 => StoreError::UnknownLease,
        9 => StoreError::LeaseEnded(reader.instant()?),
        10 => StoreError::StalePlan,
        11 => StoreError::DuplicateLease,
        12 => StoreError::CannotList,
        13 => StoreError::CannotCount,
        14 => StoreError::CannotClear,
        15 => StoreError::TableGone(reader.text("words")?.to_owned()),
        16 => StoreError::UnknownPage,
        17 => StoreError::Unreadable(DecodeError::Newer {
            version: reader.u8()?,
            reads: reader.u8()?,
        }),
        18 => StoreError::Unreadable(DecodeError::Truncated),
        19 => StoreError::Unreadable(DecodeError::Corrupt("what the server keeps")),
        20 => StoreError::Mismatch,
        21 => StoreError::Busy(reader.text("words")?.to_owned()),
        22 => StoreError::Unavailable(reader.text("words")?.to_owned()),
        23 => StoreError::CannotDefine(reader.text("words")?.to_owned()),
        _ => return Err(DecodeError::Corrupt("error")),
    })
}
