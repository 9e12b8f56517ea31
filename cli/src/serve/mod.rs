//! `tidegate serve`: policies behind doors, on a store.
//!
//! | room | holds |
//! |---|---|
//! | `args`, `address` | what it is told |
//! | `configuration`, `reload` | its file, read at the start and again |
//! | `store` | stores by their URL |
//! | `doors` | sockets, and what is served on them |
//! | `logs`, `hurried` | logs and the audit log; a clock for demonstrations |

mod address;
mod args;
mod configuration;
mod doors;
mod hurried;
mod logs;
mod reload;
mod store;

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tidegate::gate::Gate;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use crate::command::runtime;
use crate::trouble::{Outcome, Trouble};
use doors::Doors;

pub use args::Serve;

/// Serves until it is told to stop.
pub fn serve(args: &Serve) -> Outcome<()> {
    logs::begin(args.log, args.audit.as_deref())?;
    let config = configuration::read(args.config.as_deref())?;
    let url = args.store.as_deref().or(config.server.store.as_deref());
    let url = url.unwrap_or(store::USUAL);
    let builder = Gate::builder()
        .store(store::open(url)?)
        .clock(hurried::clock(args.speed))
        .credentials(config.credentials.clone());
    let recorder = doors::recorder()?;
    let gate = builder.build(&config.policies).map_err(Trouble::failure)?;
    runtime()?.block_on(async {
        let doors = Doors::open(args, &config.server).await?;
        if let Some(path) = args.config.clone() {
            tokio::spawn(reload::follow(path, gate.clone()));
        }
        tokio::spawn(keep_up(recorder.clone()));
        doors.announce(&config.policies, url);
        if gate.is_open() && doors.are_public() {
            warn!("everyone who reaches this machine is let in; add a [[token]]");
        }
        doors.serve(gate, recorder).await
    })?;
    info!("stopped");
    Ok(())
}

/// Sorts what was measured into its histograms: between two readers of
/// `/metrics` it would pile up without bound.
async fn keep_up(recorder: PrometheusHandle) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        second.tick().await;
        recorder.run_upkeep();
    }
}
