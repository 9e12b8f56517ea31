//! What tokens cost. Prices change every month: they are the operator's to write, none are here.

use std::collections::BTreeMap;
use std::ops::Bound;

use tidegate_core::{Amount, MAX_AMOUNT};

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
#[derive(Clone, Default, Debug)]
pub struct Prices(BTreeMap<String, Price>);

impl Prices {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that were written, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Price)> {
        self.0.iter().map(|(model, price)| (model.as_str(), *price))
    }

    /// The price that was written for exactly this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Price> {
        self.0.get(name).copied()
    }

    /// The price of a model: of that name, or of the longest that it is a version of: `gpt-5` for
    /// `gpt-5-2026-02-01` and `gpt-5-latest`, not for `gpt-5-mini`. Else that of the longest
    /// beginning: `gpt-5-*` for `gpt-5-mini`, `*` for any.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<Price> {
        self.by_name(model).or_else(|| self.by_beginning(model))
    }

    fn by_name(&self, model: &str) -> Option<Price> {
        let upto = (Bound::Unbounded, Bound::Included(model));
        let upto = self.0.range::<str, _>(upto).rev();
        let mut beginnings = upto.filter(|(name, _)| is_version(model, name));
        beginnings.next().map(|(_, price)| *price)
    }

    fn by_beginning(&self, model: &str) -> Option<Price> {
        let begins = |(name, price): (&String, &Price)| {
            let beginning = name.strip_suffix('*')?;
            let begins = model.starts_with(beginning);
            begins.then_some((beginning.len(), *price))
        };
        let all = self.0.iter().filter_map(begins);
        all.max_by_key(|(length, _)| *length)
            .map(|(_, price)| price)
    }
}

/// Whether `model` is `name`, or a version of it by a number or a date.
fn is_version(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else {
        return false;
    };
    let version = rest.strip_prefix(['-', '@', ':']);
    rest.is_empty()
        || rest == "-latest"
        || version.is_some_and(|version| {
            version.starts_with(|c: char| c.is_ascii_digit()) && version.chars().all(is_of_a_date)
        })
}

const fn is_of_a_date(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '-' | '.' | ':')
}

impl FromIterator<(String, Price)> for Prices {
    fn from_iter<I: IntoIterator<Item = (String, Price)>>(prices: I) -> Self {
        Self(prices.into_iter().collect())
    }
}

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

    /// The names with prices of 1, 2, 3 and so on.
    fn numbered(names: &[&str]) -> Prices {
        let price = |input| Price {
            input,
            ..Price::default()
        };
        let names = names.iter().map(|name| (*name).to_owned());
        names.zip((1..).map(price)).collect()
    }

    #[test]
    fn a_model_has_the_price_of_the_longest_name_that_it_is_a_version_of() {
        let prices = numbered(&["gpt-5", "gpt-5-mini", "gpt-6"]);
        let of = |model| prices.of(model).map(|price| price.input);
        assert_eq!(of("gpt-5"), Some(1));
        assert_eq!(of("gpt-5-2026-02-01"), Some(1));
        assert_eq!(of("gpt-5-mini-2026"), Some(2));
        assert_eq!(of("gpt-6-latest"), Some(3));
        for other in [
            "gpt-4o",
            "gpt-5-pro",
            "gpt-5.1",
            "gpt-5-",
            "gpt-5-4o",
            "gp",
            "",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_has_no_name_has_the_price_of_the_longest_beginning() {
        let prices = numbered(&["gpt-5", "gpt-*", "gpt-5-*", "*"]);
        let of = |model| prices.of(model).map(|price| price.input);
        assert_eq!(of("gpt-5-2026-02-01"), Some(1));
        assert_eq!(of("gpt-5-mini"), Some(3));
        assert_eq!(of("gpt-4o"), Some(2));
        assert_eq!(of("claude"), Some(4));
    }
}
