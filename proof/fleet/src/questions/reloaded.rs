//! Limits that change in the file: at one server, then at the other.

use super::common::{expect, until};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::server::Server;
use crate::stores::Store;
use crate::talk::{Call, Client, Http, PATIENCE, PROTOCOLS, Protocol, Verb, Word};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "reloaded",
    holds: "A reload at one server, then at the other, admits nothing more than the limits say. The\n\
            second server starts when the first has read its file anew, as in a fleet that grows.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// How often each server is asked, in each phase.
const ASKS: usize = 16;

/// No bound: the limits of this phase grant more than is asked.
const ALL: usize = usize::MAX;

/// A policy's limits in three versions. The first server begins with the first and goes over
/// to the second; the second server starts; the first goes over to the third; and the second.
struct Change {
    case: &'static str,
    versions: [&'static str; 3],
    /// What is counted at most by the end of each phase.
    most: [usize; 4],
    /// From which version on it is counted: by servers that have the limit.
    counted: usize,
    leases: bool,
}

const fn row(case: &'static str, versions: [&'static str; 3], most: [usize; 4]) -> Change {
    Change {
        case,
        versions,
        most,
        counted: 0,
        leases: false,
    }
}

const CHANGES: &[Change] = &[
    row(
        "raised",
        [
            "l = { calls = 5, per = '400d' }",
            "l = { calls = 8, per = '400d' }",
            "l = { calls = 12, per = '400d' }",
        ],
        [5, 8, 12, 12],
    ),
    row(
        "lowered",
        [
            "l = { calls = 12, per = '400d' }",
            "l = { calls = 8, per = '400d' }",
            "l = { calls = 5, per = '400d' }",
        ],
        [12, 12, 12, 12],
    ),
    Change {
        counted: 2,
        ..row(
            "added",
            [
                "a = { calls = 1000, per = '400d' }",
                "a = { calls = 1000, per = '400d' }",
                "a = { calls = 1000, per = '400d' }\nc = { calls = 5, per = '400d' }",
            ],
            [ALL, ALL, 5, 5],
        )
    },
    Change {
        counted: 2,
        ..row(
            "added after another was removed",
            [
                "a = { calls = 1000, per = '400d' }\nb = { calls = 1000, per = '400d' }",
                "a = { calls = 1000, per = '400d' }",
                "a = { calls = 1000, per = '400d' }\nc = { calls = 5, per = '400d' }",
            ],
            [ALL, ALL, 5, 5],
        )
    },
    Change {
        counted: 2,
        ..row(
            "removed and added again",
            [
                "a = { calls = 1000, per = '400d' }\nc = { calls = 5, per = '400d' }",
                "a = { calls = 1000, per = '400d' }",
                "a = { calls = 1000, per = '400d' }\nc = { calls = 5, per = '400d' }",
            ],
            [ALL, ALL, 5, 5],
        )
    },
    row(
        "removed",
        [
            "a = { calls = 15, per = '400d' }\nc = { calls = 5, per = '400d' }",
            "a = { calls = 15, per = '400d' }",
            "a = { calls = 15, per = '400d' }",
        ],
        [5, 15, 15, 15],
    ),
    row(
        "renamed",
        [
            "a = { calls = 15, per = '400d' }\nc = { calls = 5, per = '400d' }",
            "a = { calls = 15, per = '400d' }\nd = { calls = 5, per = '400d' }",
            "a = { calls = 15, per = '400d' }\nd = { calls = 5, per = '400d' }",
        ],
        [5, 10, 10, 10],
    ),
    row(
        "another period",
        [
            "l = { calls = 6, per = '400d' }",
            "l = { calls = 6, per = '300d' }",
            "l = { calls = 6, per = '200d' }",
        ],
        [6, 6, 6, 6],
    ),
    row(
        "another algorithm",
        [
            "l = { calls = 6, per = '400d', algorithm = 'fixed_window' }",
            "l = { calls = 6, per = '400d', algorithm = 'sliding_window' }",
            "l = { calls = 6, per = '400d', algorithm = 'sliding_log' }",
        ],
        [6, 6, 6, 6],
    ),
    Change {
        leases: true,
        ..row(
            "slots raised and lowered",
            [
                "l = { concurrency = 3, ttl = '1h' }",
                "l = { concurrency = 5, ttl = '1h' }",
                "l = { concurrency = 2, ttl = '1h' }",
            ],
            [3, 5, 5, 5],
        )
    },
];

/// A policy of the version's own name tells that a server has gone over to it.
fn policies(version: usize) -> String {
    let policies = CHANGES.iter().map(|change| {
        format!(
            "[policy.'reloaded {}'.limits]\n{}\n",
            change.case, change.versions[version]
        )
    });
    let mark = format!("[policy.version{version}.limits]\nl = {{ calls = 1, per = '1h' }}\n");
    policies.chain([mark]).collect()
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        CHANGES.iter().map(|change| Row {
            protocol: protocol.name,
            case: change.case,
        })
    });
    rows.collect()
}

/// What one row has counted so far.
struct Count<'a> {
    protocol: &'a Protocol,
    change: &'a Change,
    admitted: usize,
    trouble: Option<String>,
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let mut counts: Vec<_> = PROTOCOLS
        .iter()
        .flat_map(|protocol| CHANGES.iter().map(move |change| (protocol, change)))
        .map(|(protocol, change)| Count {
            protocol,
            change,
            admitted: 0,
            trouble: None,
        })
        .collect();
    let mut pair = Pair {
        servers: vec![house.server("reloaded", &policies(0), PATIENT).start()?],
    };
    let mut phase = |pair: &Pair, phase: usize, versions: &[usize]| {
        for count in &mut counts {
            let counted = count.during(pair, phase, versions);
            count.trouble = count.trouble.take().or(counted.err());
        }
    };
    phase(&pair, 0, &[0]);
    goes_over(&pair.servers[0], 1)?;
    if house.store.servers > 1 {
        let second = house.server_at(1, "reloaded", &policies(1), PATIENT);
        pair.servers.push(second.start()?);
    }
    phase(&pair, 1, &[1, 1]);
    goes_over(&pair.servers[0], 2)?;
    phase(&pair, 2, &[2, 1]);
    if let Some(second) = pair.servers.get(1) {
        goes_over(second, 2)?;
    }
    phase(&pair, 3, &[2, 2]);
    for count in counts {
        report.note(count.protocol.name, count.change.case, count.result());
    }
    Ok(())
}

fn goes_over(server: &Server, version: usize) -> Result<(), String> {
    server.reload(&policies(version))?;
    let mut observer = Http::connect(server.http)?;
    let mark = Call::of(Verb::Policy, &format!("version{version}"), "");
    until("it has read its file anew", PATIENCE, || {
        Ok(observer.ask(&mark)?.word == Word::Done)
    })
}

impl Count<'_> {
    fn during(&mut self, pair: &Pair, phase: usize, versions: &[usize]) -> Result<(), String> {
        let policy = format!("reloaded {}", self.change.case);
        let key = self.protocol.name;
        let call = match self.change.leases {
            true => Call::of(Verb::Acquire, &policy, key),
            false => Call::of(Verb::Check, &policy, key),
        };
        let clients = (0..pair.servers.len()).map(|turn| pair.enter(self.protocol, turn));
        let mut clients: Vec<_> = clients.collect::<Result<_, _>>()?;
        for _ in 0..ASKS {
            for (client, version) in clients.iter_mut().zip(versions) {
                let answer = client.ask(&call)?;
                expect(answer.told(), || format!("in phase {phase}: {answer:?}"))?;
                let is_counted = *version >= self.change.counted;
                self.admitted += usize::from(is_counted && answer.admitted());
            }
        }
        let most = self.change.most[phase];
        expect(most == ALL || self.admitted == most, || {
            format!(
                "admitted {} by the end of phase {phase}, and not {most}",
                self.admitted
            )
        })
    }

    fn result(self) -> Result<(), String> {
        self.trouble.map_or(Ok(()), Err)
    }
}
