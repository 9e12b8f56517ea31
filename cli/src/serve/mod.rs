//! `tidegate serve`: policies behind doors, on a store.
//!
//! | room | holds |
//! |---|---|
//! | `args`, `address` | what it is told |
//! | `configuration`, `reload` | its file, read at the start and again |
//! | `applied` | policies applied over those of the file |
//! | `store` | stores by their URL |
//! | `doors` | sockets, and what is served on them |
//! | `logs`, `hurried` | logs and the audit log; a clock for demonstrations |

mod address;
mod applied;
mod args;
mod configuration;
mod doors;
mod hurried;
mod logs;
mod reload;
mod store;

use std::path::PathBuf;
use std::sync::Arc;

use tidegate::gate::Gate;
use tracing::{info, warn};

use crate::command::runtime;
use crate::trouble::{Outcome, Trouble};
use applied::Applied;
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
    let begin = |path: &PathBuf| Applied::begin(path, &config.policies).map(Arc::new);
    let applied = args.applied.as_ref().map(begin).transpose()?;
    let policies = match &applied {
        Some(applied) => applied.policies(),
        None => config.policies.clone(),
    };
    let gate = builder.build(&policies).map_err(Trouble::failure)?;
    runtime()?.block_on(async {
        let doors = Doors::open(args, &config.server).await?;
        if let Some(path) = args.config.clone() {
            tokio::spawn(reload::follow(path, gate.clone(), applied.clone()));
        }
        doors.announce(&policies, url);
        if gate.is_open() && doors.are_public() {
            warn!("everyone who reaches this machine is let in; add a [[token]]");
        }
        let apply = applied.map(|applied| applied.verb(&gate));
        doors.serve(gate, recorder, apply).await
    })?;
    info!("stopped");
    Ok(())
}
