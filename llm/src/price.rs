//! What tokens cost. Prices change every month: they are the operator's to write, none are here.

use tidegate_core::{Amount, MAX_AMOUNT};

use crate::by_model::ByModel;
use crate::usage::Usage;

/// Millionths of a currency's unit for a million tokens: for 2.50 dollars 2,500,000.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Price {
    /// Of the prompt.
    pub input: Amount,
    /// Of what came out of a cache; `None`: as the prompt.
    pub cache_read: Option<Amount>,
    /// Of what was written into a cache; `None`: as the prompt.
    pub cache_write: Option<Amount>,
    /// Of the answer, reasoning included.
    pub output: Amount,
}

impl Price {
    /// What that use costs, in millionths of the unit, rounded up; what is not known costs nothing.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> Amount {
        let cost = |tokens: Option<Amount>, price: Amount| {
            u128::from(tokens.unwrap_or(0)) * u128::from(price)
        };
        let sum = cost(usage.input, self.input)
            + cost(usage.cache_read, self.cache_read.unwrap_or(self.input))
            + cost(usage.cache_write, self.cache_write.unwrap_or(self.input))
            + cost(usage.output, self.output);
        let micros = Amount::try_from(sum.div_ceil(1_000_000)).unwrap_or(MAX_AMOUNT);
        micros.min(MAX_AMOUNT)
    }
}

/// Millionths as units of so many decimal places, rounded up.
#[must_use]
pub fn in_units(millionths: Amount, places: u8) -> Amount {
    let units = match places {
        0..6 => millionths.div_ceil(10_u64.pow(6 - u32::from(places))),
        _ => millionths.saturating_mul(10_u64.saturating_pow(u32::from(places) - 6)),
    };
    units.min(MAX_AMOUNT)
}

/// Prices by model.
pub type Prices = ByModel<Price>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_costs_what_its_tokens_cost_rounded_up_once() {
        let price = Price {
            input: 2_500_000,
            cache_read: Some(1_250_000),
            cache_write: None,
            output: 10_000_000,
        };
        let mut usage = Usage {
            input: Some(1_000),
            cache_read: Some(2_000),
            output: Some(300),
            ..Usage::default()
        };
        assert_eq!(price.of(&usage), 2_500 + 2_500 + 3_000);
        usage.input = Some(1_001);
        assert_eq!(price.of(&usage), 8_003);
        usage.output = Some(MAX_AMOUNT);
        assert_eq!(price.of(&usage), MAX_AMOUNT);
        assert_eq!(price.of(&Usage::default()), 0);
    }
}
