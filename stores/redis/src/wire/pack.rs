//! MessagePack as the server's `cmsgpack` reads it: bytes of any content are
//! written as strings, which is all it knows.

use rmp::encode::{self, ByteBuf};
use tidegate_store::core::{Amount, MAX_AMOUNT};

/// Something written piece by piece. (Writing to memory does not fail.)
#[derive(Debug, Default)]
pub(crate) struct Pack(ByteBuf);

/// What was announced by a length follows: so many pieces, or pairs.
impl Pack {
    pub(crate) fn map(&mut self, pairs: usize) -> &mut Self {
        let Ok(_) = encode::write_map_len(&mut self.0, pairs as u32);
        self
    }

    pub(crate) fn array(&mut self, pieces: usize) -> &mut Self {
        let Ok(_) = encode::write_array_len(&mut self.0, pieces as u32);
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let Ok(()) = encode::write_str_len(&mut self.0, bytes.len() as u32).map(|_| ());
        self.0.as_mut_vec().extend_from_slice(bytes);
        self
    }

    pub(crate) fn int(&mut self, number: i64) -> &mut Self {
        let Ok(_) = encode::write_sint(&mut self.0, number);
        self
    }

    /// No amount is larger than 2^53 - 1.
    pub(crate) fn amount(&mut self, amount: Amount) -> &mut Self {
        self.int(amount.min(MAX_AMOUNT) as i64)
    }

    pub(crate) fn bool(&mut self, truth: bool) -> &mut Self {
        let Ok(()) = encode::write_bool(&mut self.0, truth);
        self
    }

    /// The name of a pair; its value follows.
    pub(crate) fn name(&mut self, name: &str) -> &mut Self {
        self.bytes(name.as_bytes())
    }

    /// A whole number of any size: limbs of 24 bits from 2^53 on.
    pub(crate) fn wide(&mut self, number: u128) -> &mut Self {
        if number < 1 << 53 {
            return self.int(number as i64);
        }
        let limb = |place: u32| number.checked_shr(24 * place).unwrap_or(0);
        let limbs = (0..6).take_while(|&place| limb(place) > 0);
        let limbs: Vec<_> = limbs
            .map(|place| (limb(place) & 0xff_ffff) as i64)
            .collect();
        self.array(limbs.len());
        for limb in limbs {
            self.int(limb);
        }
        self
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0.into_vec()
    }
}
