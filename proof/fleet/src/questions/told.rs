//! What is set at one server holds at the other.

use std::time::Duration;

mod both;
mod entities;
mod namespaces;
mod policies;
mod set;

use both::{Both, Setting};
use policies::policies;

use super::common::{Work, at_once};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{PROTOCOLS, Protocol};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "told",
    holds: "What is set at one server holds at the other within a second (Redis, PostgreSQL) or\n\
            five (MariaDB, DynamoDB): overrides, cool-downs, applied policies, entities, namespaces.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// So many cells look again and again at once: more, and a store has no time for what they wait
/// for.
const AT_ONCE: usize = 20;

/// How much later a busy machine may tell it.
const SLACK: Duration = Duration::from_secs(4);

fn settings(protocol: &Protocol) -> impl Iterator<Item = &'static Setting> {
    let all = [set::SETTINGS, entities::SETTINGS, namespaces::SETTINGS];
    let all = all.into_iter().flatten();
    all.filter(|setting| protocol.has(setting.verb))
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        settings(protocol).map(|setting| Row {
            protocol: protocol.name,
            case: setting.case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("told", &policies(10), PATIENT)?;
    let within = house.store.told_within + SLACK;
    // Shared memory cannot, and says so.
    let purges = house.store.name != "shm";
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for setting in settings(protocol) {
            let pair = &pair;
            let does = move || is_told(pair, protocol, setting, (within, purges));
            work.push((protocol.name, setting.case, Box::new(does)));
        }
    }
    at_once(report, AT_ONCE, work);
    Ok(())
}

fn is_told(
    pair: &Pair,
    protocol: &Protocol,
    setting: &Setting,
    (within, purges): (Duration, bool),
) -> Result<(), String> {
    let mut both = Both {
        one: pair.enter(protocol, 0)?,
        other: pair.enter(protocol, 1)?,
        protocol,
        key: format!("{} {}", protocol.name, setting.case),
        within,
        purges,
    };
    (setting.tell)(&mut both)
}
