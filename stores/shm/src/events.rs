//! What is told of changes of an owner's definitions: records of their own. In the
//! registry's shard:
//!
//! ```text
//! E length of the owner u32, owner, version u64 (big-endian)
//!        at i64, until i64, how many are kept u64, length of the subject u64, subject, body
//! S length of the owner u32, owner, subject, version u64 (big-endian)    nothing
//! X length of the owner u32, owner, until i64 (big-endian), version u64 (big-endian)
//!        nothing
//! M length of the owner u32, owner    how many there are
//! ```
//! In the key of an `S` the length of the subject (u32, big-endian) goes before it.

use tidegate_store::core::Timestamp;
use tidegate_store::definitions::{MOST_DROPPED, event_cursor, event_of_cursor, page_size};
use tidegate_store::{Event, Page, StoreError};

use crate::error::Fault;
use crate::owner::{Owner, word};
use crate::steps::Steps;
use crate::txn::Txn;

/// Keeps an event; those that are over go, and the oldest of too many.
pub(crate) fn add(owner: &Owner<'_>, txn: &mut Txn<'_>, event: &Event) -> Result<(), Fault> {
    let place = owner.of(b'M', &[]);
    let count = txn.look_up(owner.bucket, &place)?;
    let mut count = count.as_deref().map_or(Ok(0), |bytes| word(bytes, 0))?;
    for (place, _) in owner.some(txn, b'X', (&[], false), MOST_DROPPED)? {
        let (until, version) = place.split_at_checked(8).unwrap_or_default();
        if Timestamp::from_micros(big(until)?.cast_signed()) > event.at {
            break;
        }
        drop_one(owner, txn, big(version)?)?;
        count -= 1;
    }
    let surplus = (count + 1).saturating_sub(event.bound()) as usize;
    for (version, _) in owner.some(txn, b'E', (&[], false), surplus.min(MOST_DROPPED))? {
        drop_one(owner, txn, big(&version)?)?;
        count -= 1;
    }
    txn.put(
        owner.bucket,
        &owner.of(b'E', &event.version.to_be_bytes()),
        &encode(event),
    )?;
    txn.put(owner.bucket, &subject_place(owner, event), &[])?;
    txn.put(owner.bucket, &end_place(owner, event), &[])?;
    txn.put(owner.bucket, &place, &(count + 1).to_le_bytes())?;
    Ok(())
}

fn drop_one(owner: &Owner<'_>, txn: &mut Txn<'_>, version: u64) -> Result<(), Fault> {
    let event = find(owner, txn, version)?;
    txn.remove(owner.bucket, &owner.of(b'E', &version.to_be_bytes()))?;
    txn.remove(owner.bucket, &subject_place(owner, &event))?;
    txn.remove(owner.bucket, &end_place(owner, &event))?;
    Ok(())
}

fn find(owner: &Owner<'_>, txn: &Txn<'_>, version: u64) -> Result<Event, Fault> {
    let found = txn.look_up(owner.bucket, &owner.of(b'E', &version.to_be_bytes()))?;
    decode(
        version,
        &found.ok_or(Fault::Corrupt("an event is missing"))?,
    )
}

fn of_subject(subject: &[u8], version: u64) -> Vec<u8> {
    let length = (subject.len() as u32).to_be_bytes();
    [&length[..], subject, &version.to_be_bytes()].concat()
}

fn subject_place(owner: &Owner<'_>, event: &Event) -> Vec<u8> {
    owner.of(b'S', &of_subject(&event.subject, event.version))
}

fn end_place(owner: &Owner<'_>, event: &Event) -> Vec<u8> {
    let until = event.until().as_micros().cast_unsigned().to_be_bytes();
    owner.of(b'X', &[until, event.version.to_be_bytes()].concat())
}

fn encode(event: &Event) -> Vec<u8> {
    let words = [
        event.at.as_micros().cast_unsigned(),
        event.until().as_micros().cast_unsigned(),
        u64::from(event.most),
        event.subject.len() as u64,
    ];
    let mut bytes = words.map(u64::to_le_bytes).concat();
    bytes.extend(&event.subject);
    bytes.extend(&event.body);
    bytes
}

fn decode(version: u64, bytes: &[u8]) -> Result<Event, Fault> {
    let instant = |at| Ok::<_, Fault>(Timestamp::from_micros(word(bytes, at)?.cast_signed()));
    let (at, until) = (instant(0)?, instant(8)?);
    let rest = bytes.get(32..).unwrap_or_default();
    let split = rest.split_at_checked(word(bytes, 24)? as usize);
    let (subject, body) = split.ok_or(Fault::Corrupt("an event is too short"))?;
    Ok(Event {
        subject: subject.to_vec(),
        body: body.to_vec(),
        at,
        lasts: until.since(at).as_duration(),
        most: word(bytes, 16)? as u32,
        version,
    })
}

fn big(bytes: &[u8]) -> Result<u64, Fault> {
    let bytes = bytes.try_into().map(u64::from_be_bytes);
    bytes.map_err(|_| Fault::Corrupt("an event's place is none"))
}

fn page(
    owner: &Owner<'_>,
    txn: &Txn<'_>,
    (subject, after): (Option<&[u8]>, u64),
    most: usize,
) -> Result<Page<Event>, Fault> {
    let found = match subject {
        None => owner.some(txn, b'E', (&after.to_be_bytes(), true), most + 1)?,
        Some(subject) => {
            let from = of_subject(subject, after);
            let mut found = owner.some(txn, b'S', (&from, true), most + 1)?;
            found.retain(|(key, _)| key.starts_with(&from[..from.len() - 8]));
            found
        }
    };
    let now = txn.now();
    let (mut items, mut last) = (Vec::new(), after);
    for (key, _) in found.iter().take(most) {
        last = big(&key[key.len().saturating_sub(8)..])?;
        let event = find(owner, txn, last)?;
        let until = event.until();
        if until > now {
            let lasts = until.since(now).as_duration();
            items.push(Event { lasts, ..event });
        }
    }
    let next = (found.len() > most).then(|| event_cursor(last));
    Ok(Page { items, next })
}

impl Steps {
    /// Events in the order of their versions.
    pub(crate) fn events(
        &self,
        owner: &str,
        subject: Option<&[u8]>,
        after: Option<&[u8]>,
        most: usize,
    ) -> Result<Page<Event>, StoreError> {
        let after = event_of_cursor(after)?;
        let owner = Owner::new(&self.segment, owner);
        self.register(|txn| page(&owner, txn, (subject, after), page_size(most)))
    }
}
