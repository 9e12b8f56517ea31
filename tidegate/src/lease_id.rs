//! The name of a lease.

use std::fmt;
use std::str::FromStr;

/// The name of a lease: 128 random bits, which only its holder knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub(crate) u128);

impl LeaseId {
    /// Its bits.
    #[must_use]
    pub const fn to_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Half of it: whoever reads a log must not be able to settle.
impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseId({:016x}...)", (self.0 >> 64) as u64)
    }
}

/// Not a lease's id.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a lease's id has 32 hexadecimal digits")]
pub struct NoLeaseId;

/// As it is written, and no other way.
impl FromStr for LeaseId {
    type Err = NoLeaseId;

    fn from_str(text: &str) -> Result<Self, NoLeaseId> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_id);
        bits.map(Self).ok_or(NoLeaseId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_no_other_way() {
        let id = LeaseId(0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string().parse(), Ok(id));
        let digits = "0123456789abcdef0123456789abcdef";
        let odd = [
            &digits[1..],
            &format!("{digits}0"),
            &format!("+{}", &digits[1..]),
        ];
        for text in ["", "1", "+1"].into_iter().chain(odd) {
            assert_eq!(text.parse::<LeaseId>(), Err(NoLeaseId), "{text}");
        }
        assert_eq!("g".repeat(32).parse::<LeaseId>(), Err(NoLeaseId));
    }
}
