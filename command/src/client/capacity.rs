//! `tidegate capacity`: what all keys of a policy may take, and have left.

use clap::Args;
use serde_json::{Map, Value, json};

use super::exit::{DOES, Exit, Outcome};
use super::listing::{each_page, printable};
use super::options::Options;
use super::print::print_line;
use super::server::{Client, runtime};
use crate::command::Progress;

/// How many keys are added up by one request.
const PAGE: &str = "1000";

/// Amounts are added up in billionths, the finest unit that there is.
const BILLION: u128 = 1_000_000_000;

/// Add up what the keys of a policy may take at once, and have left, limit by limit
///
/// The sums of what a peek of each key that is in use tells; a key that has used nothing is not
/// counted. Each limit is added up over the keys of its own level. Other requests are not delayed.
#[derive(Debug, Args)]
#[command(after_help = DOES)]
pub struct Capacity {
    /// The policy
    #[arg(long, short, value_name = "NAME", env = "TIDEGATE_POLICY")]
    policy: String,

    /// Of the limits of this level of keys alone; the first is that of the roots
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,

    /// Only of keys with this prefix
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,

    /// Print one JSON object
    #[arg(long, help_heading = "The answer")]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// What a limit comes to.
#[derive(Default)]
struct Sum {
    level: Option<String>,
    keys: u64,
    capacity: u128,
    available: u128,
    debt: u128,
    /// How many digits its amounts have behind the point, if they are decimals in quotes.
    places: Option<usize>,
}

impl Capacity {
    /// Adds page after page up, and prints what all come to.
    pub fn perform(&self) -> Outcome<Exit> {
        let client = self.options.connect()?;
        let (keys, limits) = runtime()?.block_on(self.sums(&client))?;
        match self.json {
            true => print_line(&whole(keys, &limits).to_string())?,
            false if limits.is_empty() => print_line("no key is in use")?,
            false => {
                let width = limits.iter().map(|(name, _)| name.chars().count()).max();
                for (name, sum) in &limits {
                    print_line(&sum.line(name, width.unwrap_or_default()))?;
                }
            }
        }
        Ok(Exit::Done)
    }

    /// How many keys there are, and what each limit comes to.
    async fn sums(&self, client: &Client) -> Outcome<(u64, Vec<(String, Sum)>)> {
        let mut progress = Progress::counting("adding up keys:", true);
        let said = [
            ("policy", Some(&*self.policy)),
            ("level", self.level.as_deref()),
            ("prefix", self.prefix.as_deref()),
        ];
        let (mut keys, mut limits) = (0, Vec::new());
        let add = |page: Value| {
            let counted = page["keys"].as_u64().unwrap_or_default();
            (0..counted).for_each(|_| progress.tick());
            keys += counted;
            add(&mut limits, &page["limits"]);
        };
        each_page(client, "/v1/capacity", &said, PAGE, add).await?;
        Ok((keys, limits))
    }
}

fn add(limits: &mut Vec<(String, Sum)>, page: &Value) {
    for (name, more) in page.as_object().into_iter().flatten() {
        let at = limits.iter().position(|(known, _)| known == name);
        let at = at.unwrap_or_else(|| {
            limits.push((name.clone(), Sum::default()));
            limits.len() - 1
        });
        limits[at].1.add(more);
    }
}

impl Sum {
    fn add(&mut self, more: &Value) {
        self.level = more["level"].as_str().map(str::to_owned);
        self.keys += more["keys"].as_u64().unwrap_or_default();
        self.places = self.places.max(more["capacity"].as_str().map(places));
        self.capacity += billionths(&more["capacity"]);
        self.available += billionths(&more["available"]);
        self.debt += billionths(&more["debt"]);
    }

    const fn used(&self) -> u128 {
        self.capacity.saturating_sub(self.available)
    }

    /// How much of it is used, in tenths of a percent.
    fn per_mille(&self) -> u128 {
        (self.used() * 1_000)
            .checked_div(self.capacity)
            .unwrap_or_default()
    }

    fn line(&self, name: &str, width: usize) -> String {
        let level = self.level.as_deref().map(printable);
        let level = level.map_or_else(String::new, |level| format!("({level})  "));
        let text = |amount| text(amount, self.places.unwrap_or_default());
        let (available, capacity) = (text(self.available), text(self.capacity));
        let owed = match self.debt {
            0 => String::new(),
            debt => format!("  (owes {})", text(debt)),
        };
        let keys = if self.keys == 1 { "key" } else { "keys" };
        let (count, used) = (self.keys, self.per_mille());
        format!(
            "{:width$}  {level}{count} {keys}  {available} of {capacity} available  {}.{} % \
             used{owed}",
            printable(name),
            used / 10,
            used % 10
        )
    }

    fn json(&self) -> Value {
        let shown = |amount: u128| match (self.places, u64::try_from(amount / BILLION)) {
            (None, Ok(number)) => json!(number),
            (places, _) => json!(text(amount, places.unwrap_or_default())),
        };
        json!({
            "level": self.level, "keys": self.keys, "capacity": shown(self.capacity),
            "available": shown(self.available), "used": shown(self.used()),
            "debt": shown(self.debt),
            "utilisation": f64::from(u32::try_from(self.per_mille()).unwrap_or(1_000)) / 1_000.0,
        })
    }
}

fn whole(keys: u64, limits: &[(String, Sum)]) -> Value {
    let limits = limits.iter();
    let limits: Map<_, _> = limits
        .map(|(name, sum)| (name.clone(), sum.json()))
        .collect();
    json!({"keys": keys, "limits": limits})
}

/// An amount: a whole number, or a decimal in quotes.
pub(super) fn billionths(amount: &Value) -> u128 {
    let text = amount.as_str().unwrap_or_default();
    let (whole, parts) = text.split_once('.').unwrap_or((text, ""));
    let whole = amount.as_u64().or_else(|| whole.parse().ok());
    let parts: u128 = format!("{parts:0<9}").parse().unwrap_or_default();
    u128::from(whole.unwrap_or_default()) * BILLION + parts
}

/// How many digits a decimal has behind the point.
pub(super) fn places(decimal: &str) -> usize {
    decimal.split_once('.').map_or(0, |(_, parts)| parts.len())
}

/// The amount with so many digits behind the point, nine at most.
pub(super) fn text(amount: u128, places: usize) -> String {
    let (whole, parts) = (amount / BILLION, format!("{:09}", amount % BILLION));
    match parts.get(..places) {
        None | Some("") => whole.to_string(),
        Some(parts) => format!("{whole}.{parts}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_decimals_are_added_up_exactly() {
        let page = |capacity: Value, available: Value| json!({"usd": {"keys": 1, "capacity": capacity, "available": available, "debt": 0}});
        let mut limits = Vec::new();
        add(&mut limits, &page(json!("0.10"), json!("0.07")));
        add(&mut limits, &page(json!("2.40"), json!("0.00")));
        let (_, sum) = &limits[0];
        // Every digit, as everywhere: it was 2.5.
        assert_eq!(sum.json()["capacity"], "2.50");
        assert_eq!(sum.json()["available"], "0.07");
        assert_eq!(sum.json()["debt"], "0.00");
        assert!(sum.line("usd", 3).contains("0.07 of 2.50 available"));
        let mut limits = Vec::new();
        for _ in 0..2 {
            add(
                &mut limits,
                &page(json!("0.150000000"), json!("0.000000001")),
            );
        }
        let (_, sum) = &limits[0];
        assert_eq!(sum.json()["capacity"], "0.300000000");
        assert_eq!(sum.json()["available"], "0.000000002");
        let mut limits = Vec::new();
        for _ in 0..3_000 {
            add(&mut limits, &page(json!(u64::MAX / 2), json!(0)));
        }
        let (_, sum) = &limits[0];
        assert_eq!(
            text(sum.capacity, 0),
            (3_000 * u128::from(u64::MAX / 2)).to_string()
        );
        assert_eq!(sum.line("usd", 3).split("  ").last(), Some("100.0 % used"));
        assert_eq!(Sum::default().json()["utilisation"], 0.0);
    }
}
