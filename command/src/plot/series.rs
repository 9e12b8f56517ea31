//! What is drawn: bins of time, and a panel for each limit.

use std::borrow::Cow;
use std::collections::HashMap;

use super::level::{Changes, Taken, held, rolling, windowed};
use super::scale::{short, time_step};
use crate::replay::{Outcome, Run};
use crate::report::{Summary, Titles, length};
use crate::subject::{Course, Grouped, Kind, Subject};

/// Demand is shown up to so many times what was admitted, or the limit.
const HIGHEST_SHOWN: f64 = 8.0;

/// Time, cut into equal bins.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// How long all of it is, in microseconds.
    pub length: u64,
    /// How long a bin is.
    pub bin: u64,
    /// How many bins there are.
    pub bins: usize,
}

impl Window {
    /// Cuts `length` into at most `most` bins of a readable length.
    pub fn new(length: u64, most: u64) -> Self {
        let bin = time_step(length, most);
        let bins = usize::try_from(length / bin + 1).unwrap_or(1);
        Self { length, bin, bins }
    }

    /// Cuts `length` into exactly `bins` bins, of whatever length that takes.
    pub fn exactly(length: u64, bins: u64) -> Self {
        let bin = length / bins.max(1) + 1;
        Self {
            length,
            bin,
            bins: usize::try_from(bins.max(1)).unwrap_or(1),
        }
    }

    fn of(&self, at: u64) -> usize {
        usize::try_from(at / self.bin)
            .unwrap_or(0)
            .min(self.bins - 1)
    }
}

/// Everything that is drawn.
#[derive(Debug)]
pub struct Picture {
    /// What was played through what.
    pub title: String,
    /// The figures in a sentence.
    pub subtitle: String,
    /// When it began, in UTC.
    pub start: String,
    /// Its time.
    pub window: Window,
    /// Requests in each bin by outcome, at their arrival: admitted, waited, refused.
    pub outcomes: [Vec<u32>; 3],
    /// A panel for each limit.
    pub panels: Vec<Panel>,
}

/// One limit over time.
#[derive(Debug)]
pub struct Panel {
    /// The limit's name.
    pub name: String,
    /// The limit in words, and whose it is if there are several keys.
    pub subtitle: String,
    /// What the numbers count: "tokens a minute".
    pub axis: String,
    /// What was asked for, in each bin.
    pub demand: Vec<f64>,
    /// What was admitted, in each bin.
    pub admitted: Vec<f64>,
    /// The limit.
    pub limit: f64,
    /// The limit as it is written beside its line.
    pub limit_label: String,
    /// How many requests this limit refused or made wait, by their arrival.
    pub stopped: Vec<u32>,
}

impl Picture {
    /// Computes what is drawn of a run in a window of time.
    pub fn of(run: &Run, titles: &Titles, summary: &Summary, window: Window) -> Self {
        let panels = (0..run.limits.len())
            .map(|limit| panel(run, limit, &window))
            .collect();
        Self {
            title: format!("{} through {}", titles.trace, titles.policy),
            subtitle: sentence(run, summary),
            start: start(run),
            window,
            outcomes: outcomes(run, &window),
            panels,
        }
    }
}

impl Panel {
    /// The top of the axis: the highest number in it, but not so far above the
    /// limit that nothing else could be seen.
    pub fn top(&self) -> f64 {
        let admitted = self.admitted.iter().copied().fold(self.limit, f64::max);
        self.highest().min(admitted * HIGHEST_SHOWN)
    }

    /// The highest demand, if it stands above the top.
    pub fn beyond(&self) -> Option<f64> {
        Some(self.highest()).filter(|highest| *highest > self.top())
    }

    fn highest(&self) -> f64 {
        let all = self.demand.iter().chain(&self.admitted).copied();
        all.fold(self.limit, f64::max)
    }
}

fn sentence(run: &Run, summary: &Summary) -> String {
    let Summary {
        requests,
        admitted,
        waited,
        refused,
        ..
    } = *summary;
    let waits = match waited {
        0 => String::new(),
        _ => format!(
            "{} waited (p50 {}, p99 {}), ",
            Grouped(waited),
            length(summary.wait_p50_us),
            length(summary.wait_p99_us)
        ),
    };
    let (requests, admitted, refused) = (Grouped(requests), Grouped(admitted), Grouped(refused));
    let time = length(run.trace.length());
    format!("{requests} requests in {time}: {admitted} admitted at once, {waits}{refused} refused")
}

fn start(run: &Run) -> String {
    let instant = jiff::Timestamp::from_microsecond(run.trace.start);
    instant
        .map(|instant| instant.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
        .unwrap_or_default()
}

fn outcomes(run: &Run, window: &Window) -> [Vec<u32>; 3] {
    let mut bins = [const { Vec::new() }; 3].map(|_: Vec<u32>| vec![0; window.bins]);
    for (request, decision) in run.pairs() {
        let row = match decision.outcome {
            Outcome::Admitted => 0,
            Outcome::Waited => 1,
            Outcome::Refused => 2,
        };
        bins[row][window.of(request.arrived)] += 1;
    }
    bins
}

fn panel(run: &Run, at: usize, window: &Window) -> Panel {
    let limit = &run.limits[at];
    let scope = busiest(run, at);
    let (requests, taken) = amounts(run, at, &scope);
    let view = View::of(limit, window);
    let series = |taken: &[Taken]| view.series(taken, limit, run, window);
    let whose = if run.trace.keys.len() == 1 {
        String::new()
    } else {
        format!(" · the busiest: {scope}")
    };
    Panel {
        name: limit.name.clone(),
        subtitle: limit.describe(run.unit()) + &whose,
        axis: view.axis(limit, run.unit()),
        demand: series(&requests),
        admitted: series(&taken),
        limit: limit.amount as f64,
        limit_label: label(limit),
        stopped: stopped(run, at, &scope, window),
    }
}

fn label(limit: &Subject) -> String {
    let amount = short(limit.amount as f64);
    match limit.kind {
        Kind::Concurrency => amount,
        _ => format!("{amount} / {}", limit.per()),
    }
}

/// Whose limit is drawn: who asked for most of it.
fn busiest(run: &Run, at: usize) -> String {
    let mut totals: HashMap<Cow<'_, str>, (u64, usize)> = HashMap::new();
    for (order, request) in run.trace.requests.iter().enumerate() {
        let scope = run.limits[at].scope(&run.trace.keys[request.key as usize]);
        let total = totals.entry(scope).or_insert((0, order));
        total.0 = total.0.saturating_add(run.charges.used(at, request).max(1));
    }
    // Of equals the first: a map has no order of its own.
    let best = totals
        .into_iter()
        .max_by_key(|(_, (total, order))| (*total, usize::MAX - order));
    best.map(|(scope, _)| scope.into_owned())
        .unwrap_or_default()
}

/// What a scope asked for, and what it was given.
fn amounts(run: &Run, at: usize, scope: &str) -> (Vec<Taken>, Vec<Taken>) {
    let (mut requests, mut taken) = (Vec::new(), Vec::new());
    for (request, decision) in run.pairs() {
        if run.limits[at].scope(&run.trace.keys[request.key as usize]) != scope {
            continue;
        }
        let used = run.charges.used(at, request);
        let to = request
            .arrived
            .saturating_add(run.charges.service_us(request));
        requests.push(Taken {
            from: request.arrived,
            to,
            first: used,
            last: used,
        });
        if let Some((from, to)) = decision.ran {
            taken.push(Taken {
                from,
                to,
                first: run.charges.reserved(at, request),
                last: used,
            });
        }
    }
    (requests, taken)
}

fn stopped(run: &Run, at: usize, scope: &str, window: &Window) -> Vec<u32> {
    let mut bins = vec![0; window.bins];
    for (request, decision) in run.pairs() {
        let key = &run.trace.keys[request.key as usize];
        if decision.binding == Some(at) && run.limits[at].scope(key) == scope {
            bins[window.of(request.arrived)] += 1;
        }
    }
    bins
}

/// How a limit is shown.
enum View {
    /// How much came in a bin, as a rate: for what comes back evenly or soon.
    Flow,
    /// How much is held or used: for what is held, and for long windows.
    Level,
}

impl View {
    fn of(limit: &Subject, window: &Window) -> Self {
        let long = limit.period_us >= 4 * window.bin;
        match limit.course {
            Course::Held | Course::Calendar(..) => Self::Level,
            Course::Evenly => Self::Flow,
            _ if long => Self::Level,
            _ => Self::Flow,
        }
    }

    fn axis(&self, limit: &Subject, unit: &str) -> String {
        let unit = if limit.kind == Kind::Calls {
            "calls"
        } else {
            unit
        };
        match (self, &limit.course) {
            (_, Course::Held) => "running".to_owned(),
            (Self::Flow, _) => format!("{unit} a {}", limit.per()),
            (Self::Level, Course::Rolling) => format!("{unit} in the last {}", limit.per()),
            (Self::Level, _) => format!("{unit} this {}", limit.per()),
        }
    }

    fn series(&self, taken: &[Taken], limit: &Subject, run: &Run, window: &Window) -> Vec<f64> {
        match (self, &limit.course) {
            (Self::Flow, _) => flow(taken, limit.period_us, window),
            (_, Course::Held) => tops(&held(taken), window),
            (_, Course::Rolling) => tops(&rolling(taken, limit.period_us), window),
            (_, course) => tops(
                &windowed(taken, course, limit.period_us, run.trace.start),
                window,
            ),
        }
    }
}

/// What came in each bin, as an amount for each period.
fn flow(taken: &[Taken], period: u64, window: &Window) -> Vec<f64> {
    let mut bins = vec![0_u64; window.bins];
    for t in taken {
        let bin = &mut bins[window.of(t.from)];
        *bin = bin.saturating_add(t.last);
    }
    let scale = period as f64 / window.bin as f64;
    bins.into_iter().map(|sum| sum as f64 * scale).collect()
}

/// The highest level in each bin. What changes at one instant changes at once.
fn tops(changes: &Changes, window: &Window) -> Vec<f64> {
    let mut bins = vec![0_i128; window.bins];
    let (mut level, mut bin) = (0, 0);
    for group in changes.chunk_by(|a, b| a.0 == b.0) {
        let at = group[0].0;
        if at > window.length {
            break;
        }
        let next = window.of(at);
        if next > bin {
            bins[bin + 1..=next].fill(level);
            bin = next;
        }
        level += group.iter().map(|change| change.1).sum::<i128>();
        let begins = at == next as u64 * window.bin;
        bins[bin] = if begins { level } else { bins[bin].max(level) };
    }
    bins[bin + 1..].fill(level);
    bins.into_iter().map(|level| level.max(0) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::{Window, tops};

    #[test]
    fn a_bin_shows_its_highest_level_and_an_empty_bin_the_one_before() {
        let window = Window {
            length: 59,
            bin: 10,
            bins: 6,
        };
        let changes = vec![(3, 5), (4, -5), (4, 2), (15, 3), (18, -4), (45, 1)];
        assert_eq!(tops(&changes, &window), [5.0, 5.0, 1.0, 1.0, 2.0, 2.0]);
    }

    #[test]
    fn a_change_at_a_boundary_belongs_to_what_follows() {
        let window = Window {
            length: 29,
            bin: 10,
            bins: 3,
        };
        assert_eq!(tops(&vec![(0, 1), (10, -1)], &window), [1.0, 0.0, 0.0]);
    }
}
