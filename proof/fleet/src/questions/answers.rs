//! The answer is the library's, at either server and at both in turn.

mod decided;
mod entities;
mod kept;
mod levels;
mod talk;

pub(super) use talk::Scenario;
use talk::play;

use super::common::{Work, at_once, expect};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{Call, Library, PROTOCOLS, Protocol, Verb};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "answers",
    holds: "The answers are those of the library in one process, on memory: at either server, and\n\
            at both in turn.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// Nothing of what they grant comes back while a test runs.
pub const POLICIES: &str = "
[policy.plain.limits]
units = { rate = 10, per = '400d' }
[policy.calls.limits]
calls = { calls = 10, per = '400d' }
[policy.every.limits]
bucket = { calls = 7, per = '400d' }
window = { calls = 8, per = '400d', algorithm = 'fixed_window' }
first = { calls = 9, per = '400d', algorithm = 'first_use_window' }
slide = { calls = 10, per = '400d', algorithm = 'sliding_window' }
log = { calls = 6, per = '400d', algorithm = 'sliding_log' }
[policy.slots.limits]
running = { concurrency = 3, ttl = '1h' }
[policy.job.limits]
tokens = { rate = 100, per = '400d' }
running = { concurrency = 3, ttl = '1h' }
[policy.both.limits]
input = { rate = 100, per = '400d' }
output = { rate = 100, per = '400d' }
running = { concurrency = 3, ttl = '1h' }
[policy.deep]
key = 'org/user'
[policy.deep.limits]
org = { calls = 6, per = '400d', level = 'org' }
user = { calls = 4, per = '400d' }
[policy.own.limits]
units = { rate = 10, per = '400d' }
[policy.tree]
key = 'org/user'
[policy.tree.limits]
shared = { rate = 100, per = '400d', level = 'org' }
tokens = { rate = 60, per = '400d' }
[policy.staff]
key = 'org/team/user'
[policy.staff.limits]
tokens = { rate = 100, per = '400d', level = 'org' }
seats = { concurrency = 3, ttl = '1h' }
[policy.counted]
key = 'org/user'
usage = '400d'
[policy.counted.limits]
spend = { rate = 100, per = '400d', level = 'org' }
units = { rate = 60, per = '400d' }
[policy.given_back]
usage = '400d'
[policy.given_back.limits]
units = { rate = 60, per = '400d', on_failure = 'refund' }
spend = { rate = 100, per = '400d' }
running = { concurrency = 3, ttl = '300ms' }
[policy.pool]
balancer = 'first_available'
[policy.pool.member.eu.limits]
running = { concurrency = 2, ttl = '1h' }
[policy.pool.member.us.limits]
running = { concurrency = 1, ttl = '2h' }
";

/// Policies whose tables had one name.
const NAMES: &str = "
[policy.search]
key = 'org'
[policy.search.limits]
a = { calls = 5, per = '400d', level = 'org' }
[policy.'search/org'.limits]
a = { calls = 3, per = '400d' }
";

const NAMED: &str = "check, policies search and search/org";

/// Those that a protocol can have.
pub(super) fn scenarios(protocol: &Protocol) -> impl Iterator<Item = &'static Scenario> {
    let all = [
        decided::SCENARIOS,
        levels::SCENARIOS,
        entities::SCENARIOS,
        kept::SCENARIOS,
    ];
    all.into_iter()
        .flatten()
        .filter(|scenario| has(protocol, scenario))
}

fn has(protocol: &Protocol, scenario: &Scenario) -> bool {
    protocol.has(scenario.verb) && scenario.besides.iter().all(|verb| protocol.has(*verb))
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        let cases = scenarios(protocol)
            .map(|scenario| scenario.case)
            .chain([NAMED]);
        cases.map(|case| Row {
            protocol: protocol.name,
            case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("answers", POLICIES, PATIENT)?;
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for scenario in scenarios(protocol) {
            let pair = &pair;
            let does = move || compare(("answers", pair), protocol, scenario, true);
            work.push((protocol.name, scenario.case, Box::new(does)));
        }
    }
    at_once(report, 3, work);
    let names = house.pair("names", NAMES, PATIENT);
    for protocol in PROTOCOLS {
        let names = names.as_ref().map_err(Clone::clone);
        report.note(
            protocol.name,
            NAMED,
            names.and_then(|names| are_two(names, protocol)),
        );
    }
    Ok(())
}

/// What one of them grants is not the other's.
fn are_two(pair: &Pair, protocol: &Protocol) -> Result<(), String> {
    for (policy, limit) in [("search", 5), ("search/org", 3)] {
        let mut admitted = 0;
        for turn in 0..8 {
            let check = Call::of(Verb::Check, policy, protocol.name);
            let answer = pair.enter(protocol, turn)?.ask(&check)?;
            admitted += usize::from(answer.admitted());
        }
        expect(admitted == limit, || {
            format!("{policy} of {limit} admitted {admitted}")
        })?;
    }
    Ok(())
}

/// Plays it at the servers, each by itself and `in_turn`, where that can be, and holds what they
/// say against the library. Each question has keys of its own: they share a store.
pub(super) fn compare(
    (question, pair): (&str, &Pair),
    protocol: &Protocol,
    scenario: &Scenario,
    in_turn: bool,
) -> Result<(), String> {
    let expected = play(
        scenario,
        "the library's key",
        &mut [Box::new(Library::of(POLICIES)?)],
    )?;
    let mut ways = vec![("at the first", vec![0])];
    if pair.servers.len() > 1 {
        ways.push(("at the second", vec![1]));
        if in_turn && scenario.in_turn {
            ways.push(("in turn", vec![0, 1]));
        }
    }
    for (way, turns) in ways {
        let clients = turns.iter().map(|turn| pair.enter(protocol, *turn));
        let mut clients = clients.collect::<Result<Vec<_>, _>>()?;
        let key = format!("{question} {} {} {way}", protocol.name, scenario.case);
        let said = play(scenario, &key, &mut clients).map_err(|why| format!("{way}: {why}"))?;
        let pairs = said.iter().zip(&expected).enumerate();
        for (place, (said, expected)) in pairs {
            expect(said == expected, || {
                format!("{way}, {}: {said}, and not {expected}", place + 1)
            })?;
        }
    }
    Ok(())
}
