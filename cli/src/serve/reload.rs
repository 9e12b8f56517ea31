//! The server's file read again: when it changes, and on SIGHUP. A faulty one
//! changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tidegate::gate::{Gate, audit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::applied::Applied;
use super::configuration;
use crate::trouble::Trouble;

/// An editor writes a file in several steps; this long after the last one.
const SETTLED: Duration = Duration::from_millis(100);

/// Follows the file for as long as the server runs.
pub async fn follow(path: PathBuf, gate: Gate, applied: Option<Arc<Applied>>) {
    let (changed, mut changes) = mpsc::channel(1);
    // Kept for as long as this runs; without it, SIGHUP is still heard.
    let _watcher = watch(&path, changed)
        .inspect_err(|error| warn!(%error, "changes of the file are not seen; send SIGHUP"));
    let Ok(mut hangups) = signal(SignalKind::hangup()) else {
        return;
    };
    loop {
        tokio::select! {
            Some(()) = changes.recv() => settle(&mut changes).await,
            _ = hangups.recv() => {}
        }
        reload(&path, &gate, applied.as_deref());
    }
}

async fn settle(changes: &mut mpsc::Receiver<()>) {
    while let Ok(Some(())) = tokio::time::timeout(SETTLED, changes.recv()).await {}
}

/// Watches the folder: who replaces a file replaces what would be watched.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let name = path.file_name().map(ToOwned::to_owned);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let concerns = |event: &notify::Event| {
            let mut paths = event.paths.iter();
            !event.kind.is_access() && paths.any(|path| path.file_name() == name.as_deref())
        };
        if event.as_ref().is_ok_and(concerns) {
            // Full means that a change is already known.
            let _ = changed.try_send(());
        }
    })?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Reads the file and goes over to it, wholly or not at all.
fn reload(path: &Path, gate: &Gate, applied: Option<&Applied>) {
    let config = match configuration::read(Some(path)) {
        Ok(config) => config,
        Err(faults) => {
            error!("the file is faulty, and the old policies go on:\n{faults}");
            return;
        }
    };
    let exchanged = match applied {
        Some(applied) => applied.reload(gate, &config.policies),
        None => gate
            .exchange("the file", &config.policies)
            .map_err(Trouble::failure),
    };
    match exchanged {
        Ok(changes) => {
            if gate.replace_credentials(config.credentials) {
                audit::note("the file", "tokens", "exchanged");
            }
            info!(changes = changes.len(), "the file was read again");
        }
        Err(error) => error!(%error, "the file cannot be gone over to, and the old policies go on"),
    }
}
