//! A retry finds what it was given.

use std::time::Duration;

use tidegate_conformance::Paused;

use super::common::{Work, at_once, expect, until};
use crate::house::{House, PATIENT, Pair};
use crate::question::{Question, Report, Row};
use crate::stores::Store;
use crate::talk::{Answer, Call, Client, PATIENCE, PROTOCOLS, Protocol, Verb, Word};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "retried",
    holds: "Who asks again, by the same idempotency key or lease, at the same server or the other,\n\
            finds what was given; and nobody is told of a lease that is not held.",
    rows,
    concerns: |_: &Store, _| true,
    ask,
};

/// A retry is not queued behind others: it has its answer by then.
const SOON: Duration = Duration::from_secs(15);

/// As long as a request may wait.
const WAIT: u64 = 50_000;

/// Long enough to be granted what is free.
const BRIEF: u64 = 2_000;

const POLICIES: &str = "
[policy.wide.limits]
tokens = { rate = 100, per = '400d' }
running = { concurrency = 5, ttl = '1h' }
[policy.granted.limits]
tokens = { rate = 100, per = '400d' }
[policy.mutex.limits]
running = { concurrency = 1, ttl = '1h' }
[policy.pooled]
balancer = 'first_available'
[policy.pooled.member.eu.limits]
running = { concurrency = 1, ttl = '1h' }
[policy.pooled.member.us.limits]
running = { concurrency = 1, ttl = '1h' }
";

/// A retry, and what is held of it.
struct Retry {
    case: &'static str,
    verb: Verb,
    play: fn(&mut Both) -> Result<(), String>,
}

const fn row(case: &'static str, verb: Verb, play: fn(&mut Both) -> Result<(), String>) -> Retry {
    Retry { case, verb, play }
}

const RETRIES: &[Retry] = &[
    row("acquire", Verb::Acquire, |both| {
        let ask = both.acquire("wide").named("job").amount("tokens", 10);
        both.given_again(&ask)?;
        let left = both.ask(
            1,
            &Call::of(Verb::Peek, "wide", &both.key).amount("tokens", 1),
        )?;
        expect(left.number("tokens.remaining") == Some(90), || {
            format!("taken once: {left:?}")
        })
    }),
    row("acquire, of the only slot", Verb::Acquire, |both| {
        let ask = both.acquire("mutex").named("job");
        both.given_again(&ask)
    }),
    row("acquire, of a pool", Verb::Acquire, |both| {
        let ask = both.acquire("pooled").named("job");
        both.given_again(&ask)
    }),
    row(
        "acquire, of a pool whose first member came free",
        Verb::Acquire,
        |both| {
            let first = both.granted(0, &both.acquire("pooled"))?;
            let ask = both.acquire("pooled").named("job");
            let given = both.granted(0, &ask)?;
            both.ask(
                0,
                &Call::of(Verb::Release, "pooled", &both.key).lease(&first),
            )?;
            let again = both.granted(1, &ask)?;
            expect(given == again, || format!("{given} at first, and {again}"))
        },
    ),
    row(
        "acquire, after its lease was cancelled",
        Verb::Acquire,
        |both| {
            let ask = both.acquire("mutex").named("job");
            let given = both.granted(0, &ask)?;
            both.ask(0, &Call::of(Verb::Cancel, "mutex", &both.key).lease(&given))?;
            both.one_holds(&ask)
        },
    ),
    row(
        "acquire, after its lease has expired",
        Verb::Acquire,
        |both| {
            let mut ask = both.acquire("mutex").named("job");
            ask.ttl = Some(300);
            both.granted(0, &ask)?;
            // Somebody waits until it has.
            both.granted(1, &both.acquire("mutex"))?;
            ask.wait = Some(BRIEF);
            let again = both.ask(0, &ask)?;
            expect(!again.admitted(), || {
                format!("somebody else holds it, and {again:?}")
            })
        },
    ),
    row(
        "acquire, by a key that is too long",
        Verb::Acquire,
        |both| {
            let ask = both
                .acquire("wide")
                .named(&"x".repeat(256))
                .amount("tokens", 1);
            let said = both.ask(0, &ask)?;
            expect(said.word == Word::Invalid, || {
                format!("256 bytes are remembered: {said:?}")
            })
        },
    ),
    row(SPENT, Verb::Grant, Both::spend_grants),
    row("return", Verb::Return, |both| {
        both.ended_again(Verb::Return)
    }),
    row("settle", Verb::Settle, |both| {
        both.ended_again(Verb::Settle)
    }),
    row("release", Verb::Release, |both| {
        both.ended_again(Verb::Release)
    }),
    row("cancel", Verb::Cancel, |both| {
        both.ended_again(Verb::Cancel)
    }),
    row("adjust", Verb::Adjust, |both| {
        let ask = both.acquire("wide").amount("tokens", 1);
        let lease = both.granted(0, &ask)?;
        let adjust = Call::of(Verb::Adjust, "wide", &both.key)
            .lease(&lease)
            .amount("tokens", 5);
        let first = both.ask(1, &adjust)?;
        expect(first.word == Word::Admitted, || {
            format!("adjusted: {first:?}")
        })?;
        for turn in [0, 1] {
            let again = both.ask(turn, &adjust)?;
            let is_same = again.word == first.word && again.facts == first.facts;
            expect(is_same, || format!("{again:?} after {first:?}"))?;
        }
        Ok(())
    }),
    row("renew", Verb::Renew, |both| {
        let lease = both.granted(0, &both.acquire("mutex"))?;
        let mut renew = Call::of(Verb::Renew, "mutex", &both.key).lease(&lease);
        renew.ttl = Some(600_000);
        for turn in [1, 0, 1] {
            let renewed = both.ask(turn, &renew)?;
            expect(renewed.word == Word::Done, || {
                format!("renewed: {renewed:?}")
            })?;
        }
        both.ask(
            1,
            &Call::of(Verb::Release, "mutex", &both.key).lease(&lease),
        )?;
        let renewed = both.ask(0, &renew)?;
        expect(renewed.word == Word::Gone, || {
            format!("it has ended: {renewed:?}")
        })
    }),
];

/// Who asks again after a caller has gone, while the store was silent.
const GONE: &str = "acquire, after its caller went away";

/// Grants of both servers, each returned at the other, and by both again; and one whose client
/// was killed.
const SPENT: &str = "grant, spent and returned at the other server";

/// Both servers, and the key of one cell.
struct Both {
    clients: [Box<dyn Client>; 2],
    key: String,
}

impl Both {
    fn of(pair: &Pair, protocol: &Protocol, case: &str) -> Result<Self, String> {
        let mut both = Self {
            clients: [pair.enter(protocol, 0)?, pair.enter(protocol, 1)?],
            key: format!("{} {case}", protocol.name),
        };
        both.clients
            .iter_mut()
            .for_each(|client| client.patience(SOON));
        Ok(both)
    }

    fn ask(&mut self, turn: usize, call: &Call) -> Result<Answer, String> {
        self.clients[turn].ask(call)
    }

    fn acquire(&self, policy: &str) -> Call {
        Call::of(Verb::Acquire, policy, &self.key).wait(WAIT)
    }

    fn granted(&mut self, turn: usize, call: &Call) -> Result<String, String> {
        let answer = self.ask(turn, call)?;
        answer
            .lease
            .clone()
            .ok_or_else(|| format!("no lease: {answer:?}"))
    }

    /// The same lease, granted at the same instant, whoever is asked.
    fn given_again(&mut self, ask: &Call) -> Result<(), String> {
        let first = self.ask(0, ask)?;
        let (Some(given), Some(granted_at)) = (first.lease.clone(), first.granted_at.clone())
        else {
            return Err(format!("no lease with its instant: {first:?}"));
        };
        for turn in [1, 0, 1] {
            let again = self.ask(turn, ask)?;
            let is_same = again.lease.as_ref() == Some(&given);
            let says_so = again.facts.get("repeated").is_some_and(|is| is == "true");
            expect(is_same && says_so, || {
                format!("{given} at first, and {again:?} {:?}", again.lease)
            })?;
            self.granted_then(turn, &granted_at, again.granted_at.as_deref(), ask)?;
        }
        Ok(())
    }

    /// The instant of the first answer, in a later one and in a listing.
    fn granted_then(
        &mut self,
        turn: usize,
        first: &str,
        again: Option<&str>,
        ask: &Call,
    ) -> Result<(), String> {
        let leases = Call::of(Verb::Leases, &ask.policy, &self.key);
        let listed = self.ask(turn, &leases)?.granted_at;
        expect(
            again == Some(first) && listed.as_deref() == Some(first),
            || format!("granted at {first}, then at {again:?}; listed: {listed:?}"),
        )
    }

    /// All there is is granted once, and what is used of it is charged once, whoever is told of
    /// it, and how often. A client that is killed takes what it held along, and no more.
    fn spend_grants(&mut self) -> Result<(), String> {
        let (mut granted, mut sum) = (Vec::new(), 0);
        for turn in [0, 1].into_iter().cycle().take(6) {
            let mut grant = Call::of(Verb::Grant, "granted", &self.key).amount("tokens", 30);
            grant.ttl = Some(60_000);
            let answer = self.ask(turn, &grant)?;
            if let Some(lease) = answer.lease.clone() {
                sum += answer.number("tokens.granted").unwrap_or(0);
                granted.push(lease);
            }
        }
        expect(sum == 100 && granted.len() == 4, || {
            format!("{sum} of 100 by {} grants", granted.len())
        })?;
        let killed = granted.remove(0);
        for (place, lease) in granted.iter().enumerate() {
            let back = Call::of(Verb::Return, "granted", &self.key).lease(lease);
            let back = back.amount("tokens", 7);
            let mut first = self.ask((place + 1) % 2, &back)?;
            first.facts.insert("repeated".to_owned(), "true".to_owned());
            for turn in [0, 1] {
                let again = self.ask(turn, &back)?;
                expect(again.facts == first.facts, || {
                    format!("{first:?} at first, and {again:?}")
                })?;
            }
        }
        let peek = Call::of(Verb::Peek, "granted", &self.key).amount("tokens", 1);
        let left = self.ask(0, &peek)?.number("tokens.remaining");
        expect(left == Some(100 - 30 - 3 * 7), || {
            format!("three grants used 7 each, one of 30 is {killed}'s: {left:?} are left")
        })
    }

    /// The same end, whoever is told.
    fn ended_again(&mut self, verb: Verb) -> Result<(), String> {
        let lease = self.granted(0, &self.acquire("wide").amount("tokens", 10))?;
        let mut end = Call::of(verb, "wide", &self.key).lease(&lease);
        if matches!(verb, Verb::Settle | Verb::Return) {
            end = end.amount("tokens", 4);
        }
        let mut first = self.ask(0, &end)?;
        first.facts.insert("repeated".to_owned(), "true".to_owned());
        for turn in [1, 0] {
            let again = self.ask(turn, &end)?;
            expect(again.facts == first.facts, || {
                format!("{first:?} at first, and {again:?}")
            })?;
        }
        Ok(())
    }

    /// Of a mutex: who retries, or somebody else; not both, and not neither.
    fn one_holds(&mut self, ask: &Call) -> Result<(), String> {
        let again = self.ask(1, ask)?;
        let other = self.ask(0, &self.acquire("mutex").wait(BRIEF))?;
        expect(again.admitted() != other.admitted(), || {
            format!("of a mutex, who retries is told {again:?}, and somebody else {other:?}")
        })
    }
}

fn has(protocol: &Protocol, retry: &Retry) -> bool {
    protocol.has(retry.verb)
}

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        let retries = RETRIES.iter().filter(|retry| has(protocol, retry));
        let cases = retries.map(|retry| retry.case).chain([GONE]);
        cases.map(|case| Row {
            protocol: protocol.name,
            case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    let pair = house.pair("retried", POLICIES, PATIENT)?;
    let mut work: Vec<(_, _, Work<'_>)> = Vec::new();
    for protocol in PROTOCOLS {
        for retry in RETRIES.iter().filter(|retry| has(protocol, retry)) {
            let pair = &pair;
            let does = move || (retry.play)(&mut Both::of(pair, protocol, retry.case)?);
            work.push((protocol.name, retry.case, Box::new(does)));
        }
    }
    at_once(report, 4, work);
    for protocol in PROTOCOLS {
        report.note(
            protocol.name,
            GONE,
            after_its_caller_went(house, &pair, protocol),
        );
    }
    Ok(())
}

/// On a store that cannot be paused, its caller goes while it waits in line.
#[expect(
    clippy::disallowed_methods,
    reason = "what a server does for a caller who has gone tells nobody when it is done"
)]
fn after_its_caller_went(house: &House, pair: &Pair, protocol: &Protocol) -> Result<(), String> {
    let mut both = Both::of(pair, protocol, GONE)?;
    let ask = both.acquire("mutex").named("job");
    let mut caller = pair.enter(protocol, 0)?;
    caller.patience(Duration::from_millis(300));
    let holder = match house.process() {
        Some(process) => {
            let paused = Paused::new(process);
            let told = caller.ask(&ask);
            expect(told.is_err(), || {
                format!("the store is silent, and {told:?}")
            })?;
            drop((caller, paused));
            None
        }
        None => {
            let holder = both.granted(0, &both.acquire("mutex"))?;
            let told = caller.ask(&ask);
            expect(told.is_err(), || format!("somebody holds it, and {told:?}"))?;
            drop(caller);
            Some(holder)
        }
    };
    until("the store answers both servers", PATIENCE, || {
        let peek = Call::of(Verb::Peek, "wide", "another").amount("tokens", 1);
        Ok(both.ask(0, &peek)?.told() && both.ask(1, &peek)?.told())
    })?;
    std::thread::sleep(Duration::from_secs(1));
    if let Some(holder) = holder {
        both.ask(
            0,
            &Call::of(Verb::Release, "mutex", &both.key).lease(&holder),
        )?;
    }
    both.one_holds(&ask)
}
