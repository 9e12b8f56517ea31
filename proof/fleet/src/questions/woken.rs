//! A request that waits at one server is woken by what comes free at the other.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use super::common::{Work, at_once, expect, until};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{Call, Client, Http, PATIENCE, PROTOCOLS, Protocol, Verb};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "woken",
    holds: "A request that waits at one server is granted as soon as the other server is told\n\
            that there is room.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// How long a request waits: longer than its answer may take.
const WAIT: u64 = 50_000;

/// Who is woken has an answer by then, on however busy a machine.
const ANSWERED: Duration = Duration::from_secs(12);

/// What makes room.
struct Waker {
    case: &'static str,
    pooled: bool,
    wake: fn(&mut dyn Client, &str, &str, &str) -> Result<(), String>,
}

const fn row(
    case: &'static str,
    pooled: bool,
    wake: fn(&mut dyn Client, &str, &str, &str) -> Result<(), String>,
) -> Waker {
    Waker { case, pooled, wake }
}

const WAKERS: &[Waker] = &[
    row("release", false, |client, policy, key, lease| {
        end(client, Verb::Release, policy, key, lease)
    }),
    row("settle", false, |client, policy, key, lease| {
        end(client, Verb::Settle, policy, key, lease)
    }),
    row("cancel", false, |client, policy, key, lease| {
        end(client, Verb::Cancel, policy, key, lease)
    }),
    row("adjust", false, adjust),
    row("revoke", false, revoke),
    row("override", false, |client, policy, key, _| {
        let call = Call::of(Verb::SetOverride, policy, key);
        done(
            client,
            &call.amount("running", 2).measured("concurrency", ""),
        )
    }),
    row("release, of a pool", true, |client, policy, key, lease| {
        end(client, Verb::Release, policy, key, lease)
    }),
    row("settle, of a pool", true, |client, policy, key, lease| {
        end(client, Verb::Settle, policy, key, lease)
    }),
    row("cancel, of a pool", true, |client, policy, key, lease| {
        end(client, Verb::Cancel, policy, key, lease)
    }),
    row("adjust, of a pool", true, adjust),
    row("revoke, of a pool", true, revoke),
];

fn end(
    client: &mut dyn Client,
    verb: Verb,
    policy: &str,
    key: &str,
    lease: &str,
) -> Result<(), String> {
    done(client, &Call::of(verb, policy, key).lease(lease))
}

fn adjust(client: &mut dyn Client, policy: &str, key: &str, lease: &str) -> Result<(), String> {
    let call = Call::of(Verb::Adjust, policy, key).lease(lease);
    let answer = client.ask(&call.amount("running", 0))?;
    expect(answer.word == crate::talk::Word::Admitted, || {
        format!("less is refused: {answer:?}")
    })
}

fn revoke(client: &mut dyn Client, policy: &str, key: &str, _: &str) -> Result<(), String> {
    let listed = client.ask(&Call::of(Verb::Leases, policy, key))?;
    let handle = listed
        .lease
        .clone()
        .ok_or_else(|| format!("no lease: {listed:?}"))?;
    end(client, Verb::Revoke, policy, key, &handle)
}

fn done(client: &mut dyn Client, call: &Call) -> Result<(), String> {
    let answer = client.ask(call)?;
    expect(answer.word == crate::talk::Word::Done, || {
        format!("{:?}: {answer:?}", call.verb)
    })
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        WAKERS.iter().map(|waker| Row {
            protocol: protocol.name,
            case: waker.case,
        })
    });
    rows.collect()
}

/// A policy for each cell, so that a server tells how many wait for it.
fn policies() -> String {
    let mut text = String::new();
    for (place, _) in rows().iter().enumerate() {
        let limits = "limits.running = { concurrency = 1, ttl = '1h' }";
        let member = match WAKERS[place % WAKERS.len()].pooled {
            true => ".member.only",
            false => "",
        };
        text += &format!("[policy.wait{place}{member}]\n{limits}\n");
    }
    text
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("woken", &policies(), PATIENT)?;
    // Who waits for a pool may hold up others, which would be the others' cells then.
    for pooled in [false, true] {
        let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
        for (place, row) in rows().into_iter().enumerate() {
            let (protocol, waker) = (
                &PROTOCOLS[place / WAKERS.len()],
                &WAKERS[place % WAKERS.len()],
            );
            if waker.pooled == pooled {
                let pair = &pair;
                let does = move || is_woken(pair, protocol, waker, &format!("wait{place}"));
                work.push((row.protocol, row.case, Box::new(does)));
            }
        }
        at_once(report, work.len(), work);
    }
    Ok(())
}

fn is_woken(pair: &Pair, protocol: &Protocol, waker: &Waker, policy: &str) -> Result<(), String> {
    let mut holder = pair.enter(protocol, 0)?;
    let acquire = Call::of(Verb::Acquire, policy, "k").wait(WAIT);
    // With patience: it is the waker that is asked about here.
    let held = holder.ask(&acquire)?;
    let lease = held
        .lease
        .clone()
        .ok_or_else(|| format!("nothing is held: {held:?}"))?;
    let mut waiting = pair.enter(protocol, 1)?;
    let (tell, told) = sync_channel(1);
    thread::spawn(move || {
        // Nobody is left to tell once the servers have ended.
        let _ = tell.send(waiting.ask(&acquire));
    });
    waits(pair, policy)?;
    (waker.wake)(&mut *holder, policy, "k", &lease)?;
    let answer = told.recv_timeout(ANSWERED);
    let answer = answer.map_err(|_| format!("not woken within {ANSWERED:?}"))??;
    expect(answer.admitted(), || format!("woken, and {answer:?}"))
}

/// Until the second server says that somebody waits.
fn waits(pair: &Pair, policy: &str) -> Result<(), String> {
    let mut observer = Http::connect(pair.at(1).http)?;
    let line = format!("tidegate_waiting{{policy=\"{policy}\"}} 1");
    until("somebody waits at the second server", PATIENCE, || {
        let metrics = observer.ask(&Call::of(Verb::Metrics, "", ""))?;
        Ok(metrics.detail.contains(&line))
    })
}
