//! The store that a URL names. One beyond a network may be away: then not
//! everyone asks it, and `/metrics` and the log say so.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{describe_gauge, gauge};
use tidegate::Store;
use tidegate_net::breaker::{BreakerStore, Change, CircuitBreaker, Settings};
use tidegate_url::UrlError;
pub use tidegate_url::{Opened, shown};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::signals::Signals;
use crate::trouble::{Outcome, Trouble};

/// What a server opens if nothing is said: a kill loses a tenth of a second.
pub const USUAL: &str = "file:tidegate.redb?sync=interval=100ms";

/// Who names a store that the command line does.
pub const TYPED: &str = "--store";

/// Between two tries to open a store.
const PAUSE: Duration = Duration::from_millis(500);

/// Opens the store that `url` names; `by` is what said so.
pub fn open(url: &str, by: &str) -> Outcome<Opened> {
    ready(tidegate_url::open(url), url, by)
}

/// The URL by which a server opens the store of `url`: the leases that it makes are its clients', and
/// last beyond it where the URL says nothing else.
pub fn for_clients(url: &str) -> Cow<'_, str> {
    // What is wrong with it is said of what was typed.
    if !url.starts_with("shm:") || url.contains("leases=") || fault(url).is_some() {
        return Cow::Borrowed(url);
    }
    let sign = if url.contains('?') { '&' } else { '?' };
    Cow::Owned(format!("{url}{sign}leases=ttl"))
}

/// How a server waits for a store that is not there yet, or cannot be used yet.
pub struct StoreWait<'a> {
    /// For how long it is tried again.
    pub longest: Duration,
    /// What it listens on meanwhile.
    pub runtime: &'a Runtime,
    /// Whether it is told to stop.
    pub signals: &'a mut Signals,
}

impl StoreWait<'_> {
    /// As [`open`]; `None` if it was told to stop first.
    #[expect(
        clippy::disallowed_methods,
        reason = "how long to wait for a store is no decision, and the server does nothing else meanwhile"
    )]
    pub fn open(mut self, url: &str, by: &str) -> Outcome<Option<Opened>> {
        let (begun, mut is_told) = (Instant::now(), false);
        loop {
            let why = match tidegate_url::open(url) {
                Err(UrlError::Store(why)) if begun.elapsed() < self.longest => why,
                opened => return ready(opened, url, by).map(Some),
            };
            if !std::mem::replace(&mut is_told, true) {
                let (store, longest) = (shown(url), self.longest.as_secs_f64());
                warn!(
                    store,
                    why = why.to_string(),
                    "the store cannot be opened yet; trying again for {longest} s"
                );
            }
            if self.pause() {
                return Ok(None);
            }
        }
    }

    /// Waits between two tries; whether it was told to stop meanwhile.
    fn pause(&mut self) -> bool {
        self.runtime.block_on(async {
            let told = timeout(PAUSE, self.signals.told_to_stop());
            told.await.is_ok()
        })
    }
}

/// A store that was opened, not asked by everyone while it is away; or why it was not.
fn ready(opened: Result<Opened, UrlError>, url: &str, by: &str) -> Outcome<Opened> {
    let mut opened = opened.map_err(|error| match error {
        UrlError::Store(why) => {
            Trouble::failure(format!("the store `{}` ({by}): {why}", shown(url)))
        }
        error @ UrlError::NotBuilt { .. } => Trouble::usage(format!(
            "{error}: `cargo install --path cli` builds the command with all stores but DynamoDB, \
             with `--features dynamodb` that, too"
        )),
        error => Trouble::usage(error),
    })?;
    let abilities = opened.store.abilities();
    // Shared, but not in this machine's memory: it lies beyond a network, and may be away.
    if abilities.shared && abilities.answers_can_be_lost {
        opened.store = behind_breaker(opened.store, shown(url));
    }
    Ok(opened)
}

/// What is wrong with a store's URL, without opening it.
pub fn fault(url: &str) -> Option<String> {
    let wrong = tidegate_url::check(url).err()?;
    Some(wrong.to_string())
}

/// The store, not asked by everyone while it is away.
fn behind_breaker(store: Arc<dyn Store>, name: String) -> Arc<dyn Store> {
    describe_gauge!(
        "tidegate_store_up",
        "1 while the store answers, 0 while it does not"
    );
    let answers = gauge!("tidegate_store_up");
    answers.set(1.0);
    let watcher = move |change, words: &str| match change {
        Change::Failed => warn!(store = name, why = words, "the store gave no answer"),
        Change::Away => {
            answers.set(0.0);
            warn!(
                store = name,
                why = words,
                "the store is unavailable; the circuit breaker is open, and policies answer by their failure_mode"
            );
        }
        Change::Answers(away) => {
            answers.set(1.0);
            let away = away.as_secs_f64();
            info!(
                store = name,
                "the store answers again, it was unreachable for {away:.1} s"
            );
        }
    };
    let breaker = CircuitBreaker::new(Settings::default(), Some(Arc::new(watcher)));
    Arc::new(BreakerStore::new(store, Arc::new(breaker)))
}
