//! What they have in common.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tidegate::lock::LeasedSemaphore;
use tidegate::{Limit, LimitSet};

/// What ends the process.
pub type Trouble = Box<dyn Error>;

/// The key that is waited for.
pub const KEY: &str = "k";

/// No slot that is waited for expires while a test runs.
pub const LONG: Duration = Duration::from_secs(600);

/// The slot that processes wait for in one line.
pub fn one_slot(store: &str) -> Result<LimitSet, Trouble> {
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
pub struct Slots {
    /// The store that keeps the slots
    #[arg(long)]
    pub store: String,
    /// So many are there
    #[arg(long)]
    pub slots: u64,
    /// How long a permit lasts, in milliseconds
    #[arg(long)]
    pub ttl: u64,
    /// Of which key
    #[arg(long, default_value = "all")]
    pub key: String,
}

impl Slots {
    pub fn semaphore(&self) -> Result<LeasedSemaphore, Trouble> {
        let store = tidegate_url::open(&self.store)?.store;
        let builder = LeasedSemaphore::builder("gpu", self.slots);
        let builder = builder.ttl(Duration::from_millis(self.ttl));
        Ok(builder.store(store).build()?.of(&self.key))
    }
}

/// True from the end of the input on: whoever started this has seen enough.
pub fn input_ended() -> Arc<AtomicBool> {
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
pub fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}
