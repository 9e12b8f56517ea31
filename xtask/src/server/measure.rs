//! Interleaved rounds, and what they come to.

use super::clients::Seen;
use super::hosts::Host;

/// What a client does to a server: as fast as it goes, or at a rate.
pub type Asking<'a> = Box<dyn Fn(Option<f64>) -> Result<Seen, String> + 'a>;

/// One of those who are compared; the first is ours.
pub struct Contender<'a> {
    pub what: &'static str,
    pub host: &'a Host,
    pub asking: Asking<'a>,
}

/// What became of one of them.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub row: &'static str,
    pub what: &'static str,
    /// Answers a second, and CPU nanoseconds of the server for each, by round.
    pub rates: Vec<f64>,
    pub cpu_ns: Vec<f64>,
    /// Our rate over theirs, and their CPU time over ours, by round.
    pub rate_ratios: Vec<f64>,
    pub cpu_ratios: Vec<f64>,
    /// At half of what the slowest of the row can do: that rate, and the
    /// latencies in microseconds (p50, p99, p99.9), by round.
    pub half: f64,
    pub latency_us: Vec<[f64; 3]>,
    /// Something else that was measured, with its unit.
    pub other: Option<(f64, &'static str)>,
}

/// Asks each in turn, `rounds` times; then each again at half of what the
/// slowest can do, where the client has a schedule.
pub fn compare(
    row: &'static str,
    rounds: usize,
    contenders: &[Contender<'_>],
    open: bool,
) -> Result<Vec<Outcome>, String> {
    let mut outcomes: Vec<Outcome> = contenders
        .iter()
        .map(|one| Outcome::of(row, one.what))
        .collect();
    for round in 0..rounds {
        for at in 0..contenders.len() {
            // Whoever is first one time is later the next.
            let at = (at + round) % contenders.len();
            let (seen, cpu) = timed(&contenders[at], None)?;
            outcomes[at].rates.push(seen.rate);
            outcomes[at].cpu_ns.push(cpu * 1e9 / seen.answers);
        }
    }
    let (ours, theirs) = outcomes.split_at_mut(1);
    for one in theirs {
        let pairs = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect();
        one.rate_ratios = pairs(&ours[0].rates, &one.rates);
        one.cpu_ratios = pairs(&one.cpu_ns, &ours[0].cpu_ns);
    }
    if open {
        at_half(rounds, contenders, &mut outcomes)?;
    }
    Ok(outcomes)
}

fn at_half(
    rounds: usize,
    contenders: &[Contender<'_>],
    outcomes: &mut [Outcome],
) -> Result<(), String> {
    let rates = outcomes.iter().map(|one| median(&one.rates));
    let half = rates.fold(f64::INFINITY, f64::min) / 2.0;
    for round in 0..rounds {
        for at in 0..contenders.len() {
            let at = (at + round) % contenders.len();
            let (seen, _) = timed(&contenders[at], Some(half))?;
            outcomes[at].half = half;
            outcomes[at].latency_us.push(seen.latency_us);
        }
    }
    Ok(())
}

fn timed(one: &Contender<'_>, rate: Option<f64>) -> Result<(Seen, f64), String> {
    let before = one.host.cpu_secs()?;
    let seen = (one.asking)(rate)?;
    Ok((seen, one.host.cpu_secs()? - before))
}

impl Outcome {
    pub fn of(row: &'static str, what: &'static str) -> Self {
        Self {
            row,
            what,
            ..Self::default()
        }
    }

    /// One line.
    pub fn text(&self) -> String {
        let mut text = format!("{:<14} {:<28}", self.row, self.what);
        if let Some((number, unit)) = self.other {
            return text + &format!(" {number:>9.1} {unit}");
        }
        text += &format!(
            " {:>9.0}/s {:>8.0} ns",
            median(&self.rates),
            median(&self.cpu_ns)
        );
        if !self.rate_ratios.is_empty() {
            text += &format!(
                "  rate x{}  CPU x{}",
                spread(&self.rate_ratios),
                spread(&self.cpu_ratios)
            );
        }
        if !self.latency_us.is_empty() {
            let at = |which: usize| {
                median(&self.latency_us.iter().map(|l| l[which]).collect::<Vec<_>>())
            };
            text += &format!(
                "  at {:.0}/s: p50 {:.0} p99 {:.0} p99.9 {:.0} us",
                self.half,
                at(0),
                at(1),
                at(2)
            );
        }
        text
    }
}

/// The median, with the least and the most.
pub fn spread(numbers: &[f64]) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} ({least:.2}-{most:.2})", median(numbers))
}

/// The one in the middle; the mean of two.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2.0,
    }
}
