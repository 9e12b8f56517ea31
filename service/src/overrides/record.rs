//! What is kept of an override beside its limits: who set it, why, when and until when.
//!
//! ```text
//! version u8 = 2, by?, reason?, expires_at?, created_at?, changed_at?, limits
//! ```
//! Version 1 are the limits alone, as earlier servers wrote them.

use tidegate_core::{DecodeError, Timestamp};

use crate::bytes::{Reader, Writer};
use tidegate::Limit;
use tidegate::internal::LimitInternals;

const VERSION: u8 = 2;

/// The version of limits alone.
const LIMITS: u8 = 1;

/// Who set an override, why, when, and until when it holds. Instants are by the clock of the
/// server that was asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Record {
    /// The name of the token that set it last; `None` where an earlier version did.
    pub by: Option<String>,
    /// Why, if that was said: at most [`LONGEST_REASON`](crate::bounds::LONGEST_REASON) bytes.
    pub reason: Option<String>,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
    /// When it was set first at its place; `None` where an earlier version did that.
    pub created_at: Option<Timestamp>,
    /// When it was set last.
    pub changed_at: Option<Timestamp>,
}

/// What an override says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct OverrideValue {
    /// The limits, as they were given.
    pub limits: Vec<Limit>,
    /// Who set them, why, and until when.
    pub record: Record,
}

impl OverrideValue {
    pub(super) fn new(limits: &[Limit], record: Record) -> Self {
        Self {
            limits: limits.to_vec(),
            record,
        }
    }

    /// As a store keeps it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new(VERSION);
        let record = &self.record;
        out.some_text(record.by.as_deref());
        out.some_text(record.reason.as_deref());
        let instants = [record.expires_at, record.created_at, record.changed_at];
        instants.into_iter().for_each(|at| out.some_instant(at));
        out.0.extend(Limit::encode_all(&self.limits));
        out.0
    }

    /// What a store has kept.
    ///
    /// # Errors
    /// What no version wrote, or only a newer one.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.first() == Some(&LIMITS) {
            let limits = Limit::decode_all(bytes)?;
            return Ok(Self::new(&limits, Record::default()));
        }
        let mut reader = Reader::new(bytes, VERSION)?;
        let (by, reason) = (reader.some_text()?, reader.some_text()?);
        let mut instant = || reader.some_instant();
        let record = Record {
            by,
            reason,
            expires_at: instant()?,
            created_at: instant()?,
            changed_at: instant()?,
        };
        Ok(Self {
            limits: Limit::decode_all(reader.0)?,
            record,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn limits() -> Vec<Limit> {
        vec![Limit::calls("rpm", 7, Duration::from_secs(60))]
    }

    #[test]
    fn what_an_earlier_server_has_set_is_read_and_nobody_is_said_to_have_set_it() {
        let read = OverrideValue::decode(&Limit::encode_all(&limits())).unwrap();
        assert_eq!(read, OverrideValue::new(&limits(), Record::default()));
    }

    #[test]
    fn what_a_newer_server_has_set_is_told_apart_from_what_is_damaged() {
        let newer = OverrideValue::decode(&[VERSION + 1]).unwrap_err();
        assert!(matches!(
            newer,
            DecodeError::Newer {
                version: 3,
                reads: 2
            }
        ));
        let whole = OverrideValue::new(&limits(), Record::default()).encode();
        for end in 0..whole.len() {
            assert!(OverrideValue::decode(&whole[..end]).is_err());
        }
    }

    proptest! {
        #[test]
        fn what_is_kept_is_read_as_it_was_written(
            by in proptest::option::of(".{0,9}"),
            reason in proptest::option::of(".{0,9}"),
            instants in any::<[Option<i64>; 3]>(),
        ) {
            let [expires_at, created_at, changed_at] =
                instants.map(|at| at.map(Timestamp::from_micros));
            let record = Record { by, reason, expires_at, created_at, changed_at };
            let value = OverrideValue::new(&limits(), record);
            prop_assert_eq!(OverrideValue::decode(&value.encode()), Ok(value));
        }

        #[test]
        fn bytes_that_nobody_wrote_are_an_error(bytes in any::<Vec<u8>>()) {
            drop(OverrideValue::decode(&bytes));
        }
    }
}
