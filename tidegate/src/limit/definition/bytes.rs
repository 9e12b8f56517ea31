//! Limits as bytes, for a store to keep: what is written by one version is read
//! by every later one, or refused.
//!
//! ```text
//! version u8, n u32, n x limit
//! limit: name, kind u8, capacity u64, period, algorithm u8, burst?, ttl?,
//!        sub-windows?, entries?, postpaid u8, shadow u8, refund u8, level?, places u8, added u8
//! period: 0 none | 1 nanoseconds u64 | 2 day, 3 week, 4 month: zone
//! ```
//! Numbers are little-endian; a text has its length (u32) before it; what may be
//! missing (`?`) has 0 or 1 before it. Version 1 has no `added`; where no limit is, it is still
//! written, so that earlier servers read it.

use std::time::Duration;

use tidegate_core::{DecodeError, Payment};

use super::{Kind, Limit, OnFailure};
use crate::limit::Algorithm;
use crate::limit::{Period, Unit};

const VERSION: u8 = 2;

/// The version that knows of no limit that is added.
const EARLIER: u8 = 1;

const KINDS: [Kind; 3] = [Kind::Calls, Kind::Rate, Kind::Concurrency];

const ALGORITHMS: [Algorithm; 7] = [
    Algorithm::TokenBucket,
    Algorithm::Gcra,
    Algorithm::LeakyBucket,
    Algorithm::FixedWindow,
    Algorithm::FirstUseWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

impl Limit {
    /// `limits` as bytes, for a store to keep.
    pub(crate) fn encode_all(limits: &[Self]) -> Vec<u8> {
        let version = match limits.iter().any(|limit| limit.added) {
            true => VERSION,
            false => EARLIER,
        };
        let mut out = vec![version];
        out.extend((limits.len() as u32).to_le_bytes());
        for limit in limits {
            put(limit, &mut out);
            if version == VERSION {
                out.push(u8::from(limit.added));
            }
        }
        out
    }

    /// The limits that [`encode_all`](Self::encode_all) wrote.
    ///
    /// # Errors
    /// [`DecodeError`]: cut off, damaged, or written by a newer version.
    pub(crate) fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut reader = Reader(bytes);
        let version = reader.u8()?;
        match version {
            EARLIER | VERSION => {}
            0 => return Err(DecodeError::Corrupt("version")),
            version => {
                return Err(DecodeError::Newer {
                    version,
                    reads: VERSION,
                });
            }
        }
        let count = u32::from_le_bytes(reader.take()?);
        let limits: Result<_, _> = (0..count).map(|_| reader.limit(version)).collect();
        match reader.0 {
            [] => limits,
            _ => limits.and(Err(DecodeError::Corrupt("bytes after the end"))),
        }
    }
}

fn put(limit: &Limit, out: &mut Vec<u8>) {
    put_text(&limit.name, out);
    out.push(place(&KINDS, &limit.kind));
    out.extend(limit.capacity.to_le_bytes());
    put_period(limit.period.as_ref(), out);
    out.push(place(&ALGORITHMS, &limit.algorithm));
    put_number(limit.burst, out);
    put_number(limit.ttl.map(nanos), out);
    put_number(limit.sub_windows.map(u64::from), out);
    put_number(limit.max_entries.map(u64::from), out);
    out.push(u8::from(limit.payment == Payment::Postpaid));
    out.push(u8::from(limit.shadow));
    out.push(u8::from(limit.on_failure == OnFailure::Refund));
    out.push(u8::from(limit.level.is_some()));
    if let Some(level) = &limit.level {
        put_text(level, out);
    }
    out.push(limit.unit.places());
}

fn place<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|known| known == one);
    place.map_or(u8::MAX, |place| place as u8)
}

fn put_period(period: Option<&Period>, out: &mut Vec<u8>) {
    let (kind, zone) = match period {
        None => return out.push(0),
        Some(Period::Every(length)) => {
            out.push(1);
            return out.extend(nanos(*length).to_le_bytes());
        }
        Some(Period::Day { zone }) => (2, zone),
        Some(Period::Week { zone }) => (3, zone),
        Some(Period::Month { zone }) => (4, zone),
    };
    out.push(kind);
    put_text(zone, out);
}

/// A limit's lengths are at most 400 days.
fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

fn put_number(number: Option<u64>, out: &mut Vec<u8>) {
    out.push(u8::from(number.is_some()));
    out.extend(number.into_iter().flat_map(u64::to_le_bytes));
}

fn put_text(text: &str, out: &mut Vec<u8>) {
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take::<1>()?[0])
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn flag(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Corrupt("flag")),
        }
    }

    fn number(&mut self) -> Result<Option<u64>, DecodeError> {
        self.flag()?.then(|| self.u64()).transpose()
    }

    fn small(&mut self) -> Result<Option<u32>, DecodeError> {
        let small = |number| u32::try_from(number).map_err(|_| DecodeError::Corrupt("number"));
        self.number()?.map(small).transpose()
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let length = u32::from_le_bytes(self.take()?) as usize;
        let (text, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        let text = std::str::from_utf8(text).map_err(|_| DecodeError::Corrupt("text"))?;
        Ok(text.to_owned())
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> Result<T, DecodeError> {
        let one = all.get(usize::from(self.u8()?));
        one.copied().ok_or(DecodeError::Corrupt("kind"))
    }

    fn period(&mut self) -> Result<Option<Period>, DecodeError> {
        Ok(Some(match self.u8()? {
            0 => return Ok(None),
            1 => Period::Every(Duration::from_nanos(self.u64()?)),
            2 => Period::day(self.text()?),
            3 => Period::week(self.text()?),
            4 => Period::month(self.text()?),
            _ => return Err(DecodeError::Corrupt("period")),
        }))
    }

    fn limit(&mut self, version: u8) -> Result<Limit, DecodeError> {
        Ok(Limit {
            name: self.text()?,
            kind: self.one_of(&KINDS)?,
            capacity: self.u64()?,
            period: self.period()?,
            algorithm: self.one_of(&ALGORITHMS)?,
            burst: self.number()?,
            ttl: self.number()?.map(Duration::from_nanos),
            sub_windows: self.small()?,
            max_entries: self.small()?,
            payment: self.one_of(&[Payment::Prepaid, Payment::Postpaid])?,
            shadow: self.flag()?,
            on_failure: self.one_of(&[OnFailure::Charge, OnFailure::Refund])?,
            level: self.flag()?.then(|| self.text()).transpose()?,
            unit: Unit::decimal(self.u8()?),
            // Its set's own doing, which is not kept.
            adaptive: false,
            added: version != EARLIER && self.flag()?,
            absent: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Vec<Limit> {
        let minute = Duration::from_secs(60);
        let sliding = Limit::rate("b", 1 << 50, Duration::from_micros(1_001));
        vec![
            Limit::calls("rpm", 300, minute).burst(9).at_level("org"),
            sliding
                .algorithm(Algorithm::SlidingWindow)
                .sub_windows(7)
                .postpaid(),
            Limit::budget("day", 5, Period::day("Europe/Berlin")).shadow(),
            Limit::budget("\u{20ac}", 5, Period::month("UTC")).unit(Unit::decimal(3)),
            Limit::concurrency("running", 24)
                .ttl(minute)
                .on_failure(OnFailure::Refund),
            Limit::calls("gpu", 3, minute).added(),
        ]
    }

    #[test]
    fn limits_are_read_back_as_they_were_written() {
        assert_eq!(
            Limit::decode_all(&Limit::encode_all(&limits())),
            Ok(limits())
        );
        assert_eq!(Limit::decode_all(&Limit::encode_all(&[])), Ok(Vec::new()));
    }

    #[test]
    fn what_has_no_added_limit_is_read_by_earlier_servers() {
        let plain: Vec<_> = limits().into_iter().filter(|l| !l.added).collect();
        let bytes = Limit::encode_all(&plain);
        assert_eq!(bytes[0], EARLIER);
        assert_eq!(Limit::decode_all(&bytes), Ok(plain));
    }

    #[test]
    fn what_is_cut_off_too_long_or_newer_is_refused() {
        let bytes = Limit::encode_all(&limits());
        for end in 0..bytes.len() {
            assert!(Limit::decode_all(&bytes[..end]).is_err());
        }
        assert!(Limit::decode_all(&[&bytes[..], &[0]].concat()).is_err());
        let newer = [&[VERSION + 1], &bytes[1..]].concat();
        let version = VERSION + 1;
        assert_eq!(
            Limit::decode_all(&newer),
            Err(DecodeError::Newer {
                version,
                reads: VERSION,
            })
        );
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let bytes = Limit::encode_all(&limits());
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                drop(Limit::decode_all(&damaged));
            }
        }
    }
}
