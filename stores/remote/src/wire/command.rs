//! What is asked about keys of a table: who asks, by which plan, about what.
//!
//! ```text
//! client: table bytes, user u64, version u64, plan 16 bytes
//! ask: client, now i64, calendars, capacities: n u32, n x u64 (0: the rule's),
//!      one u8: 0 a batch (, n u32, n x item), 1 one (, item, turn: there u8 [, turn])
//! item: key bytes, own: n u32, n x (there u8 [, rules]): of each row of the path, verb
//! turn: id u128, ahead u64, longest: there u8 [, micros u64], since i64, for refunds u8,
//!       retried u8
//! ```

use std::time::Duration;

use tidegate_store::bytes::command::{
    decode_calendars, decode_own, decode_verb, encode_calendars, encode_verb,
};
use tidegate_store::bytes::{Reader, Writer, encode_own};
use tidegate_store::core::{Amount, Bounds, DecodeError, Rule, Span, Timestamp};
use tidegate_store::key::MAX_LEVELS;
use tidegate_store::{KeyPath, OwnedVerb, Plan, Verb};

use super::plan::Digest;

/// No batch has more.
const MOST_ITEMS: usize = 10_000;

/// No plan of those who ask has a higher version: what follows it has room for many more.
const LAST_VERSION: u64 = 1 << 62;

/// The version of a plan, as who asks counts them.
pub(super) fn read_version(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    match reader.u64()? {
        version @ 0..=LAST_VERSION => Ok(version),
        _ => Err(DecodeError::Corrupt("version of limits")),
    }
}

/// Who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Client<'a> {
    /// The name of the table.
    pub(crate) table: &'a str,
    /// One who uses the table: random, for as long as it has it open.
    pub(crate) user: u64,
    /// The version of its plan, as it counts them.
    pub(crate) version: u64,
    pub(crate) digest: Digest,
}

impl<'a> Client<'a> {
    pub(crate) fn put(&self, out: &mut Writer) {
        out.bytes(self.table.as_bytes()).u64(self.user);
        out.u64(self.version).raw(&self.digest);
    }

    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self {
            table: reader.text("table")?,
            user: reader.u64()?,
            version: read_version(reader)?,
            digest: reader.take()?,
        })
    }
}

/// Says in `body`, a request of [`Ask`] that was written, what its plan is known by.
pub(crate) fn put_digest(body: &mut [u8], table: &str, digest: Digest) {
    // Behind the version and the kind, the name with its length, the user and the version.
    let at = 2 + 4 + table.len() + 8 + 8;
    if let Some(place) = body.get_mut(at..at + digest.len()) {
        place.copy_from_slice(&digest);
    }
}

/// What a row has for itself, if anything.
pub(crate) type Own = Option<Vec<Rule>>;

/// How one waits. See [`Patience`](tidegate_store::Patience).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    pub(crate) id: u128,
    pub(crate) ahead: Span,
    pub(crate) longest: Option<Duration>,
    pub(crate) since: Timestamp,
    pub(crate) for_refunds: bool,
    pub(crate) retried: bool,
}

impl Turn {
    fn put(&self, out: &mut Writer) {
        out.u128(self.id).u64(self.ahead.as_micros());
        out.option(self.longest, |out, longest| {
            out.u64(u64::try_from(longest.as_micros()).unwrap_or(u64::MAX));
        });
        out.instant(self.since).flag(self.for_refunds);
        out.flag(self.retried);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            id: reader.u128()?,
            ahead: Span::from_micros(reader.u64()?),
            longest: reader
                .option("longest", Reader::u64)?
                .map(Duration::from_micros),
            since: reader.instant()?,
            for_refunds: reader.flag("refunds")?,
            retried: reader.flag("retried")?,
        })
    }
}

/// What is asked, as who asks has it.
pub(crate) struct Ask<'c> {
    pub(crate) client: Client<'c>,
    pub(crate) plan: &'c Plan,
    pub(crate) now: Timestamp,
    pub(crate) calendars: &'c [Option<Bounds>],
    pub(crate) items: &'c [(KeyPath<'c>, Verb<'c>)],
    /// Of a batch nothing waits.
    pub(crate) is_batch: bool,
    pub(crate) turn: Option<Turn>,
}

impl Ask<'_> {
    pub(crate) fn put(&self, out: &mut Writer) {
        self.client.put(out);
        out.instant(self.now);
        encode_calendars(self.calendars, out);
        let adaptive = self.plan.limits().iter().filter_map(|limit| {
            let adaptive = limit.adaptive.as_ref()?;
            Some(adaptive.capacity().unwrap_or(0))
        });
        let capacities: Vec<_> = adaptive.collect();
        out.list(capacities.into_iter(), |out, capacity| {
            _ = out.u64(capacity)
        });
        out.flag(!self.is_batch);
        match (self.is_batch, self.items) {
            (false, [item, ..]) => {
                self.put_item(item, out);
                out.option(self.turn.as_ref(), |out, turn| turn.put(out));
            }
            _ => _ = out.list(self.items.iter(), |out, item| self.put_item(item, out)),
        }
    }

    fn put_item(&self, (path, verb): &(KeyPath<'_>, Verb<'_>), out: &mut Writer) {
        out.bytes(path.bytes());
        let levels = match self.plan.overrides().is_empty() {
            true => 0,
            false => path.depth().min(self.plan.levels()),
        };
        out.list(0..levels, |out, level| {
            let own = self.plan.own_limits(path, level);
            out.option(own, |out, own| {
                let mut rules = Vec::new();
                encode_own(&own.limits()[own.range(level)], &mut rules);
                out.raw(&rules);
            });
        });
        encode_verb(verb, out);
    }
}

/// One item, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Item<'a> {
    pub(crate) key: &'a [u8],
    /// What the rows of its path have for themselves; of those that are not there nothing.
    pub(crate) own: Vec<Own>,
    pub(crate) verb: OwnedVerb,
}

impl<'a> Item<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let key = reader.bytes()?;
        let own = reader.list(1, |reader| reader.option("own", decode_own))?;
        if own.len() > MAX_LEVELS {
            return Err(DecodeError::Corrupt("own"));
        }
        let verb = decode_verb(reader)?;
        Ok(Self { key, own, verb })
    }
}

/// What is asked, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) client: Client<'a>,
    pub(crate) now: Timestamp,
    pub(crate) calendars: Vec<Option<Bounds>>,
    /// Of the plan's adaptive limits, in their order.
    pub(crate) capacities: Vec<Amount>,
    pub(crate) items: Vec<Item<'a>>,
    pub(crate) is_batch: bool,
    pub(crate) turn: Option<Turn>,
}

impl<'a> Asked<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let (client, now) = (Client::read(reader)?, reader.instant()?);
        let calendars = decode_calendars(reader)?;
        // What no rule can have is not gone by.
        let capacities = reader.list(8, Reader::u64)?;
        let is_batch = !reader.flag("one")?;
        let (items, turn) = match is_batch {
            true => (reader.list(9, Item::read)?, None),
            false => {
                let item = Item::read(reader)?;
                (vec![item], reader.option("turn", Turn::read)?)
            }
        };
        if items.len() > MOST_ITEMS {
            return Err(DecodeError::Corrupt("items"));
        }
        Ok(Self {
            client,
            now,
            calendars,
            capacities,
            items,
            is_batch,
            turn,
        })
    }
}
