//! What a store is asked for, on its way to another process: verbs, listings, calendars.
//!
//! ```text
//! verb: kind u8
//!   0 take    amounts, lease: there u8 [, id u128, expires i64, idempotency: there u8 [, bytes],
//!             least: there u8 [, amounts]], detail u8: 0 verdict, 1 on refusal, 2 always
//!   1 debit   amounts
//!   2 peek    amounts
//!   3 end     id u128, ending, remember u8
//!   4 renew   id u128, until i64
//!   5 adjust  id u128, to, overdraw u8, detail u8
//!   6 reset
//! ending: kind u8: 0 settle (, to), 1 release, 2 fail (, n u32, n x u8), 3 cancel
//! amounts: n u32, n x u64; to: n u32, n x (there u8 [, u64])
//! listing: select u8: 0 all, 1 prefix (, bytes), 2 key (, bytes); after: there u8 [, bytes],
//!          most u64, now i64, levels u64
//! ```
//! It has no version: whatever it is a part of has one.

use smallvec::SmallVec;
use tidegate_core::{Amount, Bounds, DecodeError, Rule};

use super::plan::{decode_calendar, decode_rule, encode_calendar};
use super::reader::Reader;
use super::writer::Writer;
use crate::command::{Detail, Ending, Terms, Verb};
use crate::listing::{Listing, OwnedListing, Select};
use crate::owned_command::OwnedVerb;

type Amounts = SmallVec<[Amount; 4]>;

/// Appends a verb.
pub fn encode_verb(verb: &Verb<'_>, out: &mut Writer) {
    match *verb {
        Verb::Take {
            amounts,
            lease,
            detail,
        } => {
            put_amounts(out.u8(0), amounts);
            out.option(lease, |out, terms| put_terms(out, &terms));
            put_detail(out, detail);
        }
        Verb::Debit { amounts } => put_amounts(out.u8(1), amounts),
        Verb::Peek { amounts } => put_amounts(out.u8(2), amounts),
        Verb::End {
            id,
            ending,
            remember,
        } => {
            out.u8(3).u128(id);
            put_ending(out, ending);
            out.flag(remember);
        }
        Verb::Renew { id, until } => _ = out.u8(4).u128(id).instant(until),
        Verb::Adjust {
            id,
            to,
            overdraw,
            detail,
        } => {
            put_some(out.u8(5).u128(id), to);
            put_detail(out.flag(overdraw), detail);
        }
        Verb::Reset => _ = out.u8(6),
    }
}

/// Reads a verb.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_verb(reader: &mut Reader<'_>) -> Result<OwnedVerb, DecodeError> {
    match reader.u8()? {
        0 => take(reader),
        1 => {
            let amounts = amounts(reader)?;
            Ok(OwnedVerb::of(Verb::Debit { amounts: &amounts }))
        }
        2 => {
            let amounts = amounts(reader)?;
            Ok(OwnedVerb::of(Verb::Peek { amounts: &amounts }))
        }
        3 => end(reader),
        4 => {
            let (id, until) = (reader.u128()?, reader.instant()?);
            Ok(OwnedVerb::of(Verb::Renew { id, until }))
        }
        5 => {
            let (id, to) = (reader.u128()?, some(reader)?);
            let (overdraw, detail) = (reader.flag("overdraw")?, detail(reader)?);
            let to = &to;
            Ok(OwnedVerb::of(Verb::Adjust {
                id,
                to,
                overdraw,
                detail,
            }))
        }
        6 => Ok(OwnedVerb::of(Verb::Reset)),
        _ => Err(DecodeError::Corrupt("verb")),
    }
}

fn take(reader: &mut Reader<'_>) -> Result<OwnedVerb, DecodeError> {
    let taken = amounts(reader)?;
    let mut least = None;
    let lease = match reader.flag("lease")? {
        false => None,
        true => {
            let (id, expires_at) = (reader.u128()?, reader.instant()?);
            let idempotency = reader.option("idempotency", Reader::bytes)?;
            least = reader.option("least", amounts)?;
            Some((id, expires_at, idempotency))
        }
    };
    let lease = lease.map(|(id, expires_at, idempotency)| Terms {
        id,
        expires_at,
        idempotency,
        least: least.as_deref(),
    });
    Ok(OwnedVerb::of(Verb::Take {
        amounts: &taken,
        lease,
        detail: detail(reader)?,
    }))
}

fn end(reader: &mut Reader<'_>) -> Result<OwnedVerb, DecodeError> {
    let id = reader.u128()?;
    let (used, refunds);
    let ending = match reader.u8()? {
        0 => {
            used = some(reader)?;
            Ending::Settle(&used)
        }
        1 => Ending::Release,
        2 => {
            refunds = reader.list(1, |reader| reader.flag("refund"))?;
            Ending::Fail(&refunds)
        }
        3 => Ending::Cancel,
        _ => return Err(DecodeError::Corrupt("ending")),
    };
    Ok(OwnedVerb::of(Verb::End {
        id,
        ending,
        remember: reader.flag("remember")?,
    }))
}

fn put_terms(out: &mut Writer, terms: &Terms<'_>) {
    out.u128(terms.id).instant(terms.expires_at);
    out.option(terms.idempotency, |out, key| _ = out.bytes(key));
    out.option(terms.least, put_amounts);
}

fn put_ending(out: &mut Writer, ending: Ending<'_>) {
    match ending {
        Ending::Settle(used) => put_some(out.u8(0), used),
        Ending::Release => _ = out.u8(1),
        Ending::Fail(refunds) => {
            let refunds = refunds.iter();
            out.u8(2).list(refunds, |out, refund| _ = out.flag(*refund));
        }
        Ending::Cancel => _ = out.u8(3),
    }
}

fn put_detail(out: &mut Writer, detail: Detail) {
    out.u8(match detail {
        Detail::Verdict => 0,
        Detail::OnRefusal => 1,
        Detail::Always => 2,
    });
}

fn detail(reader: &mut Reader<'_>) -> Result<Detail, DecodeError> {
    match reader.u8()? {
        0 => Ok(Detail::Verdict),
        1 => Ok(Detail::OnRefusal),
        2 => Ok(Detail::Always),
        _ => Err(DecodeError::Corrupt("detail")),
    }
}

fn put_amounts(out: &mut Writer, amounts: &[Amount]) {
    out.list(amounts.iter(), |out, amount| _ = out.u64(*amount));
}

fn amounts(reader: &mut Reader<'_>) -> Result<Amounts, DecodeError> {
    Ok(reader.list(8, Reader::amount)?.into())
}

fn put_some(out: &mut Writer, amounts: &[Option<Amount>]) {
    out.list(amounts.iter(), |out, amount| {
        out.option(*amount, |out, amount| _ = out.u64(amount));
    });
}

fn some(reader: &mut Reader<'_>) -> Result<Vec<Option<Amount>>, DecodeError> {
    reader.list(1, |reader| reader.option("amount", Reader::amount))
}

/// Appends a listing.
pub fn encode_listing(listing: &Listing<'_>, out: &mut Writer) {
    match listing.select {
        Select::All => out.u8(0),
        Select::Prefix(prefix) => out.u8(1).bytes(prefix),
        Select::Key(key) => out.u8(2).bytes(key),
    };
    out.option(listing.after, |out, after| _ = out.bytes(after));
    out.size(listing.most).instant(listing.now);
    out.size(listing.levels);
}

/// Reads a listing.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_listing(reader: &mut Reader<'_>) -> Result<OwnedListing, DecodeError> {
    let select = match reader.u8()? {
        0 => Select::All,
        1 => Select::Prefix(reader.bytes()?),
        2 => Select::Key(reader.bytes()?),
        _ => return Err(DecodeError::Corrupt("select")),
    };
    Ok(OwnedListing::of(&Listing {
        select,
        after: reader.option("after", Reader::bytes)?,
        most: reader.size()?,
        now: reader.instant()?,
        levels: reader.size()?,
    }))
}

/// Appends calendars, as a command carries them.
pub fn encode_calendars(calendars: &[Option<Bounds>], out: &mut Writer) {
    out.list(calendars.iter(), |out, calendar| {
        out.append(|out| encode_calendar(calendar.as_ref(), out));
    });
}

/// Reads calendars.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_calendars(reader: &mut Reader<'_>) -> Result<Vec<Option<Bounds>>, DecodeError> {
    reader.list(1, decode_calendar)
}

/// Reads the rules that [`encode_own`](super::encode_own) has written.
///
/// # Errors
/// [`DecodeError`]; nothing is guessed.
pub fn decode_own(reader: &mut Reader<'_>) -> Result<Vec<Rule>, DecodeError> {
    // A window of a calendar has the fewest.
    reader.list(10, decode_rule)
}
