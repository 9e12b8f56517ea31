//! The pace: asks come when they are due, whether earlier ones are answered or not.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Clock;
use tidegate::Store;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::lane::Lane;
use crate::lanes::{World, lanes};
use crate::options::Options;
use crate::tally::{Faults, LATE, add, read};
use crate::watch::{Flat, Sample};
use crate::work::LONG;

/// How often those that are due are begun.
const TICK: Duration = Duration::from_millis(1);
/// At most what comes in so many seconds may be under way: what is due beyond that is not
/// begun, and counted.
const MOST_UNDER_WAY: u64 = 2;
/// At a tick, no more are begun than come in this part of a second.
const CATCH_UP: u64 = 100;
/// How often a line says how far it is: to somebody who looks, and into a log.
const LOOKED_AT: u64 = 5;
const LOGGED: u64 = 60;

/// What came of a load.
pub struct Outcome {
    pub(crate) lanes: Arc<[Lane]>,
    /// What there was, each second.
    pub samples: Vec<Sample>,
    /// What must not grow.
    pub flat: Vec<Flat>,
    /// How many answers should not have been, and the first of them in words.
    pub faults: (u64, Vec<String>),
    /// Answers that came too late.
    pub late: u64,
    /// Asks that were due, and not begun: too many were under way.
    pub unsent: u64,
    /// By how much an ask was begun later than it was due, at most.
    pub behind: Duration,
    /// How long asks were begun.
    pub took: Duration,
    /// Asks that were begun.
    pub begun: u64,
    /// Asks a second that were wanted.
    pub rate: u64,
    /// Keys that each policy has in the end.
    pub(crate) keys: Vec<usize>,
}

impl Outcome {
    /// Asks a second that there were.
    #[must_use]
    pub fn reached(&self) -> f64 {
        self.begun as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// The machine did not keep up: what was late or grew meanwhile says nothing.
    #[must_use]
    pub fn fell_behind(&self) -> bool {
        self.unsent > 0 || self.behind > LATE || self.reached() < self.rate as f64 * 0.995
    }

    /// How many of all leases that were asked for, granted, refused and ended.
    #[must_use]
    pub fn totals(&self) -> [u64; 4] {
        let sum = |of: fn(&Lane) -> &AtomicU64| self.lanes.iter().map(|lane| read(of(lane))).sum();
        [
            sum(|lane| &lane.tally.asked),
            sum(|lane| &lane.tally.granted),
            sum(|lane| &lane.tally.refused),
            sum(|lane| &lane.tally.ended),
        ]
    }
}

/// What those who ask share.
#[derive(Default)]
struct Traffic {
    under_way: AtomicU64,
    /// In microseconds.
    behind: AtomicU64,
}

/// Puts the load on a store, by a clock for its sets; what there is, is looked at
/// each second.
///
/// # Errors
/// A store that cannot have the policies.
pub async fn run(
    options: &Options,
    store: &Arc<dyn Store>,
    clock: &Clock,
) -> Result<Outcome, String> {
    let faults = Arc::new(Faults::default());
    let world = World {
        store,
        clock,
        faults: &faults,
    };
    let lanes = lanes(options.rate, &world)?;
    let lanes: Arc<[Lane]> = lanes.into();
    let traffic = Arc::new(Traffic::default());
    let begun = Instant::now();
    let watching = tokio::spawn(watch(options.clone(), Arc::clone(&lanes), begun));
    let (sent, unsent) = pace(options, &lanes, &traffic, begun).await;
    let took = begun.elapsed();
    let samples = watching.await.map_err(|error| error.to_string())??;
    let mut keys = Vec::new();
    for lane in lanes.iter() {
        keys.push(
            lane.set
                .count()
                .await
                .map_err(|error| error.to_string())?
                .keys,
        );
    }
    drain(&traffic, &faults).await;
    for lane in lanes.iter() {
        lane.is_conserved().await;
    }
    let late = lanes.iter().map(|lane| read(&lane.tally.late)).sum();
    Ok(Outcome {
        flat: Flat::of(&samples),
        samples,
        faults: (faults.count(), faults.told()),
        late,
        unsent,
        behind: Duration::from_micros(read(&traffic.behind)),
        took,
        begun: sent,
        rate: options.rate,
        keys,
        lanes,
    })
}

/// Begins each ask when it is due, in turn over the policies. How many were begun, and
/// how many not.
async fn pace(
    options: &Options,
    lanes: &Arc<[Lane]>,
    traffic: &Arc<Traffic>,
    begun: Instant,
) -> (u64, u64) {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (all, most) = (
        options.rate * options.seconds,
        options.rate * MOST_UNDER_WAY,
    );
    let (mut nth, mut unsent) = (0, 0);
    while nth < all {
        tick.tick().await;
        let due = begun.elapsed().as_micros() * u128::from(options.rate) / 1_000_000;
        let due = u64::try_from(due).unwrap_or(u64::MAX).min(all);
        // What a halt of the machine has held up comes soon after it, and not at once.
        let due = due.min(nth + (options.rate / CATCH_UP).max(1));
        for nth in nth..due {
            if traffic.under_way.load(Ordering::Relaxed) >= most {
                unsent += 1;
                continue;
            }
            let at = begun + Duration::from_micros(nth * 1_000_000 / options.rate);
            add(&traffic.under_way);
            tokio::spawn(one(Arc::clone(lanes), nth, Arc::clone(traffic), at));
        }
        nth = due;
    }
    (all - unsent, unsent)
}

/// One ask from its beginning to its end.
async fn one(lanes: Arc<[Lane]>, nth: u64, traffic: Arc<Traffic>, due: Instant) {
    let behind = due.elapsed().as_micros() as u64;
    traffic.behind.fetch_max(behind, Ordering::Relaxed);
    let lane = (nth % lanes.len() as u64) as usize;
    lanes[lane].ask().await;
    traffic.under_way.fetch_sub(1, Ordering::Relaxed);
}

/// Until everybody is answered. All of them are, in the end.
async fn drain(traffic: &Traffic, faults: &Faults) {
    let end = Instant::now() + LONG;
    while read(&traffic.under_way) > 0 {
        if Instant::now() > end {
            let left = read(&traffic.under_way);
            return faults.add(|| format!("{left} asks are not answered, {LONG:?} after the end"));
        }
        sleep(TICK * 10).await;
    }
}

/// A sample each second, as long as the load goes on; and one policy after the other is
/// looked at as an operator does.
async fn watch(
    options: Options,
    lanes: Arc<[Lane]>,
    begun: Instant,
) -> Result<Vec<Sample>, String> {
    let mut second = interval(Duration::from_secs(1));
    let file = options.file();
    let mut samples: Vec<Sample> = Vec::new();
    let each = match std::io::stderr().is_terminal() {
        true => LOOKED_AT,
        false => LOGGED,
    };
    for nth in 0..=options.seconds {
        second.tick().await;
        let sample = Sample::take(&lanes, begun.elapsed(), file.as_deref()).await?;
        if nth > 0 && nth.is_multiple_of(each) {
            let before = samples.len().checked_sub(each as usize);
            say(
                &sample,
                before.and_then(|at| samples.get(at)),
                file.as_deref(),
            );
        }
        samples.push(sample);
        lanes[nth as usize % lanes.len()].look_around().await;
    }
    Ok(samples)
}

/// How far it is.
fn say(sample: &Sample, before: Option<&Sample>, file: Option<&Path>) {
    let (asked, at) = before.map_or((0, Duration::ZERO), |before| (before.asked, before.at));
    let rate = (sample.asked - asked) as f64 / (sample.at - at).as_secs_f64().max(1e-9);
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let file = file.map(|_| format!(", file {:.1} MiB", mib(sample.file)));
    // Whoever does not read it has not asked.
    let _ = writeln!(
        std::io::stderr(),
        "{:>5.0} s  {rate:.0} asks/s, memory {:.1} MiB, {} keys, {} leases held, {} remembered{}",
        sample.at.as_secs_f64(),
        mib(sample.memory),
        sample.keys,
        sample.held,
        sample.remembered,
        file.unwrap_or_default(),
    );
}
