//! A process that tests start, stop and kill: one of several at one store, as a
//! program of somebody's is. It says on its output what it was granted.
//!
//! | room | what it does |
//! |---|---|
//! | `contend` | takes what it can get of a hot key |
//! | `turns` | takes turns at one slot, in the store's line |
//! | `wait` | waits for a slot, until it is killed |
//! | `hold` | does with a permit what it is told on its input |
//! | `leave` | ends while it holds slots and stands in line |
//! | `visit` | holds one of several slots, again and again |
//!
//! What goes on until the test has seen enough ends with its input.

mod contend;
mod hold;
mod leave;
mod turns;
mod visit;
mod wait;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use tidegate::lock::Semaphore;
use tidegate::{Limit, LimitSet};

/// What ends the process.
type Trouble = Box<dyn Error>;

/// The key that is waited for.
const KEY: &str = "k";

/// No slot that is waited for expires while a test runs.
const LONG: Duration = Duration::from_secs(600);

/// One of several processes at one store
#[derive(Debug, Parser)]
enum Options {
    Contend(contend::Options),
    TakeTurns(turns::Options),
    Wait(wait::Options),
    Hold(hold::Options),
    Leave(leave::Options),
    Visit(visit::Options),
}

fn main() -> Result<(), Trouble> {
    match Options::parse() {
        Options::Contend(options) => contend::run(&options),
        Options::TakeTurns(options) => turns::run(&options),
        Options::Wait(options) => wait::run(&options),
        Options::Hold(options) => hold::run(&options),
        Options::Leave(options) => leave::run(&options),
        Options::Visit(options) => visit::run(&options),
    }
}

/// The slot that processes wait for in one line.
fn one_slot(store: &str) -> Result<LimitSet, Trouble> {
    let store = tidegate_url::open(store)?.store;
    let slot = Limit::concurrency("gpu", 1).ttl(LONG);
    Ok(LimitSet::builder()
        .name("gpus")
        .limit(slot)
        .store(store)
        .build()?)
}

/// Slots that a permit is for.
#[derive(Debug, clap::Args)]
struct Slots {
    /// The store that keeps the slots
    #[arg(long)]
    store: String,
    /// So many are there
    #[arg(long)]
    slots: u64,
    /// How long a permit lasts, in milliseconds
    #[arg(long)]
    ttl: u64,
    /// Of which key
    #[arg(long, default_value = "all")]
    key: String,
}

impl Slots {
    fn semaphore(&self) -> Result<Semaphore, Trouble> {
        let store = tidegate_url::open(&self.store)?.store;
        let builder = Semaphore::builder("gpu", self.slots);
        let builder = builder.ttl(Duration::from_millis(self.ttl));
        Ok(builder.store(store).build()?.of(&self.key))
    }
}

/// True from the end of the input on: whoever started this has seen enough.
fn input_ended() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&ended);
    std::thread::spawn(move || {
        let lines = std::io::stdin().lines().map_while(Result::ok);
        lines.for_each(drop);
        ends.store(true, Ordering::Relaxed);
    });
    ended
}

/// The machine's monotonic clock in microseconds: one for all its processes.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}
