//! A node of a fleet that gives out slots which it holds at the store: several of its tasks take one,
//! hold it for a moment and give it back, and it says so, a write a line: `FROM UNTIL HOW`, by the
//! clock of the machine in microseconds; `HOW` is `node` for a lease of the node's, and `store` for one of the
//! store's.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::{Admission, Limit, LimitSet, Tier};

use crate::common::{KEY, Trouble, input_ended, now};

/// Gives slots to its tasks until its input ends, then gives back what it holds
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The store that keeps the slots
    #[arg(long)]
    store: String,
    /// So many are there
    #[arg(long)]
    capacity: u64,
    /// So many at a time
    #[arg(long)]
    batch: u64,
    /// It gives them out for so many milliseconds
    #[arg(long)]
    hold: u64,
    /// A lease lasts for so many milliseconds
    #[arg(long)]
    ttl: u64,
    /// So many tasks hold one at a time
    #[arg(long)]
    tasks: usize,
}

pub fn run(options: &Options) -> Result<(), Trouble> {
    let store = tidegate_url::open(&options.store)?.store;
    let tier = Tier::leased(1)
        .batch_of("slots", options.batch)
        .hold(Duration::from_millis(options.hold))
        .idle(Duration::from_millis(100));
    let limit = Limit::concurrency("slots", options.capacity);
    let set = LimitSet::builder()
        .name("lent")
        .limit(limit.ttl(Duration::from_millis(options.ttl)))
        .store(store)
        .tier(tier)
        .build()?;
    let ended = input_ended();
    tokio::runtime::Runtime::new()?.block_on(async {
        let tasks: Vec<_> = (0..options.tasks)
            .map(|_| tokio::spawn(hold(set.clone(), Arc::clone(&ended))))
            .collect();
        for task in tasks {
            task.await?.map_err(|trouble| trouble as Trouble)?;
        }
        set.return_grants().await;
        Ok(())
    })
}

async fn hold(
    set: LimitSet,
    ended: Arc<AtomicBool>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    while !ended.load(Ordering::Relaxed) {
        let Admission::Granted(mut lease) = set.try_acquire(KEY, ()).await? else {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        };
        let from = now();
        tokio::time::sleep(Duration::from_millis(3)).await;
        let until = now();
        // One that stood still for too long is not sure any more.
        if lease.is_held() {
            let how = if lease.fence().is_none() {
                "node"
            } else {
                "store"
            };
            let line = format!("{from} {until} {how}\n");
            std::io::stdout().write_all(line.as_bytes())?;
        }
        lease.release().await?;
    }
    Ok(())
}
