//! It takes what there is, stands in line for more, and ends: what it lets go of on
//! its way out is to be given back.

use std::time::Duration;

use crate::common::{Slots, Trouble};

/// Takes all slots but one, one by one, then stands in line for two; lets go, and ends
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    slots: Slots,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let gpus = options.slots.semaphore()?;
    let _outside = gpus.acquire().wait()?;
    tokio::runtime::Runtime::new()?.block_on(async {
        let mut held = Vec::new();
        for _ in 2..options.slots.slots {
            held.push(gpus.acquire().await?);
        }
        let two = gpus.many(2);
        let waits = tokio::spawn(async move { two.acquire().await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        waits.abort();
        Ok(())
    })
}
