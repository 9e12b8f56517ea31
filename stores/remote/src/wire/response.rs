//! What is answered.
//!
//! ```text
//! version u8, kind u8
//!   0 error         error
//!   1 unknown plan  nothing: it is to be adopted, and the request to be made again
//!   2 done          what was asked for
//! abilities: u8: 1 durable, 2 own clock, 4 counts usage
//! ```

use tidegate_store::bytes::reply::{decode_error, encode_error};
use tidegate_store::bytes::{Reader, Writer};
use tidegate_store::core::DecodeError;
use tidegate_store::{Abilities, StoreError};

use super::version::VERSION;

/// What is answered, but for what was asked for.
#[derive(Debug)]
pub(crate) enum Response<'a> {
    Error(StoreError),
    UnknownPlan,
    Done(Reader<'a>),
}

impl<'a> Response<'a> {
    /// What was asked for, as `write` has it.
    pub(crate) fn done(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(VERSION).u8(2);
        write(&mut out);
        out.done()
    }

    pub(crate) fn error(error: &StoreError) -> Vec<u8> {
        let mut out = Writer::default();
        encode_error(error, out.u8(VERSION).u8(0));
        out.done()
    }

    pub(crate) fn unknown_plan() -> Vec<u8> {
        vec![VERSION, 1]
    }

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
        match reader.u8()? {
            0 => {
                let error = decode_error(&mut reader)?;
                reader.end()?;
                Ok(Self::Error(error))
            }
            1 => {
                reader.end()?;
                Ok(Self::UnknownPlan)
            }
            2 => Ok(Self::Done(reader)),
            _ => Err(DecodeError::Corrupt("response")),
        }
    }
}

/// Appends what a store can do, to who asks a server for it.
pub(crate) fn put_abilities(abilities: Abilities, out: &mut Writer) {
    let durable = u8::from(abilities.durable);
    let (own_clock, usage) = (abilities.own_clock, abilities.counts_usage);
    out.u8(durable + 2 * u8::from(own_clock) + 4 * u8::from(usage));
}

/// Reads what a store can do that a server offers: it is shared, and an answer can be lost.
pub(crate) fn abilities(reader: &mut Reader<'_>) -> Result<Abilities, DecodeError> {
    match reader.u8()? {
        bits @ 0..8 => Ok(Abilities {
            durable: bits & 1 != 0,
            shared: true,
            own_clock: bits & 2 != 0,
            answers_can_be_lost: true,
            counts_usage: bits & 4 != 0,
        }),
        _ => Err(DecodeError::Corrupt("abilities")),
    }
}
