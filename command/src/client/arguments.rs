//! What is asked, as the command line says it.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tidegate_client::{Key, Quantity, Request};
use tidegate_policy::parse_duration;
use tidegate_service::Number;

use super::exit::{Outcome, Stop};

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

    /// The entity that is limited, by its id: `tidegate entity` keeps them; takes precedence
    /// over --key
    #[arg(long, value_name = "ID", conflicts_with = "key_base64")]
    pub entity: Option<String>,
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
    #[arg(long, value_name = "AMOUNT", allow_negative_numbers = true)]
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

/// As a service is asked.
pub fn number(quantity: &Quantity) -> Number<'_> {
    match quantity {
        Quantity::Whole(number) => Number::Whole(*number),
        Quantity::Decimal(text) => Number::Decimal(text),
    }
}

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

/// An instant.
pub fn instant(text: &str) -> Result<Timestamp, String> {
    let read = text.parse();
    read.map_err(|_| "write an instant such as 2026-12-31T23:59:59Z".to_owned())
}

/// An instant, or the midnight (UTC) with which a day begins.
pub fn instant_or_day(text: &str) -> Result<Timestamp, String> {
    let midnight = || {
        // What has a time of day and no offset is no instant, and more than a day.
        let day = Date::strptime("%Y-%m-%d", text).ok()?;
        let begins = day.to_zoned(TimeZone::UTC).ok()?;
        Some(begins.timestamp())
    };
    let read = instant(text).ok().or_else(midnight);
    read.ok_or_else(|| {
        "write an instant such as 2026-12-31T23:59:59Z, or a day such as 2026-12-31".to_owned()
    })
}

/// The same, or an instant that is so long ago at `now`.
pub fn instant_or_ago(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let ago = |length: Duration| now.checked_sub(length).ok();
    let is_ago = || duration(text).ok().and_then(ago);
    instant_or_day(text)
        .or_else(|help| is_ago().ok_or(format!("{help}, or how long ago, such as 1h")))
}

/// A length of time.
pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

impl Subject {
    /// The key.
    pub fn key(&self) -> Outcome<Key> {
        match (&self.entity, &self.key_base64, &self.key) {
            (Some(id), ..) => Ok(Key::entity(id)),
            (None, Some(key), _) => Ok(Key::base64(key)),
            (None, None, Some(key)) => Ok(key.as_str().into()),
            (None, None, None) => Err(Stop::usage("say who is limited: --key KEY, or --entity ID")),
        }
    }

    /// A request about it.
    pub fn request(&self) -> Outcome<Request> {
        Ok(Request::new(&self.policy, self.key()?))
    }
}

impl Amounts {
    /// Puts them into a request.
    pub fn put(&self, mut request: Request) -> Outcome<Request> {
        if let Some(cost) = &self.cost {
            request = request.cost(cost.clone());
        }
        for Amount { limit, amount } in distinct(&self.amounts)? {
            request = request.amount(limit, amount.clone());
        }
        Ok(request)
    }
}

/// Amounts, of each limit at most one.
pub fn distinct(amounts: &[Amount]) -> Outcome<&[Amount]> {
    let mut known = HashSet::new();
    match amounts.iter().find(|one| !known.insert(&one.limit)) {
        None => Ok(amounts),
        Some(Amount { limit, .. }) => {
            let message = format!("limit `{limit}` is named twice; add the amounts up");
            Err(Stop::usage(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_written_out_or_so_long_ago() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let read = |text| instant_or_ago(text, now).map(|at| at.to_string());
        assert_eq!(read("1h").as_deref(), Ok("2026-01-01T11:00:00Z"));
        let noon = "2026-01-01T12:00:00Z";
        assert_eq!(read("2026-01-01T13:00:00+01:00").as_deref(), Ok(noon));
        assert_eq!(read("2026-01-01").as_deref(), Ok("2026-01-01T00:00:00Z"));
        for wrong in ["2026-02-30", "2026-01-01T09:00:00", "2026-01-01 09:00"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read("yesterday").unwrap_err().contains("such as 1h"));
        let wrong = instant("2026-01-01").unwrap_err();
        assert_eq!(wrong, "write an instant such as 2026-12-31T23:59:59Z");
    }

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
}
