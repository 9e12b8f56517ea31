//! The store stands still: who asks has an answer within the deadline, and who asks
//! something else is not held up.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use tidegate_conformance::Paused;

use super::common::{expect, until};
use crate::house::House;
use crate::question::{Question, Report, Row};
use crate::server::Server;
use crate::stores::Store;
use crate::talk::{Answer, Call, Client, Http, PATIENCE, PROTOCOLS, Protocol, Verb, Word};

/// Within the deadline.
pub const DEADLINE: Question = Question {
    name: "deadline",
    holds: "While the store stands still, every verb has an answer within the store's deadline: that\n\
            the store cannot tell, or what needs no store. When it goes on, so does all else.",
    rows,
    concerns: |store: &Store, _| store.is_apart(),
    ask: within_the_deadline,
};

/// Nobody else.
pub const OTHERS: Question = Question {
    name: "others",
    holds: "While the store stands still, and a verb waits for it, `/healthz` answers, again and\n\
            again, before the verb does.",
    rows,
    concerns: |store: &Store, _| store.is_apart(),
    ask: others_are_answered,
};

pub(super) const POLICIES: &str = "
[policy.hung.limits]
tokens = { rate = 1000000, per = '1m' }
running = { concurrency = 100000, ttl = '1h' }
[policy.calls]
usage = '400d'
[policy.calls.limits]
calls = { calls = 1000000, per = '1m' }
[policy.pooled.member.eu.limits]
running = { concurrency = 100000, ttl = '1h' }
[policy.pooled.member.us.limits]
running = { concurrency = 100000, ttl = '1h' }
";

/// As `?deadline=`: what an answer may take, and on a busy machine so much more.
const SHORT: &str = "deadline=1s";
const ANSWERED: Duration = Duration::from_secs(10);

/// A deadline that comes long after `/healthz` has to answer.
const LONG: &str = "deadline=8s";
/// An answer that needs no store has come by then.
const HEALTHY: Duration = Duration::from_secs(5);
/// So many ask at once: more than a server has threads.
const AT_ONCE: usize = 4;
/// So often `/healthz` is asked meanwhile.
const HEALTH: usize = 5;

const UNKNOWN: &str = "0123456789abcdef0123456789abcdef";

/// A verb that asks the store, as it is asked.
pub(super) struct Hang {
    pub(super) case: &'static str,
    pub(super) verb: Verb,
    pub(super) call: fn() -> Call,
}

const fn row(case: &'static str, verb: Verb, call: fn() -> Call) -> Hang {
    Hang { case, verb, call }
}

fn end(verb: Verb) -> Call {
    Call::of(verb, "hung", "k").lease(UNKNOWN)
}

fn tokens(verb: Verb) -> Call {
    Call::of(verb, "hung", "k").amount("tokens", 1)
}

pub(super) const HANGS: &[Hang] = &[
    row("check", Verb::Check, || Call::of(Verb::Check, "calls", "k")),
    row("check-many", Verb::CheckMany, || batch(Verb::CheckMany)),
    row("check-stream", Verb::CheckStream, || {
        batch(Verb::CheckStream)
    }),
    row("auth", Verb::Auth, || Call::of(Verb::Auth, "calls", "k")),
    row("throttle", Verb::Throttle, || {
        Call::of(Verb::Throttle, "", "k")
    }),
    row("check, of a pool", Verb::Check, || {
        Call::of(Verb::Check, "pooled", "k").amount("running", 0)
    }),
    row("acquire", Verb::Acquire, || tokens(Verb::Acquire)),
    row("acquire, waits", Verb::Acquire, || {
        tokens(Verb::Acquire).wait(500)
    }),
    row("acquire, of a pool", Verb::Acquire, || {
        Call::of(Verb::Acquire, "pooled", "k")
    }),
    row("settle", Verb::Settle, || {
        end(Verb::Settle).amount("tokens", 1)
    }),
    row("release", Verb::Release, || end(Verb::Release)),
    row("cancel", Verb::Cancel, || end(Verb::Cancel)),
    row("renew", Verb::Renew, || Call {
        ttl: Some(1_000),
        ..end(Verb::Renew)
    }),
    row("adjust", Verb::Adjust, || {
        end(Verb::Adjust).amount("tokens", 1)
    }),
    row("debit", Verb::Debit, || Call::of(Verb::Debit, "calls", "k")),
    row("peek", Verb::Peek, || Call::of(Verb::Peek, "calls", "k")),
    row("forecast", Verb::Forecast, || {
        Call::of(Verb::Forecast, "calls", "k")
    }),
    row("reset", Verb::Reset, || {
        Call::of(Verb::Reset, "calls", "another")
    }),
    row("keys", Verb::Keys, || Call::of(Verb::Keys, "calls", "")),
    row("capacity", Verb::Capacity, || {
        Call::of(Verb::Capacity, "calls", "")
    }),
    row("leases", Verb::Leases, || {
        Call::of(Verb::Leases, "hung", "")
    }),
    row("revoke", Verb::Revoke, || {
        Call::of(Verb::Revoke, "hung", "k").lease("0123456789abcdef")
    }),
    row("override set", Verb::SetOverride, || {
        Call::of(Verb::SetOverride, "calls", "another")
            .amount("calls", 5)
            .measured("calls", "1m")
    }),
    row("override removed", Verb::RemoveOverride, || {
        Call::of(Verb::RemoveOverride, "calls", "third")
    }),
    row("override shown", Verb::GetOverride, || {
        Call::of(Verb::GetOverride, "calls", "third")
    }),
    row("overrides listed", Verb::ListOverrides, || {
        Call::of(Verb::ListOverrides, "calls", "third")
    }),
    row("entity created", Verb::CreateEntity, || {
        Call::entity(Verb::CreateEntity, "hung")
    }),
    row("entity shown", Verb::ShowEntity, || {
        Call::entity(Verb::ShowEntity, "shown")
    }),
    row("entity changed", Verb::ChangeEntity, || {
        Call::entity(Verb::ChangeEntity, "hung").word("tier", "gold")
    }),
    row("entity deleted", Verb::DeleteEntity, || {
        Call::entity(Verb::DeleteEntity, "deleted")
    }),
    row("entities listed", Verb::ListEntities, || {
        Call::entity(Verb::ListEntities, "")
    }),
    row("children listed", Verb::ListChildren, || {
        Call::entity(Verb::ListChildren, "hung")
    }),
    row("check, by an entity's id", Verb::Check, || {
        Call::of(Verb::Check, "calls", "asked").by_id()
    }),
    row("usage", Verb::Usage, || Call::of(Verb::Usage, "calls", "k")),
    row("audit", Verb::Audit, || Call::of(Verb::Audit, "calls", "k")),
    row("audit, of an entity", Verb::Audit, || {
        Call::of(Verb::Audit, "", "hung").by_id()
    }),
    row("namespace created", Verb::CreateNamespace, || {
        Call::of(Verb::CreateNamespace, "", "hung")
    }),
    row("namespace shown", Verb::ShowNamespace, || {
        Call::of(Verb::ShowNamespace, "", "shown")
    }),
    row("namespace deleted", Verb::DeleteNamespace, || {
        Call::of(Verb::DeleteNamespace, "", "deleted")
    }),
    row("namespace restored", Verb::RestoreNamespace, || {
        Call::of(Verb::RestoreNamespace, "", "restored")
    }),
    row("namespace purged", Verb::PurgeNamespace, || {
        Call::of(Verb::PurgeNamespace, "", "purged")
    }),
    row("namespaces listed", Verb::ListNamespaces, || {
        Call::of(Verb::ListNamespaces, "", "")
    }),
    row("check, in a namespace", Verb::Check, || {
        Call::of(Verb::Check, "calls", "k").within("asked")
    }),
    row("policies", Verb::Policies, || {
        Call::of(Verb::Policies, "", "")
    }),
    row("policies applied", Verb::Apply, || Call {
        text: format!("{POLICIES}[policy.more.limits]\ncalls = {{ calls = 5, per = '1h' }}\n"),
        ..Call::of(Verb::Apply, "", "")
    }),
    row("denied", Verb::Denied, || {
        Call::of(Verb::Denied, "calls", "")
    }),
    row("info", Verb::Info, || Call::of(Verb::Info, "", "")),
    row("health", Verb::Health, || Call::of(Verb::Health, "", "")),
    row("ready", Verb::Ready, || Call::of(Verb::Ready, "", "")),
    row("metrics", Verb::Metrics, || Call::of(Verb::Metrics, "", "")),
];

fn batch(verb: Verb) -> Call {
    Call {
        each: vec![Call::of(Verb::Check, "calls", "k"); 3],
        ..Call::of(verb, "", "")
    }
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        let hangs = HANGS.iter().filter(|hang| protocol.has(hang.verb));
        hangs.map(|hang| Row {
            protocol: protocol.name,
            case: hang.case,
        })
    });
    rows.collect()
}

/// A server for each protocol, so that none holds up another's cells.
fn servers(house: &House, options: &str) -> Result<Vec<(&'static Protocol, Server)>, String> {
    let servers = PROTOCOLS.iter().map(|protocol| {
        let server = house.server("paused", POLICIES, options).start()?;
        Ok((protocol, server))
    });
    servers.collect()
}

/// Until a server's store answers it: no circuit is open.
pub(super) fn is_itself(server: &Server) -> Result<(), String> {
    let mut observer = Http::connect(server.http)?;
    let mut answers = 0;
    until("the store answers again", PATIENCE, || {
        let answer = observer.ask(&Call::of(Verb::Check, "calls", "k"))?;
        answers = if answer.told() { answers + 1 } else { 0 };
        Ok(answers > 3)
    })
}

type Asked = (usize, Receiver<Result<Answer, String>>);

/// Asks on a thread of its own, which ends when the answer has come.
fn begin(mut client: Box<dyn Client>, hang: usize, patience: Duration) -> Asked {
    client.patience(patience);
    let (tell, told) = sync_channel(1);
    thread::spawn(move || {
        // Nobody may wait for it any more.
        let _ = tell.send(client.ask(&(HANGS[hang].call)()));
    });
    (hang, told)
}

fn within_the_deadline(house: &House, report: &Report<'_>) -> Result<(), String> {
    let process = house.process().ok_or("no process")?;
    let servers = servers(house, SHORT)?;
    for (protocol, server) in &servers {
        is_itself(server)?;
        let asked = HANGS
            .iter()
            .enumerate()
            .filter(|(_, hang)| protocol.has(hang.verb));
        // They are connected before anything is held up.
        let clients = asked.map(|(place, _)| Ok((place, protocol.enter(server)?)));
        let clients: Vec<_> = clients.collect::<Result<_, String>>()?;
        let paused = Paused::new(process);
        let asked = clients
            .into_iter()
            .map(|(place, client)| begin(client, place, ANSWERED));
        let asked: Vec<_> = asked.collect();
        let results = asked.into_iter().map(|(place, told)| {
            let told = told.recv().map_err(|_| "it panics".to_owned());
            (place, told.and_then(|told| told))
        });
        let results: BTreeMap<_, _> = results.collect();
        drop(paused);
        let again = is_itself(server);
        for (place, result) in results {
            let result = result.and_then(|answer| {
                // Too much at once is an answer, too; which it should be, others ask.
                let told = [Word::Unavailable, Word::Busy].contains(&answer.word);
                let is_answer = answer.told() || told;
                expect(is_answer, || format!("{answer:?}"))
            });
            report.note(protocol.name, HANGS[place].case, result.and(again.clone()));
        }
    }
    Ok(())
}

fn others_are_answered(house: &House, report: &Report<'_>) -> Result<(), String> {
    let process = house.process().ok_or("no process")?;
    let mut servers = servers(house, LONG)?;
    for (place, hang) in HANGS.iter().enumerate() {
        let concerned = servers
            .iter_mut()
            .filter(|(protocol, _)| protocol.has(hang.verb));
        let concerned: Vec<_> = concerned.collect();
        let mut clients = Vec::new();
        for (protocol, server) in &concerned {
            is_itself(server)?;
            let each = (0..AT_ONCE).map(|_| protocol.enter(server));
            clients.push(each.collect::<Result<Vec<_>, _>>()?);
        }
        let paused = Paused::new(process);
        let results: Vec<_> = thread::scope(|scope| {
            let asked = concerned.iter().zip(clients).map(|((_, server), clients)| {
                scope.spawn(move || is_answered_beside(clients, server, place))
            });
            let asked: Vec<_> = asked.collect();
            let results = asked.into_iter().map(|asked| asked.join());
            results
                .map(|result| result.unwrap_or_else(|_| Err("it panics".to_owned())))
                .collect()
        });
        drop(paused);
        for ((protocol, server), asked) in concerned.into_iter().zip(results) {
            let result = match asked {
                Ok(asked) => asked.into_iter().try_for_each(is_answered),
                // What it has begun is not waited for: the next case has a server of its own.
                Err(why) => {
                    *server = house.server("paused", POLICIES, LONG).start()?;
                    Err(why)
                }
            };
            report.note(protocol.name, hang.case, result);
        }
    }
    Ok(())
}

/// Asks, and `/healthz` beside it.
fn is_answered_beside(
    clients: Vec<Box<dyn Client>>,
    server: &Server,
    hang: usize,
) -> Result<Vec<Asked>, String> {
    let asked = clients
        .into_iter()
        .map(|client| begin(client, hang, PATIENCE));
    let asked = asked.collect();
    healthy(server).map(|()| asked)
}

/// In the end, with an answer of any kind.
fn is_answered((_, told): Asked) -> Result<(), String> {
    let answer = told.recv().map_err(|_| "it panics")??;
    expect(!matches!(answer.word, Word::Other(_)), || {
        format!("{answer:?}")
    })
}

/// `/healthz`, a few times, while others wait for the store.
#[expect(
    clippy::disallowed_methods,
    reason = "a server tells nobody that an ask has reached it"
)]
fn healthy(server: &Server) -> Result<(), String> {
    for _ in 0..HEALTH {
        thread::sleep(Duration::from_millis(60));
        let mut observer = Http::connect(server.http)?;
        observer.patience(HEALTHY);
        let answer = observer.ask(&Call::of(Verb::Health, "", ""));
        let answer = answer.map_err(|why| format!("the store stands still, and {why}"))?;
        expect(answer.word == Word::Done, || format!("{answer:?}"))?;
    }
    Ok(())
}
