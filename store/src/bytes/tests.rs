//! What crosses processes is read as it was written, and nothing else is taken for it.

use std::time::Duration;

use smallvec::smallvec;
use tidegate_core::{Bounds, DecodeError, MAX_AMOUNT, Standing, Timestamp, Verdict};

use super::command::{
    decode_calendars, decode_listing, decode_verb, encode_calendars, encode_listing, encode_verb,
};
use super::definition::{
    decode_change, decode_defined, decode_definitions, encode_change, encode_defined,
    encode_definitions,
};
use super::reply::{decode_answer, encode_answer};
use super::{Reader, Writer};
use crate::{
    Answer, Change, Count, Decision, Defined, Definition, Definitions, Detail, Ending, Event,
    Granted, HeldLease, Hour, Listing, OwnedKey, Page, Partial, Reply, Select, Settlement,
    StoreError, Terms, Usage, Use, Verb,
};

const AT: Timestamp = Timestamp::from_micros(1_700_000_000_123_456);

fn verbs() -> Vec<Verb<'static>> {
    let terms = Terms {
        id: u128::MAX - 7,
        expires_at: AT,
        idempotency: Some(b"job"),
        least: Some(&[1, 0]),
    };
    let mut verbs = vec![
        Verb::Debit {
            amounts: &[MAX_AMOUNT],
        },
        Verb::Peek { amounts: &[] },
        Verb::Renew { id: 3, until: AT },
        Verb::Adjust {
            id: 4,
            to: &[None, Some(5)],
            overdraw: true,
            detail: Detail::Always,
        },
        Verb::Reset,
    ];
    for detail in [Detail::Verdict, Detail::OnRefusal, Detail::Always] {
        for lease in [None, Some(terms)] {
            verbs.push(Verb::Take {
                amounts: &[1, 2, 3],
                lease,
                detail,
            });
        }
    }
    for ending in [
        Ending::Settle(&[Some(1), None]),
        Ending::Release,
        Ending::Fail(&[true, false]),
        Ending::Cancel,
    ] {
        verbs.push(Verb::End {
            id: 9,
            ending,
            remember: true,
        });
    }
    verbs
}

fn decision() -> Decision {
    let mut decision = Decision::bare(Verdict::NotUntil(AT), Some(1));
    decision.refused_levels = 3;
    decision.refund_at = Some(AT);
    decision.shadowed = true;
    decision.standings = smallvec![
        None,
        Some(Standing {
            limit: 5,
            remaining: 2,
            debt: 1,
            replenish_at: Some(AT),
            full_at: None,
        })
    ];
    decision.lease = Some(Granted {
        id: 1,
        granted_at: AT,
        expires_at: Timestamp::MAX,
        fence: 7,
        repeated: true,
    });
    decision
}

fn errors() -> Vec<StoreError> {
    let words = || "words".to_owned();
    vec![
        StoreError::KeysFull { max_keys: 1 },
        StoreError::RootKeysFull {
            max_keys_per_root: 2,
        },
        StoreError::LeasesFull { max_leases: 3 },
        StoreError::RootLeasesFull {
            max_leases_per_root: 4,
        },
        StoreError::UsageFull { max_usage: 5 },
        StoreError::Full(words()),
        StoreError::InUse(words()),
        StoreError::OtherLevels {
            name: words(),
            kept: 1,
            wanted: 2,
        },
        StoreError::UnknownLease,
        StoreError::LeaseEnded(AT),
        StoreError::StalePlan,
        StoreError::DuplicateLease,
        StoreError::CannotList,
        StoreError::CannotCount,
        StoreError::CannotClear,
        StoreError::CannotDefine(words()),
        StoreError::TableGone(words()),
        StoreError::UnknownPage,
        StoreError::Unreadable(DecodeError::Truncated),
        StoreError::Unreadable(DecodeError::Newer {
            version: 9,
            reads: 1,
        }),
        StoreError::Mismatch,
        StoreError::Busy(words()),
        StoreError::Unavailable(words()),
    ]
}

fn answers() -> Vec<Answer> {
    let mut answers: Vec<Answer> = errors().into_iter().map(Err).collect();
    let uses = smallvec![Use {
        uid: 1,
        taken: 2,
        used: 3
    }];
    let lease = HeldLease {
        key: OwnedKey::new(b"a key that is longer than those in place"),
        id: 2,
        granted_at: AT,
        expires_at: AT,
        fence: 0,
        taken: [(1, 2), (3, 4)].into_iter().collect(),
    };
    let usage = Usage {
        key: OwnedKey::new(b"k"),
        limit: "tokens".into(),
        hour: Hour::new(7),
        amount: u64::MAX,
    };
    answers.extend([
        Ok(Reply::Done),
        Ok(Reply::Verdict(Verdict::Admit)),
        Ok(Reply::Verdict(Verdict::Never)),
        Ok(Reply::Decision(decision())),
        Ok(Reply::Partial(Box::new(Partial {
            decision: decision(),
            amounts: smallvec![1, 0],
            good_until: AT,
        }))),
        Ok(Reply::Settled(Settlement {
            expired: true,
            repeated: false,
            uses,
        })),
        Ok(Reply::Keys(Page {
            items: vec![OwnedKey::new(b"k"), OwnedKey::new(b"")],
            next: Some(vec![1]),
        })),
        Ok(Reply::Leases(Page {
            items: vec![lease],
            next: None,
        })),
        Ok(Reply::Usage(Page {
            items: vec![usage],
            next: None,
        })),
        Ok(Reply::Count(Count {
            keys: 1,
            leases: Some(2),
            remembered: None,
        })),
    ]);
    let batch = answers.clone();
    answers.push(Ok(Reply::Batch(batch)));
    answers
}

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::default();
    write(&mut out);
    out.done()
}

fn read<T>(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    let it = read(&mut reader)?;
    reader.end()?;
    Ok(it)
}

/// Every beginning of what was written, and every bit of it turned over, is refused, or is
/// something that is written so: nothing panics.
fn hostile(bytes: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for end in 0..bytes.len() {
        assert_eq!(read(&bytes[..end]), None, "{end} of {bytes:?}");
    }
    for bit in 0..bytes.len() * 8 {
        let mut turned = bytes.to_vec();
        turned[bit / 8] ^= 1 << (bit % 8);
        if let Some(again) = read(&turned) {
            assert_eq!(again, turned, "bit {bit} of {bytes:?}");
        }
    }
}

#[test]
fn every_verb_is_read_as_it_was_written_and_nothing_else_is() {
    for verb in verbs() {
        let bytes = written(|out| encode_verb(&verb, out));
        let again = |bytes: &[u8]| {
            let verb = read(bytes, decode_verb).ok()?;
            Some(written(|out| encode_verb(&verb.lend(), out)))
        };
        assert_eq!(again(&bytes).as_ref(), Some(&bytes), "{verb:?}");
        let verb_again = read(&bytes, decode_verb).expect("it was written");
        assert_eq!(format!("{:?}", verb_again.lend()), format!("{verb:?}"));
        hostile(&bytes, again);
    }
}

#[test]
fn every_answer_is_read_as_it_was_written_and_nothing_else_is() {
    for answer in answers() {
        let bytes = written(|out| encode_answer(&answer, out));
        assert_eq!(read(&bytes, decode_answer), Ok(answer));
        hostile(&bytes, |bytes| {
            let answer = read(bytes, decode_answer).ok()?;
            Some(written(|out| encode_answer(&answer, out)))
        });
    }
}

/// A batch in a batch in a batch would be read by as many calls, one in the other.
#[test]
fn a_batch_is_in_no_batch() {
    let batch = |answers| Ok(Reply::Batch(answers));
    let nested = batch(vec![batch(Vec::new())]);
    let bytes = written(|out| encode_answer(&nested, out));
    assert_eq!(
        read(&bytes, decode_answer),
        Err(DecodeError::Corrupt("reply"))
    );
}

#[test]
fn listings_and_calendars_are_read_as_they_were_written() {
    for select in [Select::All, Select::Prefix(b"a/"), Select::Key(b"k")] {
        let listing = Listing {
            select,
            after: Some(b"cursor"),
            most: 9,
            now: AT,
            levels: 3,
        };
        let bytes = written(|out| encode_listing(&listing, out));
        let again = read(&bytes, decode_listing).expect("it was written");
        assert_eq!(again.lend(), listing);
        hostile(&bytes, |bytes| {
            let listing = read(bytes, decode_listing).ok()?;
            let is_same = listing.lend().most > 0;
            let again = written(|out| encode_listing(&listing.lend(), out));
            // A page has one item at least.
            Some(if is_same && again != bytes {
                bytes.to_vec()
            } else {
                again
            })
        });
    }
    let bounds = Bounds {
        start: AT,
        end: AT,
        next_end: Timestamp::MAX,
    };
    let calendars = [None, Some(bounds)];
    let bytes = written(|out| encode_calendars(&calendars, out));
    assert_eq!(
        read(&bytes, decode_calendars).as_deref(),
        Ok(&calendars[..])
    );
}

#[test]
fn definitions_changes_and_events_are_read_as_they_were_written() {
    let definition = Definition::new("key", "value")
        .lasting(Duration::from_secs(5))
        .at_version(7);
    let event = Event {
        subject: b"alice".to_vec(),
        body: b"told".to_vec(),
        at: AT,
        lasts: Duration::from_secs(60),
        most: 10,
        version: 3,
    };
    let change = Change::from(definition.clone()).expecting(6).telling(event);
    for change in [change, Change::from(Definition::none("gone"))] {
        let bytes = written(|out| encode_change(&change, out));
        assert_eq!(read(&bytes, decode_change), Ok(change));
        hostile(&bytes, |bytes| {
            let change = read(bytes, decode_change).ok()?;
            Some(written(|out| encode_change(&change, out)))
        });
    }
    for defined in [
        Defined::Done {
            changed: true,
            version: 9,
        },
        Defined::Conflict(None),
        Defined::Conflict(Some(definition.clone())),
    ] {
        let bytes = written(|out| encode_defined(&defined, out));
        assert_eq!(read(&bytes, decode_defined), Ok(defined));
    }
    let definitions = Definitions {
        newer_than: 1,
        version: 7,
        whole: false,
        changed: vec![definition],
    };
    let bytes = written(|out| encode_definitions(&definitions, out));
    assert_eq!(read(&bytes, decode_definitions), Ok(definitions));
}
