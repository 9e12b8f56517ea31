//! Amounts in JSON: whole numbers from 0 to 2^53 - 1, each limit named once.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use tidegate::MAX_AMOUNT;

/// What an amount must be, wherever it stands.
const WHOLE: &str = "a whole number from 0 to 9007199254740991";

/// One amount.
#[derive(Clone, Copy)]
pub(crate) struct Amount(pub(crate) u64);

/// Amounts by limit name, in the order in which they were written.
#[derive(Default)]
pub(crate) struct Amounts(Vec<(String, u64)>);

impl Amounts {
    /// As the engine takes them.
    pub(crate) fn named(&self) -> Vec<(&str, u64)> {
        let pairs = self.0.iter();
        pairs
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect()
    }
}

/// Reads an amount from text, as a query has it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let amount = text.parse().ok().filter(|_| digits);
    amount
        .filter(|amount| *amount <= MAX_AMOUNT)
        .ok_or_else(|| format!("`{text}` is not {WHOLE}"))
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(OneAmount)
    }
}

struct OneAmount;

impl Visitor<'_> for OneAmount {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WHOLE)
    }

    fn visit_u64<E: de::Error>(self, amount: u64) -> Result<Amount, E> {
        if amount > MAX_AMOUNT {
            let message = format_args!("{amount} is too large: an amount is {WHOLE}");
            return Err(E::custom(message));
        }
        Ok(Amount(amount))
    }

    fn visit_i64<E: de::Error>(self, amount: i64) -> Result<Amount, E> {
        let message = format_args!("{amount} is negative: an amount is {WHOLE}");
        Err(E::custom(message))
    }

    fn visit_f64<E: de::Error>(self, amount: f64) -> Result<Amount, E> {
        let message = format_args!("{amount:?} is a fraction or too large: an amount is {WHOLE}");
        Err(E::custom(message))
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ByName)
    }
}

struct ByName;

impl<'de> Visitor<'de> for ByName {
    type Value = Amounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("amounts by limit name, such as {\"tpm\": 4000}")
    }

    /// A name that comes twice is an error: of two amounts, none is the one
    /// that was meant.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Amounts, A::Error> {
        let mut amounts: Vec<(String, u64)> = Vec::new();
        while let Some((name, Amount(amount))) = map.next_entry::<String, Amount>()? {
            if amounts.iter().any(|(known, _)| *known == name) {
                let message = format_args!("limit `{name}` is named twice; add the amounts up");
                return Err(de::Error::custom(message));
            }
            amounts.push((name, amount));
        }
        Ok(Amounts(amounts))
    }
}
