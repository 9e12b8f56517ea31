//! One key that a crowd at several servers asks at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::common::{expect, in_each_protocol};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report};
use crate::stores::Store;
use crate::talk::{Call, Client, PROTOCOLS, Protocol, Verb, Word, used_of};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "hot",
    holds: "32 clients, half of them at each server, check one key at once, and settle or cancel leases of\n\
            it: exactly what the limits have is admitted, and counted as used, and each lease that was granted\n\
            can be ended.",
    rows: || in_each_protocol(CASE),
    concerns: |_: &Store, _| true,
    ask,
};

const CASE: &str = "32 clients, one key";

// What a bucket gives back is exact for as many leases at once as it has marks: a client that stands still
// holds one that is older than those. A window gives all of it back.
const POLICIES: &str = "
[policy.hot]
usage = '400d'
[policy.hot.limits]
calls = { calls = 500, per = '400d' }
units = { calls = 10000, per = '400d' }
[policy.leased.limits]
calls = { calls = 100, per = '400d', algorithm = 'first_use_window' }
running = { concurrency = 1000, ttl = '1h' }
";

/// So many clients,
const CLIENTS: usize = 32;
/// each of which checks so often,
const CHECKS: usize = 20;
/// and has so many leases.
const LEASES: usize = 5;

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("hot", POLICIES, PATIENT)?;
    for protocol in PROTOCOLS {
        report.note(protocol.name, CASE, crowd(&pair, protocol));
    }
    Ok(())
}

fn crowd(pair: &Pair, protocol: &Protocol) -> Result<(), String> {
    let clients = (0..CLIENTS).map(|turn| pair.enter(protocol, turn));
    let clients: Vec<_> = clients.collect::<Result<_, _>>()?;
    let (checked, kept) = (AtomicU64::new(0), AtomicU64::new(0));
    let result = thread::scope(|scope| {
        let asking = clients.into_iter().enumerate().map(|(nth, client)| {
            let (checked, kept) = (&checked, &kept);
            scope.spawn(move || one(client, (protocol.name, nth), checked, kept))
        });
        let asking: Vec<_> = asking.collect();
        let ended = asking.into_iter().map(|one| one.join());
        let ended = ended.map(|one| one.unwrap_or_else(|_| Err("it panics".to_owned())));
        ended.collect::<Result<Vec<()>, _>>()
    });
    result?;
    let (checked, kept) = (checked.into_inner(), kept.into_inner());
    expect(checked == 500, || {
        format!("{checked} of 500 calls were admitted")
    })?;
    let mut client = pair.enter(protocol, 0)?;
    let mut left = |policy: &str, limit: &str| -> Result<u64, String> {
        let peek = client.ask(&Call::of(Verb::Peek, policy, protocol.name))?;
        let left = peek.number(&format!("{limit}.remaining"));
        left.ok_or_else(|| format!("{limit} of {peek:?}"))
    };
    let units = left("hot", "units")?;
    expect(units == 10_000 - 500, || {
        format!("{units} of 10000 units are left")
    })?;
    let running = left("leased", "running")?;
    expect(running == 1_000, || {
        format!("{running} of 1000 slots are free")
    })?;
    let calls = left("leased", "calls")?;
    expect(calls + kept == 100, || {
        format!("{kept} of 100 calls were settled, and {calls} are left")
    })?;
    let usage = client.ask(&Call::of(Verb::Usage, "hot", protocol.name))?;
    let used = usage.number(&used_of(protocol.name, "calls"));
    expect(used == Some(500), || {
        format!("of 500 calls were used {usage:?}")
    })
}

/// Checks, and takes leases, of which every other is given back.
fn one(
    mut client: Box<dyn Client>,
    (key, nth): (&str, usize),
    checked: &AtomicU64,
    kept: &AtomicU64,
) -> Result<(), String> {
    for turn in 0..CHECKS {
        let answer = client.ask(&Call::of(Verb::Check, "hot", key))?;
        expect(answer.told(), || format!("a check is told {answer:?}"))?;
        checked.fetch_add(u64::from(answer.admitted()), Ordering::SeqCst);
        if turn >= LEASES {
            continue;
        }
        let answer = client.ask(&Call::of(Verb::Acquire, "leased", key))?;
        expect(answer.told(), || format!("a lease is told {answer:?}"))?;
        let Some(lease) = answer.lease.clone().filter(|_| answer.admitted()) else {
            continue;
        };
        let is_kept = (nth + turn) % 2 == 0;
        let verb = if is_kept { Verb::Settle } else { Verb::Cancel };
        let end = Call::of(verb, "leased", key).lease(&lease);
        let ended = client.ask(&end)?;
        expect(ended.word == Word::Done, || {
            format!("{verb:?} is told {ended:?}")
        })?;
        kept.fetch_add(u64::from(is_kept), Ordering::SeqCst);
    }
    Ok(())
}
