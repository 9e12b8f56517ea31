//! Interleaved rounds, and what they come to.

use std::time::Duration;

use serde_json::{Value, json as value};

use crate::bench::Bench;
use crate::drive::Lap;
use crate::host::Host;

/// One of a row.
pub struct Contender<'a> {
    pub what: &'static str,
    pub lap: Box<dyn FnMut(Duration) -> Lap + 'a>,
}

/// What became of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    row: String,
    what: &'static str,
    /// Asks a second, and the server's CPU microseconds for each, by round.
    rates: Vec<f64>,
    cpu_us: Vec<f64>,
    /// Its rate over the first's, and the first's CPU time over its, by round.
    rate_ratios: Vec<f64>,
    cpu_ratios: Vec<f64>,
}

/// How long each is asked before it counts.
const WARM_UP: Duration = Duration::from_millis(200);

/// Asks each in turn; the first is whom the others are compared with.
pub fn compare(
    bench: &Bench,
    row: &str,
    host: Host,
    mut contenders: Vec<Contender<'_>>,
) -> Vec<Outcome> {
    if !bench.wants(row) {
        return Vec::new();
    }
    println!("\n{row}");
    let mut outcomes: Vec<_> = contenders
        .iter()
        .map(|one| Outcome::of(row, one.what))
        .collect();
    for one in &mut contenders {
        (one.lap)(WARM_UP);
    }
    for round in 0..bench.rounds {
        for at in 0..contenders.len() {
            // Whoever is first one time is later the next.
            let at = (at + round) % contenders.len();
            let before = host.cpu_secs();
            let lap = (contenders[at].lap)(bench.lap);
            let cpu = host.cpu_secs() - before;
            outcomes[at].rates.push(lap.asked / lap.seconds);
            outcomes[at].cpu_us.push(cpu * 1e6 / lap.asked);
        }
    }
    let (first, others) = outcomes.split_at_mut(1);
    for other in others {
        other.rate_ratios = ratios(&other.rates, &first[0].rates);
        other.cpu_ratios = ratios(&first[0].cpu_us, &other.cpu_us);
    }
    outcomes
        .iter()
        .for_each(|outcome| println!("{}", outcome.text()));
    outcomes
}

fn ratios(ones: &[f64], others: &[f64]) -> Vec<f64> {
    ones.iter()
        .zip(others)
        .map(|(one, other)| one / other)
        .collect()
}

impl Outcome {
    fn of(row: &str, what: &'static str) -> Self {
        Self {
            row: row.to_owned(),
            what,
            ..Self::default()
        }
    }

    fn text(&self) -> String {
        let (rate, cpu) = (median(&self.rates), median(&self.cpu_us));
        let text = format!("  {:<34} {rate:>8.0}/s {cpu:>7.1} us", self.what);
        match self.rate_ratios.is_empty() {
            true => text,
            false => format!(
                "{text}  rate x{}  CPU x{}",
                spread(&self.rate_ratios),
                spread(&self.cpu_ratios)
            ),
        }
    }
}

/// Everything, for machines.
pub fn json(outcomes: &[Outcome]) -> Value {
    let outcomes = outcomes.iter().map(|one| {
        value!({
            "row": one.row,
            "what": one.what,
            "rates": one.rates,
            "cpu_us": one.cpu_us,
            "rate_ratios": one.rate_ratios,
            "cpu_ratios": one.cpu_ratios,
        })
    });
    Value::Array(outcomes.collect())
}

/// The median, with the least and the most.
fn spread(numbers: &[f64]) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} ({least:.2}-{most:.2})", median(numbers))
}

/// The one in the middle, or the lower of two.
fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}
