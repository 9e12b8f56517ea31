//! It stands in line for the slot, and is killed there.

use tidegate::Request;

use crate::common::{KEY, LONG, Trouble, one_slot};

/// Waits for a slot
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The store that keeps the line
    #[arg(long)]
    store: String,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let set = one_slot(&options.store)?;
    let granted = set
        .acquire(KEY, Request::default().cost(1).within(LONG))
        .wait()?;
    println!("{}", granted.granted().is_some());
    Ok(())
}
