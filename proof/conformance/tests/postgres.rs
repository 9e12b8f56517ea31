//! The PostgreSQL store against the suite, on a server of each test's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::contract::{Abilities, Definition, Plan, Store, StoreError, Table};
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::{Subject, suite};
use tidegate_postgres::{Clock, Options, PostgresStore};

/// Random commands in a run: each is a round trip.
const COMMANDS: usize = 20_000;

/// Random walks in a run, some hundred round trips each.
const WALKS: u32 = 300;

/// A store in which every walk has a table of its own.
struct Fresh {
    store: Arc<PostgresStore>,
    walk: usize,
}

impl Store for Fresh {
    fn abilities(&self) -> Abilities {
        self.store.abilities()
    }

    fn last_plan(&self, name: &str) -> Option<Arc<Plan>> {
        self.store.last_plan(&format!("{name} {}", self.walk))
    }

    fn definitions(&self, owner: &str) -> Result<Vec<Definition>, StoreError> {
        self.store.definitions(owner)
    }

    fn define(&self, owner: &str, key: &[u8], value: Option<&[u8]>) -> Result<(), StoreError> {
        self.store.define(owner, key, value)
    }

    fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
        let opened = self.store.open(&format!("{name} {}", self.walk), plan);
        opened.map_err(|error| match error {
            StoreError::OtherLevels { kept, asked, .. } => StoreError::OtherLevels {
                name: name.to_owned(),
                kept,
                asked,
            },
            other => other,
        })
    }
}

fn open(url: &str) -> Arc<PostgresStore> {
    let options = Options {
        clock: Clock::Caller,
        waits_for_disk: false,
        deadline: Duration::from_secs(30),
        ..Options::default()
    };
    Arc::new(PostgresStore::open(url, options).expect("a server"))
}

/// The server stays for as long as the subject.
fn subject(server: PostgresServer) -> Subject {
    let (store, url) = (open(&server.url()), server.url());
    let (walks, walked) = shared_count();
    let fresh = move || {
        let _ = &server;
        let walk = walks.fetch_add(1, Ordering::Relaxed);
        let store = Arc::clone(&store);
        Arc::new(Fresh { store, walk }) as Arc<dyn Store>
    };
    let reopened = move || {
        let (store, walk) = (open(&url), walked.load(Ordering::Relaxed) - 1);
        Arc::new(Fresh { store, walk }) as Arc<dyn Store>
    };
    Subject::new(fresh)
        .reopened(reopened)
        .with_random_commands(COMMANDS)
        .with_most_walks(WALKS)
}

fn shared_count() -> (Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    (Arc::clone(&count), count)
}

/// The subject, or an end of the test where there is no server.
macro_rules! postgres {
    () => {
        match PostgresServer::start() {
            Some(server) => subject(server),
            None => return,
        }
    };
}

suite!(postgres!());
