//! A store on servers, as a subject of the suite.
#![allow(dead_code, reason = "each test opens one of the stores")]

pub mod offering;
pub mod open;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::Store;
use tidegate_conformance::Subject;

/// Servers that tests share for as long as one of them has them: to start some for each
/// would be most of the work. The last test ends them.
pub struct Shared<S>(Mutex<Weak<S>>);

impl<S> Shared<S> {
    pub const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    /// Those that are there, or else what `start` starts.
    pub fn get(&self, start: impl FnOnce() -> Option<S>) -> Option<Arc<S>> {
        let mut shared = self.0.lock();
        if let Some(servers) = shared.upgrade() {
            return Some(servers);
        }
        let servers = Arc::new(start()?);
        *shared = Arc::downgrade(&servers);
        Some(servers)
    }
}

/// Random commands in a run: each is a round trip or two.
const COMMANDS: usize = 20_000;

/// Random walks in a run, some hundred commands each.
const WALKS: u32 = 100;

/// The store at `url`. The servers stay for as long as the subject.
pub fn subject(
    open: fn(&str) -> Arc<dyn Store>,
    url: String,
    servers: impl Sized + 'static,
) -> Subject {
    let opened = move || {
        let _stays = &servers;
        open(&url)
    };
    Subject::opened_once(opened)
        .with_random_commands(COMMANDS)
        .with_most_walks(WALKS)
}
