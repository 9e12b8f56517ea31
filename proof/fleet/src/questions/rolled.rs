//! Two versions of a policy at once, as during a roll-out.

use super::common::{Work, at_once, expect, until};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{Call, Client, PROTOCOLS, Protocol, Verb};
use std::time::Duration;

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "rolled",
    holds: "While one server has the older policy and the other the newer one, both asked in turn\n\
            never admit more than the larger limit alone would.",
    rows,
    concerns: |store: &Store, _| store.servers > 1,
    ask,
};

/// How often each server is asked.
const ASKS: usize = 50;

/// A limit that ends is looked at for so long: its periods are of seconds.
const ENDED: Duration = Duration::from_secs(12);

/// A limit in two versions.
struct Roll {
    case: &'static str,
    old: &'static str,
    new: &'static str,
    asks: Asks,
}

#[derive(Clone, Copy, PartialEq)]
enum Asks {
    /// Checks, of which so many are admitted at most.
    Checks(usize),
    /// Leases, none of which ends.
    Leases(usize),
    /// Checks, of which some is admitted once the limit's time is over.
    Ends,
}

const fn row(case: &'static str, old: &'static str, new: &'static str, asks: Asks) -> Roll {
    Roll {
        case,
        old,
        new,
        asks,
    }
}

const ROLLS: &[Roll] = &[
    row(
        "bucket raised",
        "l = { calls = 20, per = '400d' }",
        "l = { calls = 40, per = '400d' }",
        Asks::Checks(40),
    ),
    row(
        "bucket lowered",
        "l = { calls = 40, per = '400d' }",
        "l = { calls = 20, per = '400d' }",
        Asks::Checks(40),
    ),
    row(
        "bucket, by leases",
        "l = { calls = 20, per = '400d' }",
        "l = { calls = 40, per = '400d' }",
        Asks::Leases(40),
    ),
    row(
        "bucket, of another period",
        "l = { calls = 20, per = '400d' }",
        "l = { calls = 20, per = '200d' }",
        Asks::Checks(20),
    ),
    row(
        "fixed window",
        "l = { calls = 20, per = '400d', algorithm = 'fixed_window' }",
        "l = { calls = 40, per = '400d', algorithm = 'fixed_window' }",
        Asks::Checks(40),
    ),
    row(
        "first-use window",
        "l = { calls = 20, per = '400d', algorithm = 'first_use_window' }",
        "l = { calls = 40, per = '400d', algorithm = 'first_use_window' }",
        Asks::Checks(40),
    ),
    row(
        "first-use window, of another length: it ends",
        "l = { calls = 5, per = '2s', algorithm = 'first_use_window' }",
        "l = { calls = 5, per = '3s', algorithm = 'first_use_window' }",
        Asks::Ends,
    ),
    row(
        "sliding window",
        "l = { calls = 20, per = '400d', algorithm = 'sliding_window' }",
        "l = { calls = 40, per = '400d', algorithm = 'sliding_window' }",
        Asks::Checks(40),
    ),
    row(
        "sliding log",
        "l = { calls = 20, per = '400d', algorithm = 'sliding_log' }",
        "l = { calls = 40, per = '400d', algorithm = 'sliding_log' }",
        Asks::Checks(40),
    ),
    row(
        "concurrency",
        "l = { concurrency = 20, ttl = '1h' }",
        "l = { concurrency = 40, ttl = '1h' }",
        Asks::Leases(40),
    ),
    row(
        "a bucket beside a window",
        "l = { calls = 20, per = '400d' }\nw = { calls = 30, per = '400d', algorithm = 'fixed_window' }",
        "l = { calls = 40, per = '400d' }\nw = { calls = 30, per = '400d', algorithm = 'fixed_window' }",
        Asks::Checks(30),
    ),
];

fn policies(of: fn(&Roll) -> &'static str) -> String {
    let policies = ROLLS
        .iter()
        .map(|roll| format!("[policy.'rolled {}'.limits]\n{}\n", roll.case, of(roll)));
    policies.collect()
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        ROLLS.iter().map(|roll| Row {
            protocol: protocol.name,
            case: roll.case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let versions = [policies(|roll| roll.old), policies(|roll| roll.new)];
    // The older policy with the program beside, which may be an older one, too.
    let servers = [1, 0].into_iter().zip(&versions);
    let start = |(turn, policies): (usize, &String)| {
        house.server_at(turn, "rolled", policies, PATIENT).start()
    };
    let servers = servers.map(start);
    let pair = Pair {
        servers: servers.collect::<Result<_, _>>()?,
    };
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for roll in ROLLS {
            let pair = &pair;
            let does = move || holds(pair, protocol, roll);
            work.push((protocol.name, roll.case, Box::new(does)));
        }
    }
    at_once(report, 4, work);
    Ok(())
}

fn holds(pair: &Pair, protocol: &Protocol, roll: &Roll) -> Result<(), String> {
    let mut both = [pair.enter(protocol, 0)?, pair.enter(protocol, 1)?];
    let policy = format!("rolled {}", roll.case);
    let call = match roll.asks {
        Asks::Leases(_) => Call::of(Verb::Acquire, &policy, protocol.name),
        _ => Call::of(Verb::Check, &policy, protocol.name),
    };
    match roll.asks {
        Asks::Checks(most) | Asks::Leases(most) => {
            let mut admitted = [0, 0];
            for _ in 0..ASKS {
                for (client, admitted) in both.iter_mut().zip(&mut admitted) {
                    *admitted += usize::from(admits(&mut **client, &call)?);
                }
            }
            let all = admitted[0] + admitted[1];
            expect((1..=most).contains(&all), || {
                let [old, new] = admitted;
                format!(
                    "admitted {old} at the older and {new} at the newer, and not {most} at most"
                )
            })
        }
        Asks::Ends => {
            while admits(&mut *both[0], &call)? {}
            let mut turn = 0;
            until("its time is over, and something is admitted", ENDED, || {
                turn += 1;
                admits(&mut *both[turn % 2], &call)
            })
        }
    }
}

fn admits(client: &mut dyn Client, call: &Call) -> Result<bool, String> {
    let answer = client.ask(call)?;
    match answer.told() {
        true => Ok(answer.admitted()),
        false => Err(format!("{answer:?}")),
    }
}
