//! What is asked.
//!
//! ```text
//! version u8, kind u8
//!   0 abilities
//!   1 last plan   table bytes
//!   2 open        table bytes, version u64, plan bytes
//!   4 adopt       client, plan: there u8 [, bytes], at i64, calendars,
//!                 n u32, n x (row bytes, own: there u8 [, rules])
//!   5 ask         ask
//!   6 keys, 7 leases       client, listing
//!   8 usage       client, listing, from u32, to u32
//!   9 count       client, now i64
//!   10 changes    owner bytes, newer than u64, keys alone u8
//!   11 one        owner, key
//!   12 page       owner, prefix, after: there u8 [, bytes], most u64
//!   13 change     owner, change
//!   14 events     owner, subject: there u8 [, bytes], after: there u8 [, bytes], most u64
//!   15 versions   n u32, n x owner bytes
//!   16 clear      prefix, after: there u8 [, bytes]
//!   17 ancestors  owner, key, parent offset u8
//! ```

use tidegate_store::bytes::command::{
    decode_calendars, decode_listing, decode_own, encode_calendars, encode_listing,
};
use tidegate_store::bytes::definition::{decode_change, encode_change};
use tidegate_store::bytes::{Reader, Writer, encode_own};
use tidegate_store::core::{Bounds, DecodeError, Timestamp};
use tidegate_store::{Change, Hour, Hours, OwnedListing, PlanLimit};

use super::command::{Ask, Asked, Client, Own, read_version};
use super::version::VERSION;

/// So many rows go with a change of limits, and so many owners are asked for at once.
const MOST_OF_EACH: usize = 10_000;

/// A row whose limits of its own change, and to what.
pub(crate) type Touched<'a> = (&'a [u8], Own);

/// A change of limits.
#[derive(Clone, Debug)]
pub(crate) struct Adoption<'a> {
    pub(crate) client: Client<'a>,
    /// The plan itself, if the server may not know it.
    pub(crate) plan: Option<&'a [u8]>,
    pub(crate) at: Timestamp,
    pub(crate) calendars: Vec<Option<Bounds>>,
    pub(crate) touched: Vec<Touched<'a>>,
}

/// What is asked, as it came.
#[derive(Clone, Debug)]
pub(crate) enum Request<'a> {
    Abilities,
    LastPlan(&'a str),
    Open(&'a str, u64, &'a [u8]),
    Adopt(Adoption<'a>),
    Ask(Asked<'a>),
    Keys(Client<'a>, OwnedListing),
    Leases(Client<'a>, OwnedListing),
    Usage(Client<'a>, OwnedListing, Hours),
    Count(Client<'a>, Timestamp),
    Changes(&'a str, u64, bool),
    One(&'a str, &'a [u8]),
    WithAncestors(&'a str, &'a [u8], u8),
    Page(&'a str, &'a [u8], Option<&'a [u8]>, usize),
    Change(&'a str, Change),
    Events(&'a str, Option<&'a [u8]>, Option<&'a [u8]>, usize),
    Versions(Vec<&'a str>),
    Clear(&'a str, Option<&'a [u8]>),
}

/// Begins a request of a kind.
fn begun(kind: u8) -> Writer {
    let mut out = Writer::default();
    out.u8(VERSION).u8(kind);
    out
}

/// A command, to be sent.
pub(crate) fn ask(ask: &Ask<'_>) -> Vec<u8> {
    let mut out = begun(5);
    ask.put(&mut out);
    out.done()
}

/// A change of limits, to be sent: each row that it touches with the limits that it has of
/// its own from then on.
pub(crate) fn adopt<'l>(
    adoption: &Adoption<'_>,
    touched: impl ExactSizeIterator<Item = (&'l [u8], Option<&'l [PlanLimit]>)>,
) -> Vec<u8> {
    let mut out = begun(4);
    adoption.client.put(&mut out);
    out.option(adoption.plan, |out, plan| _ = out.bytes(plan));
    out.instant(adoption.at);
    encode_calendars(&adoption.calendars, &mut out);
    out.list(touched, |out, (row, own)| {
        out.bytes(row).option(own, |out, limits| {
            let mut rules = Vec::new();
            encode_own(limits, &mut rules);
            out.raw(&rules);
        });
    });
    out.done()
}

impl<'a> Request<'a> {
    /// As it is sent, but for [`ask`] and [`adopt`], which are made of what they borrow.
    pub(crate) fn written(&self) -> Vec<u8> {
        let mut out = begun(self.kind());
        match self {
            Self::Abilities | Self::Adopt(_) | Self::Ask(_) => {}
            Self::LastPlan(name) => _ = out.bytes(name.as_bytes()),
            Self::Open(name, version, plan) => {
                out.bytes(name.as_bytes()).u64(*version).bytes(plan);
            }
            Self::Keys(client, listing) | Self::Leases(client, listing) => {
                client.put(&mut out);
                encode_listing(&listing.lend(), &mut out);
            }
            Self::Usage(client, listing, hours) => {
                client.put(&mut out);
                encode_listing(&listing.lend(), &mut out);
                out.u32(hours.from.number()).u32(hours.to.number());
            }
            Self::Count(client, now) => {
                client.put(&mut out);
                out.instant(*now);
            }
            Self::Changes(owner, newer_than, keys_alone) => {
                out.bytes(owner.as_bytes()).u64(*newer_than);
                out.flag(*keys_alone);
            }
            Self::One(owner, key) => _ = out.bytes(owner.as_bytes()).bytes(key),
            Self::WithAncestors(owner, key, parent_offset) => {
                out.bytes(owner.as_bytes()).bytes(key).u8(*parent_offset);
            }
            Self::Page(owner, prefix, after, most) => {
                out.bytes(owner.as_bytes()).bytes(prefix);
                put_after(*after, &mut out);
                out.size(*most);
            }
            Self::Change(owner, change) => {
                out.bytes(owner.as_bytes());
                encode_change(change, &mut out);
            }
            Self::Events(owner, subject, after, most) => {
                out.bytes(owner.as_bytes());
                put_after(*subject, &mut out);
                put_after(*after, &mut out);
                out.size(*most);
            }
            Self::Versions(owners) => {
                let owners = owners.iter();
                out.list(owners, |out, owner| _ = out.bytes(owner.as_bytes()));
            }
            Self::Clear(prefix, after) => {
                out.bytes(prefix.as_bytes());
                put_after(*after, &mut out);
            }
        }
        out.done()
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Abilities => 0,
            Self::LastPlan(_) => 1,
            Self::Open(..) => 2,
            Self::Adopt(_) => 4,
            Self::Ask(_) => 5,
            Self::Keys(..) => 6,
            Self::Leases(..) => 7,
            Self::Usage(..) => 8,
            Self::Count(..) => 9,
            Self::Changes(..) => 10,
            Self::One(..) => 11,
            Self::Page(..) => 12,
            Self::Change(..) => 13,
            Self::Events(..) => 14,
            Self::Versions(_) => 15,
            Self::Clear(..) => 16,
            Self::WithAncestors(..) => 17,
        }
    }

    /// Reads what came.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        match reader.u8()? {
            VERSION => {}
            0 => return Err(DecodeError::Corrupt("version")),
            version => {
                let reads = VERSION;
                return Err(DecodeError::Newer { version, reads });
            }
        }
        let request = read(&mut reader)?;
        reader.end()?;
        Ok(request)
    }
}

fn put_after(after: Option<&[u8]>, out: &mut Writer) {
    out.option(after, |out, after| _ = out.bytes(after));
}

fn read<'a>(reader: &mut Reader<'a>) -> Result<Request<'a>, DecodeError> {
    Ok(match reader.u8()? {
        0 => Request::Abilities,
        1 => Request::LastPlan(reader.text("table")?),
        2 => Request::Open(
            reader.text("table")?,
            read_version(reader)?,
            reader.bytes()?,
        ),
        4 => Request::Adopt(adoption(reader)?),
        5 => Request::Ask(Asked::read(reader)?),
        6 => Request::Keys(Client::read(reader)?, decode_listing(reader)?),
        7 => Request::Leases(Client::read(reader)?, decode_listing(reader)?),
        8 => {
            let (client, listing) = (Client::read(reader)?, decode_listing(reader)?);
            let (from, to) = (Hour::new(reader.u32()?), Hour::new(reader.u32()?));
            Request::Usage(client, listing, Hours { from, to })
        }
        9 => Request::Count(Client::read(reader)?, reader.instant()?),
        10 => Request::Changes(reader.text("owner")?, reader.u64()?, reader.flag("keys")?),
        11 => Request::One(reader.text("owner")?, reader.bytes()?),
        12 => Request::Page(
            reader.text("owner")?,
            reader.bytes()?,
            reader.option("after", Reader::bytes)?,
            reader.size()?,
        ),
        13 => Request::Change(reader.text("owner")?, decode_change(reader)?),
        14 => Request::Events(
            reader.text("owner")?,
            reader.option("subject", Reader::bytes)?,
            reader.option("after", Reader::bytes)?,
            reader.size()?,
        ),
        15 => {
            let owners = reader.list(4, |reader| reader.text("owner"))?;
            Request::Versions(bounded(owners)?)
        }
        16 => Request::Clear(
            reader.text("prefix")?,
            reader.option("after", Reader::bytes)?,
        ),
        17 => Request::WithAncestors(reader.text("owner")?, reader.bytes()?, reader.u8()?),
        _ => return Err(DecodeError::Corrupt("request")),
    })
}

fn adoption<'a>(reader: &mut Reader<'a>) -> Result<Adoption<'a>, DecodeError> {
    Ok(Adoption {
        client: Client::read(reader)?,
        plan: reader.option("plan", Reader::bytes)?,
        at: reader.instant()?,
        calendars: decode_calendars(reader)?,
        touched: bounded(reader.list(5, |reader| {
            Ok((reader.bytes()?, reader.option("own", decode_own)?))
        })?)?,
    })
}

fn bounded<T>(items: Vec<T>) -> Result<Vec<T>, DecodeError> {
    match items.len() {
        0..=MOST_OF_EACH => Ok(items),
        _ => Err(DecodeError::Corrupt("count")),
    }
}
