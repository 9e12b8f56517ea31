//! The store stands still while a crowd asks it every verb: who asks something else is
//! answered meanwhile, and nobody is held for longer than the deadline.
#![expect(
    clippy::disallowed_methods,
    reason = "other processes are measured, in real time"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_conformance::Paused;

use super::common::{expect, in_each_protocol};
use super::paused::{HANGS, Hang, POLICIES, is_itself};
use crate::house::House;
use crate::question::{Question, Report};
use crate::server::Server;
use crate::stores::Store;
use crate::talk::{Call, Client, Http, PROTOCOLS, Protocol, Verb, Word};

/// A crowd before a store that stands still.
pub const QUESTION: Question = Question {
    name: "crowd",
    holds: "While the store stands still, 64 clients ask it every verb, one after the other: each has\n\
            an answer within the deadline, and `/healthz` and a policy on another store answer,\n\
            again and again, before the store goes on.",
    rows: || in_each_protocol(CASE),
    concerns: |store: &Store, _| store.is_apart(),
    ask,
};

const CASE: &str = "64 clients, every verb";

/// How many ask at once.
pub const CLIENTS: usize = 64;

/// The store's, as `?deadline=`.
const OPTIONS: &str = "deadline=2s";
/// What an answer may take by it: an ask that waits does so for half a second before.
pub const DEADLINE: Duration = Duration::from_millis(2_500);

/// On a machine however busy, an answer within the deadline has come by then.
const ANSWERED: Duration = Duration::from_secs(15);
/// And one that needs no store.
const BESIDE: Duration = Duration::from_secs(15);
/// So often those are asked for at least.
const LOOKS: usize = 20;

/// How long each answer took.
#[derive(Debug, Default)]
pub struct Seen {
    /// Of the crowd, each with the case.
    pub asked: Vec<(&'static str, Duration)>,
    /// Of `/healthz` at the same server.
    pub health: Vec<Duration>,
    /// Of a check at a server whose store is another.
    pub other: Vec<Duration>,
}

fn ask(house: &House, report: &Report<'_>) -> Result<(), String> {
    for protocol in PROTOCOLS {
        let seen = crowd(house, protocol, CLIENTS, Duration::ZERO);
        report.note(protocol.name, CASE, seen.map(drop));
    }
    Ok(())
}

/// So many clients ask, over this protocol, a store that stands still for `least`, and until
/// each has an answer and the others have theirs.
///
/// # Errors
/// Who has no answer in time, or one that makes no sense.
pub fn crowd(
    house: &House,
    protocol: &Protocol,
    clients: usize,
    least: Duration,
) -> Result<Seen, String> {
    let process = house.process().ok_or("no process")?;
    let server = house.server("crowd", POLICIES, OPTIONS).start()?;
    let mut beside = house.server("crowd", POLICIES, "");
    "memory:".clone_into(&mut beside.store);
    let other = beside.start()?;
    is_itself(&server)?;
    let hangs = HANGS.iter().filter(|hang| protocol.has(hang.verb));
    let crowd = Crowd {
        hangs: hangs.collect(),
        is_over: AtomicBool::new(false),
        answered: AtomicUsize::new(0),
        asked: Mutex::default(),
    };
    // They are connected before anything is held up.
    let connected = (0..clients).map(|_| protocol.enter(&server));
    let connected = connected.collect::<Result<Vec<_>, _>>()?;
    let paused = Paused::new(process);
    let begun = Instant::now();
    let (asked, health, other) = thread::scope(|scope| {
        let (crowd, server) = (&crowd, &server);
        let asking = connected.into_iter().enumerate();
        let asking: Vec<_> = asking
            .map(|(nth, client)| scope.spawn(move || crowd.ask(nth, client)))
            .collect();
        let is_enough = move |looks: usize| {
            let answered = crowd.answered.load(Ordering::SeqCst);
            looks >= LOOKS && answered >= clients && begun.elapsed() >= least
        };
        let health = scope.spawn(move || watch(server, &Call::of(Verb::Health, "", ""), is_enough));
        let check = Call::of(Verb::Check, "calls", "k");
        let other = watch(&other, &check, is_enough);
        let health = health
            .join()
            .unwrap_or_else(|_| Err("it panics".to_owned()));
        crowd.is_over.store(true, Ordering::SeqCst);
        // Whatever is under way ends sooner, and what was measured is measured.
        drop(paused);
        let asked = asking.into_iter().map(|one| one.join());
        let asked = asked.map(|one| one.unwrap_or_else(|_| Err("it panics".to_owned())));
        (asked.collect::<Result<Vec<()>, _>>(), health, other)
    });
    asked?;
    let asked = crowd
        .asked
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let (health, other) = (health?, other?);
    Ok(Seen {
        asked,
        health,
        other,
    })
}

struct Crowd {
    hangs: Vec<&'static Hang>,
    is_over: AtomicBool,
    /// Clients that have had their first answer.
    answered: AtomicUsize,
    asked: Mutex<Vec<(&'static str, Duration)>>,
}

impl Crowd {
    /// Asks every verb in turn, each client from another one on.
    fn ask(&self, nth: usize, mut client: Box<dyn Client>) -> Result<(), String> {
        client.patience(ANSWERED);
        let mut is_first = true;
        for hang in self.hangs.iter().cycle().skip(nth % self.hangs.len()) {
            if self.is_over.load(Ordering::SeqCst) {
                break;
            }
            let begun = Instant::now();
            let answer = client.ask(&(hang.call)());
            let took = begun.elapsed();
            if std::mem::take(&mut is_first) {
                // Whatever it is: who watches need not wait for it.
                self.answered.fetch_add(1, Ordering::SeqCst);
            }
            let answer = answer.map_err(|why| format!("{}: {why}", hang.case))?;
            let told = [Word::Unavailable, Word::Busy].contains(&answer.word);
            expect(answer.told() || told, || {
                format!("{}: {answer:?}", hang.case)
            })?;
            expect(took < ANSWERED, || format!("{} took {took:?}", hang.case))?;
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push((hang.case, took));
        }
        Ok(())
    }
}

/// Asks until that is enough.
fn watch(
    server: &Server,
    call: &Call,
    is_enough: impl Fn(usize) -> bool,
) -> Result<Vec<Duration>, String> {
    let mut seen = Vec::new();
    while !is_enough(seen.len()) {
        // On a connection of its own, as a probe.
        let begun = Instant::now();
        let mut client = Http::connect(server.http)?;
        client.patience(BESIDE);
        let answer = client.ask(call);
        let answer = answer.map_err(|why| format!("{:?} beside the crowd: {why}", call.verb))?;
        seen.push(begun.elapsed());
        expect(answer.told() || answer.word == Word::Done, || {
            format!("{answer:?}")
        })?;
        thread::park_timeout(PAUSE);
    }
    Ok(seen)
}

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
