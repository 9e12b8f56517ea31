//! It takes a slot again and again, and says so while it has it: `NUMBER + FENCE`,
//! and `NUMBER -` before it gives it back. (Each line is one write, so that those of
//! several processes on one pipe stand in their order.)

use std::io::Write;
use std::sync::atomic::Ordering;

use crate::common::{Slots, Trouble, input_ended};

/// How often it asks the store something while it holds.
const ROUND_TRIPS: usize = 5;

/// Holds one of several slots, again and again, until its input ends
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    slots: Slots,
    /// Its own number
    #[arg(long)]
    number: u32,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let gpus = options.slots.semaphore()?;
    let ended = input_ended();
    let mut out = std::io::stdout();
    let mut say = |what: String| out.write_all(format!("{} {what}\n", options.number).as_bytes());
    while !ended.load(Ordering::Relaxed) {
        let Some(permit) = gpus.try_acquire().wait()? else {
            continue;
        };
        say(format!("+ {}", permit.fence()))?;
        for _ in 0..ROUND_TRIPS {
            gpus.available().wait()?;
        }
        say("-".to_owned())?;
        permit.release().wait()?;
    }
    Ok(())
}
