//! `tidegate serve`: policies behind doors, on a store.
//!
//! | room | holds |
//! |---|---|
//! | `args`, `address` | what it is told |
//! | `configuration`, `reload` | its file, read at the start and again |
//! | `store` | stores by their URL |
//! | `doors`, `settings` | what is served, and what each door keeps to |
//! | `sockets`, `stream`, `tls` | connections: accepted, encrypted |
//! | `signals`, `supervisor` | how it is told to stop, and whom it tells |
//! | `denied` | who is refused most, for `/metrics` |
//! | `logs`, `hurried` | logs and the audit log; a clock for demonstrations |

mod address;
mod args;
mod configuration;
mod denied;
mod doors;
mod hurried;
mod logs;
mod reload;
mod settings;
mod signals;
mod sockets;
mod store;
mod stream;
mod supervisor;
mod tls;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tidegate::gate::Gate;
use tidegate::policy::ServerSettings;
use tokio::time::MissedTickBehavior;
use tracing::info;

use crate::command::runtime;
use crate::trouble::{Outcome, Trouble};
use doors::Doors;
use logs::AuditLog;
use reload::Reload;
use signals::Signals;
use tls::{Tls, TlsFiles};

pub use args::Serve;

/// Serves until it is told to stop.
pub fn serve(args: &Serve) -> Outcome<()> {
    let config = configuration::read(args.config.as_deref())?;
    let audit = AuditLog::default();
    audit.open(audit_path(args, &config.server).as_deref())?;
    logs::begin(args.log, &audit)?;
    let tls = TlsFiles::choose(args, &config.server)?;
    let tls = tls
        .map(|files| Tls::read(&files))
        .transpose()?
        .map(Arc::new);
    let url = args.store.as_deref().or(config.server.store.as_deref());
    let url = url.unwrap_or(store::USUAL);
    let opened = store::open(url)?;
    let builder = Gate::builder()
        .store(Arc::clone(&opened.store))
        .clock(hurried::clock(args.speed))
        .credentials(config.credentials.clone());
    let recorder = doors::recorder()?;
    let gate = builder.build(&config.policies).map_err(Trouble::failure)?;
    runtime()?.block_on(async {
        let doors = Doors::open(args, &config.server, tls.clone()).await?;
        let reload = Reload::new(args, &gate, tls, audit, doors.are_public());
        reload.is_safe(&config)?;
        // Whoever reads the announcement may send a signal at once.
        tokio::spawn(reload.follow()?);
        let signals = Signals::listen().map_err(Trouble::failure)?;
        tokio::spawn(keep_up(recorder.clone()));
        doors.announce(&config.policies, url);
        doors.serve(gate, recorder, signals).await
    })?;
    opened.flush()?;
    info!("stopped");
    Ok(())
}

/// Where administrative changes are noted.
fn audit_path(args: &Serve, file: &ServerSettings) -> Option<PathBuf> {
    let said = args.audit.clone();
    said.or_else(|| file.audit.as_ref().map(PathBuf::from))
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
