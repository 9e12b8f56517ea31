//! The MariaDB store against the suite, on a server of each test's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate::contract::{Abilities, Definition, Plan, Store, StoreError, Table};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::{Subject, suite};
use tidegate_mysql::{Clock, MysqlStore, Options};

/// Random commands in a run: each is two round trips.
const COMMANDS: usize = 20_000;

/// Random walks in a run, some hundred commands each.
const WALKS: u32 = 100;

/// A store in which every walk has a table of its own.
struct Fresh {
    store: Arc<MysqlStore>,
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

fn open(url: &str) -> Arc<MysqlStore> {
    let options = Options {
        clock: Clock::Caller,
        deadline: Duration::from_secs(30),
        connections: 2,
        ..Options::default()
    };
    Arc::new(MysqlStore::open(url, options).expect("a server"))
}

/// The server stays for as long as the subject.
fn subject(server: MariadbServer) -> Subject {
    let (store, url) = (open(&server.url()), server.url());
    let walks = Arc::new(AtomicUsize::new(0));
    let walked = Arc::clone(&walks);
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
        .with_random_commands(commands())
        .with_most_walks(WALKS)
}

/// More where somebody wants more.
fn commands() -> usize {
    let wanted = std::env::var("TIDEGATE_MARIADB_COMMANDS").ok();
    let wanted = wanted.map(|text| text.parse().expect("a number of commands"));
    wanted.unwrap_or(COMMANDS)
}

/// The subject, or an end of the test where there is no server.
macro_rules! mariadb {
    () => {
        match MariadbServer::start() {
            Some(server) => subject(server),
            None => return,
        }
    };
}

suite!(mariadb!());
