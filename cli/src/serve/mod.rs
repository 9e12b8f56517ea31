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

use tidegate::gate::Gate;
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
            let following = reload::follow(path, gate.clone());
            tokio::spawn(following.map_err(Trouble::failure)?);
        }
        doors.announce(&config.policies, url);
        if gate.is_open() && doors.are_public() {
            warn!("everyone who reaches this machine is let in; add a [[token]]");
        }
        doors.serve(gate, recorder).await
    })?;
    info!("stopped");
    Ok(())
}
