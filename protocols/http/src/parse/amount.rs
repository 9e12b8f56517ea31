//! Amounts in JSON, each limit named once: whole numbers from 0 to 2^53 - 1, and decimals
//! in quotes, which no reader of JSON makes a binary fraction of.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use tidegate::{MAX_AMOUNT, Unit};
use tidegate_service::Number;

use crate::openapi::schema::schema;

/// What an amount must be, wherever it stands.
const WHOLE: &str = "a whole number from 0 to 9007199254740991";

/// What may be written instead.
const QUOTED: &str = "or a decimal in quotes, such as \"0.25\"";

/// The most limits that one request names: each is held against those before it.
const MOST_NAMED: usize = 1_024;

/// One amount, of whatever unit.
pub(crate) enum Amount {
    Whole(u64),
    Decimal(Box<str>),
}

/// Amounts by limit name, in the order in which they were written.
#[derive(Default)]
pub(crate) struct Amounts(Vec<(String, Amount)>);

/// An amount of a limit with this unit, as it is answered.
pub(crate) struct InUnit(pub(crate) Unit, pub(crate) u64);

/// How a sum of amounts is written: as they are, and it may be larger than any of them.
pub(crate) struct Sum;

/// A decimal in quotes.
pub(crate) const DECIMAL: &str = r"^[0-9]+(\.[0-9]{1,9})?$";

schema!(Amount = {
    "type": ["integer", "string"], "minimum": 0, "maximum": MAX_AMOUNT, "pattern": DECIMAL
});
schema!(InUnit = {
    "type": ["integer", "string"], "minimum": 0, "maximum": MAX_AMOUNT, "pattern": DECIMAL
});
schema!(Sum = { "type": ["integer", "string"], "minimum": 0, "pattern": DECIMAL });
schema!(Amounts = {
    "type": "object",
    "additionalProperties": {
        "type": ["integer", "string"],
        "minimum": 0,
        "maximum": MAX_AMOUNT,
        "pattern": DECIMAL,
        "description": "So much of that limit: a whole number, or, of a limit with a `unit`, a \
            decimal in quotes, such as \"0.25\"."
    }
});

impl Amount {
    pub(crate) fn number(&self) -> Number<'_> {
        match self {
            Self::Whole(number) => Number::Whole(*number),
            Self::Decimal(text) => Number::Decimal(text),
        }
    }
}

impl Amounts {
    /// As the service takes them.
    pub(crate) fn said(&self) -> tidegate_service::Amounts<'_> {
        let pairs = self.0.iter();
        pairs
            .map(|(name, amount)| (name.as_str(), amount.number()))
            .collect()
    }
}

impl Serialize for InUnit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(unit, amount) = *self;
        match unit == Unit::ONE {
            true => serializer.serialize_u64(amount),
            false => serializer.collect_str(&unit.show(amount)),
        }
    }
}

/// Reads an amount from text, as a query has it.
pub(crate) fn parse(text: &str) -> Result<Number<'_>, String> {
    let is_whole = !text.contains('.');
    let fits = || text.parse().is_ok_and(|amount: u64| amount <= MAX_AMOUNT);
    match is_decimal(text) && (!is_whole || fits()) {
        true => Ok(Number::Decimal(text)),
        false => Err(format!("`{text}` is not {WHOLE}, or a decimal")),
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneAmount)
    }
}

struct OneAmount;

impl Visitor<'_> for OneAmount {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WHOLE}, {QUOTED}")
    }

    fn visit_u64<E: de::Error>(self, amount: u64) -> Result<Amount, E> {
        if amount > MAX_AMOUNT {
            let message = format_args!("{amount} is too large: an amount is {WHOLE}");
            return Err(E::custom(message));
        }
        Ok(Amount::Whole(amount))
    }

    fn visit_i64<E: de::Error>(self, amount: i64) -> Result<Amount, E> {
        let message = format_args!("{amount} is negative: an amount is {WHOLE}");
        Err(E::custom(message))
    }

    fn visit_f64<E: de::Error>(self, amount: f64) -> Result<Amount, E> {
        // A reader of JSON has no other number for `-0`.
        if amount.is_sign_negative() {
            let message = format_args!("{amount} is negative: an amount is {WHOLE}");
            return Err(E::custom(message));
        }
        let message =
            format_args!("{amount:?} has a point, or is too large: an amount is {WHOLE}, {QUOTED}");
        Err(E::custom(message))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
        if !is_decimal(text) {
            let message = format_args!("`{text}` is no amount: it is {WHOLE}, {QUOTED}");
            return Err(E::custom(message));
        }
        // Whether it is a multiple of the limit's unit, the policy will tell.
        Ok(Amount::Decimal(text.into()))
    }
}

/// Digits, and perhaps a point with as many more as the finest unit has.
fn is_decimal(text: &str) -> bool {
    const FINEST: usize = 9;
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('.') {
        None => digits(text),
        Some((whole, fraction)) => digits(whole) && digits(fraction) && fraction.len() <= FINEST,
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
        let mut amounts: Vec<(String, Amount)> = Vec::new();
        while let Some((name, amount)) = map.next_entry::<String, Amount>()? {
            if amounts.iter().any(|(known, _)| *known == name) {
                let message = format_args!("limit `{name}` is named twice; add the amounts up");
                return Err(de::Error::custom(message));
            }
            if amounts.len() == MOST_NAMED {
                let message = format_args!("at most {MOST_NAMED} limits are named at once");
                return Err(de::Error::custom(message));
            }
            amounts.push((name, amount));
        }
        Ok(Amounts(amounts))
    }
}
