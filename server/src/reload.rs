//! The server's file read again: when it changes, and on SIGHUP. A faulty one
//! changes nothing.

use std::fs::{Metadata, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tidegate_gateway::{CostChange, file_costs};
use tidegate_policy::{Config, ServerSettings};
use tidegate_protocol::Tls;
use tidegate_service::{Change, NamespacePolicies, audit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::applied::Applied;
use super::args::Serve;
use super::configuration;
use super::logs::AuditLog;
use super::serving::{NotServed, Serving};
use super::tls::TlsFiles;
use crate::trouble::{Outcome, Trouble};

/// An editor writes a file in several steps; this long after the last one.
const SETTLED: Duration = Duration::from_millis(100);

/// A sound file that the store kept from coming into force is tried again so soon, and each time half
/// as often, but so often at least.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// So many things that a reload has changed are named in the log.
const MOST_NAMED: usize = 20;

/// All that is read again, and what it is read for.
pub struct Reload {
    /// What it goes by without a file.
    pub example: &'static str,
    pub args: Serve,
    pub serving: Serving,
    /// Policies that go before those of the file.
    pub applied: Option<Arc<Applied>>,
    pub tls: Option<Arc<Tls>>,
    pub audit: AuditLog,
    /// Whether anyone beyond this machine can reach a listener.
    pub public: bool,
    /// What the file said at the start.
    pub settings: ServerSettings,
}

impl Reload {
    /// Watches the file and listens for SIGHUP from now on; the future follows
    /// them for as long as the server runs.
    pub fn follow(self) -> Outcome<impl Future<Output = ()>> {
        let (changed, mut changes) = mpsc::channel(1);
        let watcher = self.args.config.as_ref().map(|path| {
            watch(path, changed)
                .inspect_err(|error| warn!(%error, "changes of the file are not seen; send SIGHUP"))
        });
        let mut hangups = signal(SignalKind::hangup()).map_err(Trouble::failure)?;
        let reload = Arc::new(self);
        Ok(async move {
            // Without it, SIGHUP is still heard.
            let _kept = watcher;
            let mut pause: Option<Duration> = None;
            let mut told = String::new();
            loop {
                let later = tokio::time::sleep(pause.unwrap_or_default());
                let mut is_repeated = false;
                tokio::select! {
                    Some(()) = changes.recv() => settle(&mut changes).await,
                    _ = hangups.recv() => {}
                    () = later, if pause.is_some() => is_repeated = true,
                }
                // It waits for the disk, and for the store: no thread of requests does.
                let again = Arc::clone(&reload);
                let done = tokio::task::spawn_blocking(move || again.again()).await;
                let done = done.unwrap_or_else(|panic| Err(Trouble::failure(panic).into()));
                let is_over = match done {
                    Ok(changed) => {
                        let (changes, what) = (changed.count(), changed.listed());
                        if changed.is_whole || changes > 0 || !is_repeated {
                            info!(changes, %what, "the file was read again");
                        }
                        told.clear();
                        changed.is_whole
                    }
                    Err(not) => {
                        let trouble = match not.is_store_away {
                            true => format!("{not}\nIt is tried again until the store answers"),
                            false => not.to_string(),
                        };
                        if !is_repeated || told != trouble {
                            error!(
                                "configuration not reloaded; the previous one stays in force:\n{trouble}"
                            );
                        }
                        told = trouble;
                        !not.is_store_away
                    }
                };
                pause = match pause.filter(|_| is_repeated) {
                    _ if is_over => None,
                    None => Some(FIRST_PAUSE),
                    Some(pause) => Some((2 * pause).min(LONGEST_PAUSE)),
                };
            }
        })
    }

    /// Reads everything and goes over to it, wholly or not at all; what has changed.
    fn again(&self) -> Result<Changed, NotServed> {
        let config = configuration::read(self.args.config.as_deref(), self.example)?;
        is_safe(&self.args, &config, self.public)?;
        let costs = file_costs(&config);
        self.serving.check(&config.policies, Some(&costs))?;
        let files = TlsFiles::choose(&self.args, &config.server)?;
        let tls = match (&self.tls, files) {
            (Some(_), Some(files)) => Some(Tls::new(&files.read()?)),
            (None, None) => None,
            _ => {
                return Err(NotServed::from(
                    "whether the listeners speak TLS is settled at the start: restart the server"
                        .to_owned(),
                ));
            }
        };
        self.audit
            .open(audit_path(&self.args, &config.server).as_deref())?;
        let of_costs = self.serving.cost_changes(&costs);
        let former = self.serving.exchange_costs(costs);
        let exchanged = match &self.applied {
            Some(applied) => applied.reload(&self.serving, &config.policies),
            None => self.serving.exchange("the file", &config.policies),
        };
        let changes = exchanged.inspect_err(|_| {
            self.serving.exchange_costs(former);
        })?;
        // Whoever is let in finds a namespace as the same file has it.
        let of_namespaces = of_namespaces(&config);
        let is_whole = self.serving.service.exchange_namespaces(of_namespaces);
        let tokens = self.serving.service.replace_credentials(config.credentials);
        if tokens {
            audit::note(None, "the file", "tokens", "exchanged");
        }
        if let (Some(old), Some(new)) = (&self.tls, tls) {
            old.exchange(new);
        }
        let settled = self.settings.settled_otherwise(&config.server);
        if !settled.is_empty() {
            let settled = settled.join("`, `");
            warn!("`{settled}` changed: restart the server to apply this");
        }
        Ok(Changed {
            policies: changes,
            of_costs,
            tokens,
            is_whole,
        })
    }
}

/// Checks that nobody is let in from afar whom nobody knows, unless that is what is wanted.
/// `public`: whether anyone beyond this machine can reach a listener.
pub fn is_safe(args: &Serve, config: &Config, public: bool) -> Outcome<()> {
    if !public {
        return Ok(());
    }
    let files = TlsFiles::choose(args, &config.server)?;
    let known = files
        .as_ref()
        .is_some_and(|files| files.client_ca.is_some());
    if config.credentials.is_empty() && !known && !args.insecure {
        return Err(Trouble::failure(
            "a listener is open beyond this machine, and anyone who reaches it would be let in: \
             add a [[token]] (`tidegate token NAME` makes one), demand certificates \
             (--tls-client-ca FILE), or say --insecure",
        ));
    }
    if files.is_none() && !config.credentials.is_empty() {
        warn!("tokens travel unencrypted: add --tls-certificate and --tls-key");
    }
    Ok(())
}

/// What a reload has changed.
struct Changed {
    policies: Vec<Change>,
    /// What models cost, from what to what.
    of_costs: Vec<CostChange>,
    /// Whether there are other tokens.
    tokens: bool,
    /// Whether every namespace went over to it, too.
    is_whole: bool,
}

impl Changed {
    fn count(&self) -> usize {
        self.policies.len() + self.of_costs.len() + usize::from(self.tokens)
    }

    /// By name: what is there now (`+`), is gone (`-`) or is another (`~`). Of prices and
    /// weights, from what to what.
    fn listed(&self) -> String {
        let name = |change: &Change| format!("{} {}", change.sort.sign(), change.subject());
        let mut names: Vec<String> = self.policies.iter().map(name).collect();
        // Those of one limit stand one after the other.
        names.dedup();
        names.extend(self.of_costs.iter().map(ToString::to_string));
        names.extend(self.tokens.then(|| "~ tokens".to_owned()));
        let more = names.len().saturating_sub(MOST_NAMED);
        names.truncate(MOST_NAMED);
        if more > 0 {
            names.push(format!("and {more} more"));
        }
        match names.is_empty() {
            true => "nothing".to_owned(),
            false => names.join(", "),
        }
    }
}

/// What the file says of the policies of namespaces.
pub fn of_namespaces(config: &Config) -> NamespacePolicies {
    NamespacePolicies {
        usual: config.policies.clone(),
        own: config.namespaces.clone(),
    }
}

/// Where administrative changes are noted.
pub fn audit_path(args: &Serve, file: &ServerSettings) -> Option<PathBuf> {
    let said = args.audit.clone();
    said.or_else(|| file.audit.as_ref().map(PathBuf::from))
}

async fn settle(changes: &mut mpsc::Receiver<()>) {
    while let Ok(Some(())) = tokio::time::timeout(SETTLED, changes.recv()).await {}
}

/// Watches the folder: who replaces a file replaces what would be watched. So does who
/// exchanges a link on the way to it, as Kubernetes does for a ConfigMap.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let (file, mut known) = (PathBuf::from(path), identity(path));
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let Ok(event) = event else { return };
        if event.kind.is_access() {
            return;
        }
        let before = std::mem::replace(&mut known, identity(&file));
        let names_it = |path: &PathBuf| path.file_name() == file.file_name();
        if before != known || event.paths.iter().any(names_it) {
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

/// Which file a path leads to, and since when it says what it says.
fn identity(path: &Path) -> Option<[i64; 4]> {
    let of = |found: Metadata| {
        let which = [found.dev(), found.ino()].map(u64::cast_signed);
        [which[0], which[1], found.mtime(), found.mtime_nsec()]
    };
    metadata(path).ok().map(of)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use tidegate_policy::{PolicyFile, parse};
    use tidegate_service::compare;

    use super::{Changed, MOST_NAMED};

    fn changed(old: &str, new: &str, tokens: bool) -> Changed {
        Changed {
            policies: compare(&file(old), &file(new)),
            of_costs: Vec::new(),
            tokens,
            is_whole: true,
        }
    }

    fn file(text: &str) -> PolicyFile {
        parse("t", text).expect("a sound file")
    }

    #[test]
    fn the_log_of_a_reload_names_what_has_changed_and_is_bounded() {
        let old = "[policy.chat.limits]\nrpm = { calls = 10, per = '1m', burst = 5 }\n\
                   [policy.old.limits]\nrpm = { calls = 1, per = '1s' }";
        let mut new = "[policy.chat.limits]\nrpm = { calls = 20, per = '1m', burst = 9 }\n\
                       tpm = { rate = 9, per = '1m' }\n"
            .to_owned();
        assert_eq!(
            changed(old, &new, false).listed(),
            "- policy old, ~ limit chat.rpm, + limit chat.tpm"
        );
        let same = changed(old, old, false);
        assert_eq!((same.count(), &*same.listed()), (0, "nothing"));
        // It said that nothing had changed, of a token that was added.
        let same = changed(old, old, true);
        assert_eq!((same.count(), &*same.listed()), (1, "~ tokens"));
        for number in 0..MOST_NAMED {
            let policy = format!("[policy.p{number}.limits]\nr = {{ calls = 1, per = '1s' }}\n");
            new.write_str(&policy).expect("text");
        }
        let changes = changed(old, &new, false).listed();
        assert!(changes.ends_with("+ policy p16, and 3 more"), "{changes}");
    }
}
