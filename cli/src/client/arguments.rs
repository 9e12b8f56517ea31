//! What is asked, as the command line says it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};
use tidegate::{MAX_AMOUNT, Unit};
use tidegate_policy::parse_duration;
use tidegate_service::Number;

use super::exit::{Outcome, Stop};

/// The members of a request.
pub type Members = Map<String, Value>;

/// Whose limits are meant.
#[derive(Clone, Debug, Args)]
pub struct Subject {
    /// The policy
    #[arg(long, short, value_name = "NAME", env = "TIDEGATE_POLICY")]
    pub policy: String,

    /// Who or what is limited
    #[arg(long, short, value_name = "KEY", env = "TIDEGATE_KEY")]
    pub key: Option<String>,

    /// The key in Base64, for one that is no text; takes precedence over --key
    #[arg(long, value_name = "BASE64")]
    pub key_base64: Option<String>,
}

/// How much.
#[derive(Clone, Debug, Args)]
pub struct Amounts {
    /// How much of which limit; calls and concurrency that are not named are
    /// taken at 1, and amount 0 leaves a limit out. A rate or budget that is not
    /// named is not charged once any limit is named: give --cost to charge every one
    #[arg(value_name = "LIMIT=AMOUNT")]
    pub amounts: Vec<Amount>,

    /// How much of every rate and budget that is not named
    #[arg(long, value_name = "AMOUNT")]
    pub cost: Option<Quantity>,
}

/// A limit and how much of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Amount {
    /// The limit's name.
    pub limit: String,
    /// How much.
    pub amount: Quantity,
}

/// How much: of a limit with a unit, with digits behind the point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// A whole number.
    Whole(u64),
    /// A decimal, as it was typed.
    Decimal(String),
}

impl FromStr for Quantity {
    type Err = String;

    /// It may be written with underscores.
    fn from_str(text: &str) -> Result<Self, String> {
        if !text.contains('.') {
            return whole(text).map(Self::Whole);
        }
        let decimal = text.replace('_', "");
        match Unit::decimal(FINEST).parse(&decimal) {
            Ok(_) => Ok(Self::Decimal(decimal)),
            Err(wrong) => Err(wrong.to_string()),
        }
    }
}

impl Quantity {
    /// As a service is asked.
    pub fn number(&self) -> Number<'_> {
        match self {
            Self::Whole(number) => Number::Whole(*number),
            Self::Decimal(text) => Number::Decimal(text),
        }
    }
}

impl From<Quantity> for Value {
    /// As a request has it.
    fn from(quantity: Quantity) -> Self {
        match quantity {
            Quantity::Whole(number) => number.into(),
            Quantity::Decimal(text) => text.into(),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Decimal(text) => text.fmt(f),
        }
    }
}

/// The most digits behind the point that a unit has.
const FINEST: u8 = 9;

impl FromStr for Amount {
    type Err = String;

    /// A name may contain `=`: the amount is what stands after the last.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.rsplit_once('=') {
            Some((limit, amount)) if !limit.is_empty() => Ok(Self {
                limit: limit.to_owned(),
                amount: amount.parse()?,
            }),
            _ => Err("write LIMIT=AMOUNT, such as tpm=1200".to_owned()),
        }
    }
}

/// A whole number, which may be written with underscores.
pub fn whole(text: &str) -> Result<u64, String> {
    let amount = text.replace('_', "").parse().ok();
    amount
        .filter(|amount| *amount <= MAX_AMOUNT)
        .ok_or_else(|| format!("`{text}` is no whole number from 0 to {MAX_AMOUNT}"))
}

/// A length of time.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// A length of time in whole milliseconds, at least one.
pub fn millis(length: Duration) -> u64 {
    let millis = length.as_micros().div_ceil(1_000).max(1);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

impl Subject {
    /// A request about it.
    pub fn request(&self) -> Outcome<Members> {
        let (name, key) = match (&self.key_base64, &self.key) {
            (Some(key), _) => ("key_base64", key),
            (None, Some(key)) => ("key", key),
            (None, None) => return Err(Stop::usage("say who is limited: --key KEY")),
        };
        let policy = ("policy".to_owned(), self.policy.as_str().into());
        let key = (name.to_owned(), key.as_str().into());
        Ok([policy, key].into_iter().collect())
    }
}

impl Amounts {
    /// Puts them into a request.
    pub fn put(&self, request: &mut Members) -> Outcome<()> {
        if let Some(cost) = &self.cost {
            request.insert("cost".to_owned(), cost.clone().into());
        }
        if !self.amounts.is_empty() {
            request.insert("amounts".to_owned(), named(&self.amounts)?);
        }
        Ok(())
    }
}

/// Amounts by name.
pub fn named(amounts: &[Amount]) -> Outcome<Value> {
    let mut named = Members::new();
    for Amount { limit, amount } in amounts {
        if named.insert(limit.clone(), amount.clone().into()).is_some() {
            let message = format!("limit `{limit}` is named twice; add the amounts up");
            return Err(Stop::usage(message));
        }
    }
    Ok(Value::Object(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_belongs_to_a_limit() {
        let amount = |limit: &str, amount| {
            let limit = limit.to_owned();
            let amount = Quantity::Whole(amount);
            Ok(Amount { limit, amount })
        };
        assert_eq!("tpm=1_200".parse(), amount("tpm", 1200));
        assert_eq!("a=b=0".parse(), amount("a=b", 0));
        for text in [
            "",
            "tpm",
            "=3",
            "tpm=",
            "tpm=-1",
            "tpm=.5",
            "tpm=1.",
            "tpm=1.0.0",
            "tpm=1e9",
        ] {
            assert!(text.parse::<Amount>().is_err(), "{text}");
        }
        assert!("tpm=9007199254740992".parse::<Amount>().is_err());
        let cents: Amount = "usd=1_200.05".parse().expect("a decimal");
        assert_eq!(cents.amount, Quantity::Decimal("1200.05".to_owned()));
    }

    #[test]
    fn a_length_of_time_is_rounded_up_to_milliseconds() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_micros(1_001)), 2);
        assert_eq!(millis(Duration::from_secs(5)), 5_000);
    }
}
