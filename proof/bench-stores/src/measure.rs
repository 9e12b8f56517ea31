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
    /// How long requests at a pace waited: the median, p99 and p99.9.
    waits_ms: Vec<f64>,
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
        progress(round, bench.rounds);
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

/// Asks one at a pace in every round, and tells how long its requests waited.
pub fn pace(
    bench: &Bench,
    row: &str,
    what: &'static str,
    host: Host,
    mut lap: impl FnMut(Duration) -> Vec<u64>,
) -> Outcome {
    lap(WARM_UP);
    let mut outcome = Outcome::of(row, what);
    let mut waits = Vec::new();
    for number in 0..bench.rounds {
        let before = host.cpu_secs();
        let round = lap(bench.lap);
        let asked = round.len().max(1) as f64;
        outcome.rates.push(asked / bench.lap.as_secs_f64());
        outcome
            .cpu_us
            .push((host.cpu_secs() - before) * 1e6 / asked);
        waits.extend(round);
        progress(number, bench.rounds);
    }
    waits.sort_unstable();
    let at = |part: f64| {
        let place = (waits.len() as f64 * part) as usize;
        waits.get(place).copied().unwrap_or(0) as f64 / 1_000.0
    };
    outcome.waits_ms = [0.5, 0.99, 0.999].map(at).to_vec();
    println!("{}", outcome.text());
    outcome
}

/// On the terminal, while it runs.
fn progress(round: usize, of: usize) {
    eprintln!("  round {} of {of}", round + 1);
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
        if let [median, p99, p999] = self.waits_ms[..] {
            return format!("{text}  p50 {median:.2} p99 {p99:.2} p99.9 {p999:.2} ms");
        }
        match self.rate_ratios.is_empty() {
            true => text,
            // What the server has nothing to do with.
            false if !median(&self.cpu_ratios).is_finite() => {
                format!("{text}  rate x{}", spread(&self.rate_ratios))
            }
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
            "waits_ms": one.waits_ms,
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
