//! A node of a fleet: it spends grants of a window that ends often and of one that never does, and
//! says so, a write a line: `ends BEFORE AFTER` and `stays BEFORE AFTER`, by the machine's wall
//! clock in microseconds. Its own clock may be set apart from that, or slow.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tidegate::{
    Algorithm, Clock, DecisionError, Handle, Limit, LimitSet, Store, StoreError, Tier, Timestamp,
};

use crate::common::{KEY, Trouble, input_ended};

/// Of the window that never ends: more than is ever asked for.
const STAYS: u64 = 1_000_000;

/// Spends what it is granted until its input ends, then gives back what it holds
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The store that grants
    #[arg(long)]
    store: String,
    /// So many in each window that ends, of so many milliseconds
    #[arg(long)]
    capacity: u64,
    #[arg(long)]
    window: u64,
    /// So many at a time
    #[arg(long)]
    batch: u64,
    /// For so many milliseconds
    #[arg(long)]
    hold: u64,
    /// Its wall clock is so many seconds ahead
    #[arg(long, allow_hyphen_values = true)]
    ahead: i64,
    /// Its clock loses so many hundredths of the time
    #[arg(long)]
    slow: u32,
}

/// The machine's wall clock in microseconds: a store's on the same machine, too.
#[expect(
    clippy::disallowed_methods,
    reason = "a ledger beside the clocks that it checks"
)]
fn wall() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// The clock that its options say.
#[expect(clippy::disallowed_methods, reason = "a clock is made of it")]
fn clock(options: &Options) -> Clock {
    let start = wall() + options.ahead * 1_000_000;
    let (begun, slow) = (Instant::now(), options.slow);
    Clock::custom(move || {
        let passed = begun.elapsed();
        let lost = passed * slow / 100;
        Timestamp::from_micros(start + (passed - lost).as_micros() as i64)
    })
}

fn set(options: &Options, store: &Arc<dyn Store>, limit: Limit) -> Result<LimitSet, Trouble> {
    let hold = Duration::from_millis(options.hold);
    let tier = Tier::leased(options.batch).hold(hold).low_water(0);
    let limit = limit.algorithm(Algorithm::FixedWindow);
    let builder = LimitSet::builder()
        .name(limit.name())
        .limit(limit)
        .tier(tier);
    Ok(builder
        .store(Arc::clone(store))
        .clock(clock(options))
        .build()?)
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let store = tidegate_url::open(&options.store)?.store;
    let window = Duration::from_millis(options.window);
    let ends = Limit::calls("ends", options.capacity, window);
    let stays = Limit::calls("stays", STAYS, Duration::from_secs(400 * 86_400));
    let sets = [set(options, &store, ends)?, set(options, &store, stays)?];
    let names = ["ends", "stays"];
    let handles = [sets[0].handle(KEY)?, sets[1].handle(KEY)?];
    let ended = input_ended();
    tokio::runtime::Runtime::new()?.block_on(async {
        while !ended.load(Ordering::Relaxed) {
            for (name, handle) in names.iter().zip(&handles) {
                spend(name, handle).await?;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for set in &sets {
            set.return_grants().await;
        }
        Ok(())
    })
}

async fn spend(name: &str, handle: &Handle) -> Result<(), Trouble> {
    let before = wall();
    let decision = match handle.check(1).await {
        // A busy machine: nothing was admitted.
        Err(DecisionError::Store(StoreError::Busy(_) | StoreError::Unavailable(_))) => {
            return Ok(());
        }
        decision => decision?,
    };
    if decision.admitted() {
        let line = format!("{name} {before} {}\n", wall());
        std::io::stdout().write_all(line.as_bytes())?;
    }
    Ok(())
}
