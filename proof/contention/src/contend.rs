//! It asks about the hot key until its input ends, and prints what it was granted:
//! `rate ASKED ANSWERED` for a unit of the rate, `slot FENCE ASKED FROM UNTIL` for a
//! slot that it surely held from one instant to another, in microseconds.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate::{Admission, Limit, LimitSet, Request};

use crate::common::{Trouble, input_ended, now};

/// Takes what it can get of a hot key until its input ends
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The store that they all ask
    #[arg(long)]
    store: String,
    /// Of the rate: so many a second
    #[arg(long)]
    rate: u64,
    /// So many at once
    #[arg(long)]
    burst: u64,
    /// So many slots
    #[arg(long)]
    slots: u64,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let store = tidegate_url::open(&options.store)?.store;
    let second = Duration::from_secs(1);
    let rate = Limit::rate("rate", options.rate, second).burst(options.burst);
    let slots = Limit::concurrency("slots", options.slots);
    // The rate alone goes the short way, where a store has one; slots the long.
    let [rate, slots] = [("rates", rate), ("slots", slots)].map(|(name, limit)| {
        let set = LimitSet::builder().name(name).limit(limit);
        set.store(store.clone()).build()
    });
    let (rate, slots) = (rate?, slots?);
    let ended = input_ended();
    let mut ledger = String::new();
    while !ended.load(Ordering::Relaxed) {
        let asked = now();
        if rate.check("hot", 1).wait()?.admitted() {
            writeln!(ledger, "rate {asked} {}", now())?;
        }
        let asked = now();
        if let Admission::Granted(mut lease) =
            slots.try_acquire("hot", Request::default()).wait()?
        {
            let from = now();
            rate.peek("hot", 1).wait()?;
            let until = now();
            writeln!(
                ledger,
                "slot {} {asked} {from} {until}",
                lease.fence().unwrap_or(0)
            )?;
            lease.release().wait()?;
        }
    }
    print!("{ledger}");
    Ok(())
}
