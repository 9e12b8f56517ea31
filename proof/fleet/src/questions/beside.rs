//! What is asked of one policy, and those who ask another.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::common::expect;
use crate::house::{House, PATIENT};
use crate::question::{Question, Report, Row};
use crate::server::Server;
use crate::stores::Store;
use crate::talk::{Call, Client, PROTOCOLS, Protocol, Verb};

/// See the [module](self).
pub const QUESTION: Question = Question {
    name: "beside",
    holds: "Who asks one policy is answered whatever is asked of another: cursors that nobody gave,\n\
            and one key that is slow (its row is locked in the database).",
    rows,
    concerns: |store: &Store, case| case != SLOW || store.lock.is_some(),
    ask,
};

const CURSORS: &str = "keys, with a cursor that nobody gave";
const SLOW: &str = "acquire, of a key that is slow";

const POLICIES: &str = "
[policy.busy.limits]
running = { concurrency = 1000, ttl = '1h' }
[policy.other.limits]
calls = { calls = 1000000, per = '1m' }
";

/// Who asks for the slow key is told within this time that it cannot be had, and asks again.
const IN_TURN: &str = "deadline=4s";

/// So many ask for the slow key at once: more than a store has connections.
const AT_ONCE: usize = 16;

/// Another policy is asked until they had so many answers,
const ANSWERS: usize = 3 * AT_ONCE;
/// and so often at least.
const OTHERS: usize = 300;

fn rows() -> Vec<Row> {
    let rows = PROTOCOLS.iter().flat_map(|protocol| {
        [CURSORS, SLOW].map(|case| Row {
            protocol: protocol.name,
            case,
        })
    });
    rows.collect()
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    for protocol in PROTOCOLS {
        // One for each case: what one leaves behind is not the other's.
        let server = |pair: &str, options: &str| house.server(pair, POLICIES, options).start();
        let name = protocol.name;
        let result = server(&format!("cursors-{name}"), PATIENT)
            .and_then(|server| cursors(protocol, &server));
        report.note(name, CURSORS, result);
        if house.store.lock.is_some() {
            let result = server(&format!("slow-{name}"), IN_TURN)
                .and_then(|server| slow(house, protocol, &server));
            report.note(name, SLOW, result);
        }
    }
    Ok(())
}

fn other_is_answered(client: &mut dyn Client, turn: usize) -> Result<(), String> {
    let answer = client.ask(&Call::of(Verb::Check, "other", &format!("k{turn}")))?;
    expect(answer.admitted(), || {
        format!("another policy is told {answer:?}")
    })
}

fn cursors(protocol: &Protocol, server: &Server) -> Result<(), String> {
    let (mut one, mut other) = (protocol.enter(server)?, protocol.enter(server)?);
    other_is_answered(&mut *other, 0)?;
    for round in 0..3 {
        for cursor in [walked(), vec![0; 12]] {
            let keys = Call {
                cursor: Some(cursor),
                ..Call::of(Verb::Keys, "busy", "")
            };
            (0..6).try_for_each(|_| one.ask(&keys).map(drop))?;
        }
        for turn in 0..5 {
            other_is_answered(&mut *other, 5 * round + turn)?;
        }
    }
    Ok(())
}

/// A cursor of the shape that a Redis store gives, of a walk that Redis never began.
fn walked() -> Vec<u8> {
    let mut bytes = vec![0x94];
    for text in ["tidegate:busy", "x1"] {
        bytes.push(0xa0 | text.len() as u8);
        bytes.extend(text.as_bytes());
    }
    bytes.extend([0x90, 0x90]);
    bytes
}

fn slow(house: &House, protocol: &Protocol, server: &Server) -> Result<(), String> {
    let lock = house.store.lock.ok_or("nothing can be locked")?;
    let acquire = Call::of(Verb::Acquire, "busy", "hot").wait(5_000);
    let mut other = protocol.enter(server)?;
    other.ask(&acquire)?;
    other_is_answered(&mut *other, 0)?;
    let clients = (0..AT_ONCE).map(|_| protocol.enter(server));
    let clients: Vec<_> = clients.collect::<Result<_, _>>()?;
    let (answers, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let locked = lock(&house.url(), "hot")?;
    let result = thread::scope(|scope| {
        for mut client in clients {
            let acquire = &acquire;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) && client.ask(acquire).is_ok() {
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let mut turn = 0;
        let mut result = Ok(());
        let enough = |turn| turn >= OTHERS && answers.load(Ordering::SeqCst) >= ANSWERS;
        while result.is_ok() && !enough(turn) {
            turn += 1;
            result = other_is_answered(&mut *other, turn % 50);
        }
        stop.store(true, Ordering::SeqCst);
        result
    });
    drop(locked);
    result
}
