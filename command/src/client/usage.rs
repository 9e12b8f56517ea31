//! `tidegate usage`: what was used, by hour, day or month.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use tidegate_client::Exchange;

use super::arguments::{instant_or_ago, instant_or_day};
use super::exit::{DOES, Exit, Outcome, Stop};
use super::listing::{Listing, NO_USAGE, Paging, USAGE, key, more};
use super::options::Options;
use super::print::{print, print_for_reader, print_line};
use super::words::{amount, csv_key, csv_row};

const PATH: &str = "/v1/usage";

/// So many characters the longest bar has.
const WIDEST: u128 = 50;

/// Parts of one, as sums are added up: amounts have nine decimals at most.
const ONE: u128 = 1_000_000_000;
const DIGITS: usize = 9;

/// Show what was used, by hour, day or month
///
/// Of policies that count it (`usage` in the policy): of each key, its ancestors and each limit,
/// hour by hour of UTC. What a lease uses belongs to the hour in which it was granted, however
/// late it is settled. Takes the scope `observe`.
#[derive(Debug, Args)]
pub struct Usage {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the hours in which something was used, a line for each key and limit
    List(List),
    /// Add up what was used, by hour, day or month
    Summary(Summary),
    /// Write all of it: a JSON object a line, or CSV
    Export(Export),
}

/// Of which keys, and when.
#[derive(Clone, Debug, Args)]
struct Of {
    /// Of this key alone
    #[arg(long, short, value_name = "KEY", conflicts_with_all = ["prefix", "key_base64", "entity"])]
    key: Option<String>,

    /// Of this key alone, in Base64: it is no text
    #[arg(long, value_name = "BASE64", conflicts_with_all = ["prefix", "entity"])]
    key_base64: Option<String>,

    /// Only of keys with this prefix
    #[arg(long, value_name = "TEXT", conflicts_with = "entity")]
    prefix: Option<String>,

    /// Of this entity alone
    #[arg(long, value_name = "ID")]
    entity: Option<String>,

    /// From the hour of this instant on, such as 2026-12-01T09:00:00Z, from this day on (UTC), such
    /// as 2026-12-01, or so long ago, such as 30d
    #[arg(long, value_name = "INSTANT|DAY|TIME")]
    since: Option<String>,

    /// In the hours before this instant, or this day (UTC)
    #[arg(long, value_name = "INSTANT|DAY", value_parser = instant_or_day)]
    until: Option<jiff::Timestamp>,
}

#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct List {
    /// The policy
    #[arg(long, short, value_name = "NAME", env = "TIDEGATE_POLICY")]
    policy: String,

    #[command(flatten)]
    of: Of,

    #[command(flatten)]
    page: Paging,
}

#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct Summary {
    /// A policy; may be repeated
    #[arg(
        long,
        short,
        value_name = "NAME",
        env = "TIDEGATE_POLICY",
        required = true
    )]
    policy: Vec<String>,

    #[command(flatten)]
    of: Of,

    /// The periods that are added up
    #[arg(long, value_enum, default_value_t = By::Day)]
    by: By,

    /// What else to group by, beside policy and limit, comma-separated
    #[arg(long, value_enum, value_name = "WHAT", value_delimiter = ',')]
    per: Vec<Per>,

    /// Draw a bar for each
    #[arg(long, help_heading = "The answer")]
    plot: bool,

    /// Print a JSON object for each, one a line
    #[arg(long, help_heading = "The answer", conflicts_with = "plot")]
    json: bool,

    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Args)]
#[command(after_help = DOES)]
struct Export {
    /// A policy; several are written one after the other
    #[arg(
        long,
        short,
        value_name = "NAME",
        env = "TIDEGATE_POLICY",
        required = true
    )]
    policy: Vec<String>,

    #[command(flatten)]
    of: Of,

    /// Write CSV: policy, member, key, limit, hour, amount. A key that is no text is in Base64
    /// behind `base64:`
    #[arg(long, help_heading = "The answer")]
    csv: bool,

    #[command(flatten)]
    options: Options,
}

/// By which time sums are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum By {
    /// Hours of UTC
    Hour,
    /// Days of UTC
    Day,
    /// Months of UTC
    Month,
    /// All of it
    All,
}

/// What sums tell apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Per {
    /// Each key and ancestor
    Key,
    /// Each member of a pool
    Member,
}

impl By {
    /// What the server adds up, as far as it does. An hour is what it has anyway.
    const fn at_the_server(self) -> Option<&'static str> {
        match self {
            Self::Hour => None,
            Self::Day => Some("day"),
            Self::Month | Self::All => Some("month"),
        }
    }
}

impl Usage {
    /// Does what is asked.
    pub fn perform(&self) -> Outcome<Exit> {
        match &self.verb {
            Verb::List(list) => list.perform(),
            Verb::Summary(summary) => summary.perform(),
            Verb::Export(export) => export.perform(),
        }
    }
}

impl Of {
    /// Calls `act` with a listing of this policy, `most` records at most if that is not 0.
    fn listed<T>(
        &self,
        policy: &str,
        (by, most): (By, usize),
        act: impl FnOnce(&Listing<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let since = self.since.as_deref().map(|text| {
            let since = instant_or_ago(text, jiff::Timestamp::now());
            since.map_err(|help| Stop::usage(format!("--since {text}: {help}")))
        });
        let said = |instant: jiff::Timestamp| instant.to_string();
        let (since, until) = (since.transpose()?.map(said), self.until.map(said));
        let said = [
            ("policy", Some(policy)),
            ("key", self.key.as_deref()),
            ("key_base64", self.key_base64.as_deref()),
            ("prefix", self.prefix.as_deref()),
            ("entity", self.entity.as_deref()),
            ("since", since.as_deref()),
            ("until", until.as_deref()),
            ("by", by.at_the_server()),
        ];
        act(&Listing {
            asked: Exchange::get(PATH),
            items: USAGE,
            said: &said,
            most,
            newest: false,
            more,
        })
    }

    /// Calls `act` with each record of these policies, and the policy, until it breaks off.
    fn each(
        &self,
        policies: &[String],
        by: By,
        options: &Options,
        mut act: impl FnMut(&str, &Value) -> Outcome<ControlFlow<()>>,
    ) -> Outcome<()> {
        for policy in policies {
            let end = self.listed(policy, (by, 0), |listing| {
                listing.each(options, |used| act(policy, &used))
            })?;
            if end.is_break() {
                break;
            }
        }
        Ok(())
    }
}

impl List {
    fn perform(&self) -> Outcome<Exit> {
        let of = (By::Hour, self.page.most);
        self.of.listed(&self.policy, of, |listing| {
            listing.print(&self.page.options, |used| match self.page.json {
                true => used.to_string(),
                false => line(used),
            })
        })
    }
}

impl Export {
    fn perform(&self) -> Outcome<Exit> {
        if self.csv && !print_for_reader("policy,member,key,limit,hour,amount")? {
            return Ok(Exit::Done);
        }
        self.of
            .each(&self.policy, By::Hour, &self.options, |policy, used| {
                let line = match self.csv {
                    true => csv_line(policy, used),
                    false => json_line(policy, used),
                };
                Ok(match print_for_reader(&line)? {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                })
            })?;
        Ok(Exit::Done)
    }
}

impl Summary {
    fn perform(&self) -> Outcome<Exit> {
        let mut sums = Sums::default();
        self.of
            .each(&self.policy, self.by, &self.options, |policy, used| {
                sums.add(self.place(policy, used), &used["amount"]);
                Ok(ControlFlow::Continue(()))
            })?;
        if sums.0.is_empty() {
            eprintln!("{NO_USAGE}");
        }
        match (self.json, self.plot) {
            (true, _) => {
                for (place, sum) in &sums.0 {
                    print_line(&place.json(*sum).to_string())?;
                }
            }
            (false, true) => print(&sums.bars())?,
            (false, false) => {
                for (place, sum) in &sums.0 {
                    print_line(&format!("{}  {sum}", place.words()))?;
                }
            }
        }
        Ok(Exit::Done)
    }

    fn place(&self, policy: &str, used: &Value) -> Place {
        let hour = used["hour"].as_str().unwrap_or_default();
        let length = match self.by {
            By::Hour => 13,
            By::Day => 10,
            By::Month => 7,
            By::All => 0,
        };
        let of = |what: Per, text: Option<String>| text.filter(|_| self.per.contains(&what));
        Place {
            policy: policy.to_owned(),
            limit: used["limit"].as_str().unwrap_or_default().to_owned(),
            member: of(Per::Member, used["member"].as_str().map(str::to_owned)),
            key: self.per.contains(&Per::Key).then(|| KeyFields::of(used)),
            time: hour.get(..length).unwrap_or(hour).to_owned(),
        }
    }
}

/// What a sum is of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    policy: String,
    limit: String,
    member: Option<String>,
    /// Its fields, as the server says them: two keys may look alike as they are shown.
    key: Option<KeyFields>,
    /// A day, such as `2026-11-26`, or more or less of it.
    time: String,
}

/// A key's fields of a record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct KeyFields {
    text: Option<String>,
    base64: Option<String>,
}

impl KeyFields {
    fn of(used: &Value) -> Self {
        let field = |name: &str| used[name].as_str().map(str::to_owned);
        Self {
            text: field("key"),
            base64: field("key_base64"),
        }
    }

    fn shown(&self) -> String {
        key(&json!({ "key": self.text, "key_base64": self.base64 }))
    }
}

impl Place {
    fn words(&self) -> String {
        let key = self.key.as_ref().map(KeyFields::shown);
        let mut words = vec![self.policy.as_str(), &self.limit];
        words.extend(self.member.as_deref());
        words.extend(key.as_deref());
        if !self.time.is_empty() {
            words.push(&self.time);
        }
        words.join("  ")
    }

    fn json(&self, sum: Sum) -> Value {
        let mut said = Map::new();
        said.insert("policy".to_owned(), json!(self.policy));
        said.insert("limit".to_owned(), json!(self.limit));
        if let Some(member) = &self.member {
            said.insert("member".to_owned(), json!(member));
        }
        let key = self.key.as_ref().map(|key| (&key.text, &key.base64));
        let (text, base64) = key.unwrap_or((&None, &None));
        for (name, said_so) in [("key", text), ("key_base64", base64)] {
            if let Some(said_so) = said_so {
                said.insert(name.to_owned(), json!(said_so));
            }
        }
        if !self.time.is_empty() {
            said.insert("time".to_owned(), json!(self.time));
        }
        let whole = u64::try_from(sum.parts / ONE).ok();
        let whole = whole.filter(|_| sum.digits == 0);
        let amount = whole.map_or_else(|| json!(sum.to_string()), |whole| json!(whole));
        said.insert("amount".to_owned(), amount);
        Value::Object(said)
    }
}

/// A sum, exact, and behind the point as many digits as the amount that has the most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    parts: u128,
    digits: usize,
}

impl Sum {
    /// An amount: a whole number, or a decimal in quotes.
    fn read(amount: &Value) -> Option<Self> {
        if let Some(whole) = amount.as_u64() {
            let parts = u128::from(whole) * ONE;
            return Some(Self { parts, digits: 0 });
        }
        let text = amount.as_str()?;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = fraction.len().min(DIGITS);
        let rest: u128 = format!("{fraction:0<DIGITS$}")
            .get(..DIGITS)?
            .parse()
            .ok()?;
        let parts = whole.parse::<u128>().ok()? * ONE + rest;
        Some(Self { parts, digits })
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.parts / ONE, self.parts % ONE);
        match self.digits {
            0 => whole.fmt(f),
            digits => {
                let rest = format!("{rest:0DIGITS$}");
                write!(f, "{whole}.{}", &rest[..digits])
            }
        }
    }
}

/// Sums.
#[derive(Debug, Default)]
struct Sums(BTreeMap<Place, Sum>);

impl Sums {
    fn add(&mut self, place: Place, amount: &Value) {
        let sum = self.0.entry(place).or_default();
        if let Some(more) = Sum::read(amount) {
            sum.parts += more.parts;
            sum.digits = sum.digits.max(more.digits);
        }
    }

    /// A bar for each, as long as it is much of the largest of its policy and limit.
    fn bars(&self) -> String {
        let width = self.0.keys().map(|place| place.words().chars().count());
        let width = width.max().unwrap_or(0);
        let mut largest: BTreeMap<(&str, &str), u128> = BTreeMap::new();
        for (place, sum) in &self.0 {
            let most = largest.entry((&place.policy, &place.limit)).or_default();
            *most = (*most).max(sum.parts);
        }
        let bar = |(place, sum): (&Place, &Sum)| {
            let most = largest[&(place.policy.as_str(), place.limit.as_str())].max(1);
            let eighths = (sum.parts * WIDEST * 8).div_ceil(most) as usize;
            let mut bar = "\u{2588}".repeat(eighths / 8);
            // A block of one eighth to seven.
            let rest = (eighths % 8) as u32;
            bar.extend(char::from_u32(0x2590 - rest).filter(|_| rest > 0));
            let words = place.words();
            format!("{words:width$}  {bar} {sum}\n")
        };
        self.0.iter().map(bar).collect()
    }
}

fn line(used: &Value) -> String {
    let word = |name: &str| used[name].as_str().unwrap_or("?");
    let member = used["member"].as_str();
    let member = member.map_or_else(String::new, |member| format!(" at {member}"));
    let (hour, limit, used_of) = (word("hour"), word("limit"), key(used));
    format!(
        "{hour}  {used_of}{member}  {limit} {}",
        amount(&used["amount"])
    )
}

fn json_line(policy: &str, used: &Value) -> String {
    let mut said = Map::new();
    said.insert("policy".to_owned(), json!(policy));
    said.extend(used.as_object().cloned().unwrap_or_default());
    Value::Object(said).to_string()
}

fn csv_line(policy: &str, used: &Value) -> String {
    let word = |name: &str| used[name].as_str().unwrap_or_default().to_owned();
    let amount = amount(&used["amount"]);
    let columns = [
        policy.to_owned(),
        word("member"),
        csv_key(used),
        word("limit"),
        word("hour"),
        amount,
    ];
    csv_row(&columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(limit: &str, time: &str) -> Place {
        Place {
            policy: "chat".to_owned(),
            limit: limit.to_owned(),
            member: None,
            key: None,
            time: time.to_owned(),
        }
    }

    #[test]
    fn keys_that_look_alike_are_told_apart_and_are_themselves_in_json() {
        let of_key = |record: Value| Place {
            key: Some(KeyFields::of(&record)),
            ..place("calls", "")
        };
        let [newline, escaped] = ["x\ny", "x\\ny"].map(|key| of_key(json!({ "key": key })));
        assert_eq!(newline.words(), escaped.words());
        let mut sums = Sums::default();
        for place in [&newline, &escaped, &newline] {
            sums.add(place.clone(), &json!(1));
        }
        assert_eq!(sums.0.len(), 2);
        assert_eq!(newline.json(sums.0[&newline])["key"], json!("x\ny"));
        let bytes = of_key(json!({ "key_base64": "/w==" }));
        assert_eq!(bytes.json(Sum::default())["key_base64"], json!("/w=="));
        assert_eq!(bytes.words(), "chat  calls  base64:/w==");
    }

    #[test]
    fn amounts_add_up_whole_and_decimal() {
        let mut sums = Sums::default();
        for amount in [json!(2), json!("0.25"), json!("0.000000001"), json!("7")] {
            sums.add(place("spend", "2026-11"), &amount);
        }
        let sum = sums.0[&place("spend", "2026-11")];
        assert_eq!(sum.to_string(), "9.250000001");
        let json = |amount| place("spend", "").json(Sum::read(&amount).unwrap())["amount"].clone();
        // As the server writes it, everywhere.
        assert_eq!(
            [json(json!(3)), json(json!("1.50"))],
            [json!(3), json!("1.50")]
        );
    }

    #[test]
    fn a_bar_is_as_long_as_it_is_much_of_the_largest_of_its_limit() {
        let mut sums = Sums::default();
        for (limit, time, amount) in [
            ("calls", "01", 1),
            ("tokens", "01", 40),
            ("tokens", "02", 80),
        ] {
            sums.add(place(limit, time), &json!(amount));
        }
        let bars = sums.bars();
        let lengths = bars.lines().map(|line| line.matches('\u{2588}').count());
        assert_eq!(lengths.collect::<Vec<_>>(), [50, 25, 50], "{bars}");
        assert!(bars.starts_with("chat  calls  01   "), "{bars}");
    }

    #[test]
    fn a_line_of_csv_is_read_back_whatever_the_key_has() {
        let used = json!({
            "key": "a,\"b\"", "limit": "tokens", "hour": "2026-11-26T10:00:00Z", "amount": "0.50"
        });
        assert_eq!(
            csv_line("chat", &used),
            "chat,,\"a,\"\"b\"\"\",tokens,2026-11-26T10:00:00Z,0.50"
        );
    }
}
