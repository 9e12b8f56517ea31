//! A store on servers of a test's own, as a subject of the suite.
#![allow(dead_code, reason = "each test opens one of the stores")]

pub mod open;

use std::sync::Arc;

use tidegate::contract::Store;
use tidegate_conformance::Subject;

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
