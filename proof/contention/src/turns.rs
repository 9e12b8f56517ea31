//! It waits for the slot, gives it back at once, and stands in line again. For each
//! turn it prints `NUMBER FENCE GRANTED RELEASED`: when it was granted, and when it began
//! to give it back, in microseconds.

use std::io::Write;
use std::sync::atomic::Ordering;

use tidegate::Request;

use crate::common::{KEY, LONG, Trouble, input_ended, now, one_slot};

/// Takes turns at one slot until its input ends
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The store that keeps the line
    #[arg(long)]
    store: String,
    /// Its own number
    #[arg(long)]
    number: u32,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let set = one_slot(&options.store)?;
    let ended = input_ended();
    let mut out = std::io::stdout();
    tokio::runtime::Runtime::new()?.block_on(async {
        while !ended.load(Ordering::Relaxed) {
            let ask = Request::default().cost(1).within(LONG);
            let granted = set.acquire(KEY, ask).await?.granted();
            let lease = granted.ok_or("it waits for as long as it takes")?;
            let (granted, fence) = (now(), lease.fence().unwrap_or(0));
            let released = now();
            set.release(KEY, lease.detach()).await?;
            // One write, so that the lines of several processes on one pipe stay whole.
            let turn = format!("{} {fence} {granted} {released}\n", options.number);
            out.write_all(turn.as_bytes())?;
        }
        Ok(())
    })
}
