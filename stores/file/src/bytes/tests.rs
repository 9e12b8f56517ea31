//! What is written is read back as it was; anything else is refused.

use proptest::prelude::*;
use tidegate_memory::journal::Adopted;
use tidegate_store::core::kernel::ring::MAX_SUB_WINDOWS;
use tidegate_store::core::{
    Align, Bounds, Bucket, ChargeReference, DecodeError, Log, MAX_AMOUNT, Payment, Ring, Rule,
    Slots, Span, State, Timestamp, Window,
};
use tidegate_store::ledger::{LeaseStage, Record, Share};
use tidegate_store::{Definition, Event, Granted, OwnedKey, Plan, PlanLimit, Settlement, Use};

use super::*;
use tidegate_store::bytes::EncodedRow;

const LONGEST: u64 = 400 * 86_400_000_000;

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![1_u64..100, 1..=MAX_AMOUNT, Just(MAX_AMOUNT)]
}

fn period() -> impl Strategy<Value = Span> {
    let micros = prop_oneof![
        1_000_u64..5_000,
        1_000..=LONGEST,
        Just(LONGEST),
        Just(1_000)
    ];
    micros.prop_map(Span::from_micros)
}

fn rule() -> impl Strategy<Value = Rule> {
    let align = prop_oneof![
        period().prop_map(Align::Epoch),
        period().prop_map(Align::FirstUse),
        Just(Align::Calendar)
    ];
    prop_oneof![
        (amount(), period(), amount())
            .prop_map(|(a, p, b)| Rule::Bucket(Bucket::new(a, p, b).expect("in range"))),
        (amount(), align).prop_map(|(c, a)| Rule::Window(Window::new(c, a).expect("in range"))),
        (amount(), period(), 1_u32..=MAX_SUB_WINDOWS).prop_map(|(c, w, n)| {
            let most = w.as_micros().min(n.into()) as u32;
            Rule::Ring(Ring::new(c, w, most).expect("in range"))
        }),
        (amount(), period(), 2_u32..=1 << 20)
            .prop_map(|(c, w, n)| Rule::Log(Log::new(c, w, n).expect("in range"))),
        (amount(), period()).prop_map(|(c, t)| Rule::Slots(Slots::new(c, t).expect("in range"))),
    ]
}

fn limit() -> impl Strategy<Value = PlanLimit> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (".{0,9}", any::<u32>(), rule(), 0_usize..3, flags).prop_map(|(name, uid, rule, level, f)| {
        PlanLimit {
            name: name.as_str().into(),
            uid,
            rule,
            level,
            payment: if f.0 {
                Payment::Postpaid
            } else {
                Payment::Prepaid
            },
            shadow: f.1,
            refund_on_expiry: f.2,
            adaptive: None,
        }
    })
}

fn instant() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_micros)
}

fn plan() -> impl Strategy<Value = (Plan, Adopted)> {
    let bounds = (instant(), instant(), instant());
    let calendar = prop::option::of(bounds.prop_map(|(start, end, next_end)| Bounds {
        start,
        end,
        next_end,
    }));
    let adopted = (instant(), prop::collection::vec(calendar, 0..4));
    let adopted = adopted.prop_map(|(at, calendars)| Adopted { at, calendars });
    let limits = prop::collection::vec(limit(), 0..5);
    let usage = prop::option::of(any::<u64>().prop_map(Span::from_micros));
    (
        any::<u64>(),
        3_usize..=8,
        limits,
        any::<u64>(),
        usage,
        adopted,
    )
        .prop_map(|(version, levels, limits, keep, usage, adopted)| {
            let keep = Span::from_micros(keep);
            let plan = Plan::new(version, levels, limits, keep).counting_usage(usage);
            (plan, adopted)
        })
}

fn stage() -> impl Strategy<Value = LeaseStage> {
    let part = (any::<u32>(), amount(), 0..=MAX_AMOUNT);
    let part = part.prop_map(|(uid, taken, used)| Use { uid, taken, used });
    let ended = (any::<bool>(), prop::collection::vec(part, 0..5));
    prop_oneof![
        Just(LeaseStage::Live),
        Just(LeaseStage::Expired),
        ended.prop_map(|(expired, uses)| LeaseStage::Ended(Box::new(Settlement {
            expired,
            repeated: false,
            uses: uses.into(),
        })))
    ]
}

fn record() -> impl Strategy<Value = Record<OwnedKey>> {
    let marks = (any::<bool>(), prop::option::of(0..8u8));
    let share = (any::<u32>(), amount(), any::<i64>(), marks);
    let share = share.prop_map(|(uid, amount, reference, (forgotten, counted_at))| Share {
        uid,
        amount,
        reference: ChargeReference::from_i64(reference),
        forgotten,
        counted_at,
    });
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let granted = (any::<u128>(), instant(), instant(), any::<u64>());
    let shares = prop::collection::vec(share, 0..5);
    let idempotency = prop::option::of(bytes());
    let beside = (idempotency, any::<bool>());
    (bytes(), shares, granted, stage(), instant(), beside).prop_map(
        |(owner, shares, (id, granted_at, expires_at, fence), stage, due, beside)| {
            let granted = Granted {
                id,
                granted_at,
                expires_at,
                fence,
                repeated: false,
            };
            let mut record = Record::new(OwnedKey::new(&owner), shares.into(), granted);
            (record.stage, record.is_counted) = (stage, beside.1);
            record.under(beside.0.map(Vec::into_boxed_slice)).due(due)
        },
    )
}

/// Cut off anywhere, or longer: an error, never another value.
fn is_whole<T>(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, DecodeError>) {
    is_whole_to(VERSION, bytes, decode);
}

/// As [`is_whole`], of what is read up to another version.
fn is_whole_to<T>(newest: u8, bytes: &[u8], decode: impl Fn(&[u8]) -> Result<T, DecodeError>) {
    for length in 0..bytes.len() {
        assert!(
            decode(&bytes[..length]).is_err(),
            "{length} of {}",
            bytes.len()
        );
    }
    assert!(decode(&[bytes, &[0]].concat()).is_err());
    let newer = [&[newest + 1], &bytes[1..]].concat();
    let refused = decode(&newer).err();
    assert_eq!(
        refused,
        Some(DecodeError::Newer {
            version: newest + 1,
            reads: newest
        })
    );
}

proptest! {
    #[test]
    fn a_plan_is_read_as_it_was_written((plan, adopted) in plan()) {
        let bytes = encode_plan(&plan, &adopted);
        prop_assert_eq!(decode_plan(&bytes), Ok((plan, adopted)));
        is_whole_to(VERSION + 1, &bytes, decode_plan);
    }

    #[test]
    fn a_record_is_read_as_it_was_written(record in record()) {
        let mut bytes = Vec::new();
        encode_record(&record, &mut bytes);
        prop_assert_eq!(decode_record(&bytes), Ok(record));
        is_whole_to(bytes[0], &bytes, decode_record);
    }

    #[test]
    fn bytes_of_any_content_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut versioned = vec![VERSION];
        versioned.extend(&bytes);
        for bytes in [bytes, versioned] {
            let _ = (decode_plan(&bytes), decode_record(&bytes), decode_row(&bytes), decode_table(&bytes));
        }
    }
}

#[test]
fn a_row_and_a_table_are_read_as_they_were_written() {
    let slots = Rule::Slots(Slots::new(3, Span::SECOND).expect("in range"));
    let mut held = State::Fresh;
    let time = tidegate_store::core::DecisionTime::at(Timestamp::from_micros(7));
    slots.charge(&mut held, 1, &time, None);
    let mut bytes = row_head(9, false).to_vec();
    encode_row(&[State::Fresh, held.clone()], &mut bytes);
    let states = [State::Fresh, held];
    let written = |own| EncodedRow {
        serial: 9,
        own,
        states: states.clone().into(),
    };
    assert_eq!(decode_row(&bytes), Ok(written(None)));
    is_whole_to(VERSION + 1, &bytes, decode_row);
    bytes[0] = 3;
    assert_eq!(
        decode_row(&bytes),
        Err(DecodeError::Newer {
            version: 3,
            reads: 2
        })
    );
    let known = Known {
        name: "a set".into(),
        fence: 3,
        latest: Timestamp::from_micros(-4),
    };
    assert_eq!(decode_table(&encode_table(&known)), Ok(known));
}

#[test]
fn a_row_with_rules_of_its_own_is_read_back_with_them() {
    let rules = [
        Rule::Bucket(Bucket::new(3, Span::SECOND, 9).expect("in range")),
        Rule::Slots(Slots::new(4, Span::SECOND).expect("in range")),
    ];
    let limit = |rule: &Rule| PlanLimit {
        name: "l".into(),
        uid: 0,
        rule: *rule,
        level: 0,
        payment: Payment::Prepaid,
        shadow: false,
        refund_on_expiry: false,
        adaptive: None,
    };
    let own: Vec<_> = rules.iter().map(limit).collect();
    let mut bytes = row_head(7, true).to_vec();
    encode_own(&own, &mut bytes);
    encode_row(&[State::Fresh, State::Fresh], &mut bytes);
    let read = decode_row(&bytes).expect("it was written so");
    assert_eq!((read.serial, read.own.as_deref()), (7, Some(&rules[..])));
    is_whole_to(VERSION + 1, &bytes, decode_row);
}

#[test]
fn a_definition_is_read_back_for_its_owner_and_key_or_refused() {
    let place = crate::layout::definition_key("owner", b"k");
    let said = Definition::new(b"k", b"said").at_version(7);
    let value = encode_definition(&said).expect("it has a value");
    assert_eq!(
        decode_definition(&place, &value),
        Ok(("owner".to_owned(), said))
    );
    let newer = [&[VERSION + 1][..], b"said"].concat();
    let version = VERSION + 1;
    assert_eq!(
        decode_definition(&place, &newer),
        Err(DecodeError::Newer {
            version,
            reads: VERSION
        })
    );
    assert_eq!(
        decode_definition(&place[..6], &value),
        Err(DecodeError::Truncated)
    );
    assert_eq!(decode_definition(&place, b""), Err(DecodeError::Truncated));
}

#[test]
fn an_event_and_an_owners_version_are_read_back_or_refused() {
    let event = Event {
        subject: b"acme".to_vec(),
        body: b"told".to_vec(),
        at: Timestamp::from_micros(-5),
        lasts: std::time::Duration::from_micros(9),
        most: 3,
        version: 7,
    };
    let place = crate::layout::definition_key("owner", &7_u64.to_be_bytes());
    let value = encode_event(&event);
    let read = decode_event(&place, &value);
    assert_eq!(read, Ok(("owner".to_owned(), event)));
    let head = 1 + 8 + 8 + 4 + 4 + 4;
    for length in 0..head {
        assert!(decode_event(&place, &value[..length]).is_err(), "{length}");
    }
    assert!(decode_event(&place[..place.len() - 1], &value).is_err());
    let owner = encode_owner(7);
    assert_eq!(decode_owner(b"owner", &owner), Ok(("owner".to_owned(), 7)));
    is_whole(&owner, |bytes| decode_owner(b"owner", bytes));
}
