//! Connections that are cut in mid-command: before a request, halfway through it, and
//! before its answer. Each request that a command makes is cut once in each way. It is
//! done as a whole or not at all, whoever was told of it; asked again it is done once;
//! and nobody waits for longer than the deadline.
//!
//! | room | holds |
//! |---|---|
//! | `sets` | limits at a server, and where a key of theirs stands |
//! | `verbs` | the commands |
//! | `told` | changes of definitions, and their events |

mod sets;
mod told;
mod verbs;

use std::time::Duration;

use tidegate::StoreError;
use tidegate::{Clock, Error};
use tidegate_conformance::{Beyond, Cut, Proxy, with_options};

use sets::{Leases, Seen, Sets};
use verbs::{LATER, USED, VERBS, Verb};

const DEADLINE: Duration = Duration::from_secs(10);

/// How much later a loaded machine may tell it.
const SLACK: Duration = Duration::from_secs(5);

/// No command makes so many requests, not even on a connection that is new.
const MOST: usize = 20;

/// So often all of it is tried, until each has been seen.
const ROUNDS: usize = 10;

/// So often it is asked again at most: another connection is made for it.
const RETRIES: usize = 30;

/// What a client opens whose way is cut.
fn hurried(url: &str) -> String {
    with_options(url, &format!("deadline={}s", DEADLINE.as_secs()))
}

/// How what was cut ended.
#[derive(Default, Debug)]
struct Tally {
    /// Nothing was done, and the caller was told that nothing is known.
    undone: usize,
    /// It was done, and the caller was not told.
    untold: usize,
    /// It was done, and the caller was told, by another connection.
    retried: usize,
}

/// A server, straight and by a way that is cut.
struct Bench<'s> {
    server: &'s Beyond,
    /// Whether its store finds out what has become of a write whose answer was lost.
    finds_out: bool,
    proxy: Proxy,
    straight: Sets,
    cut: Sets,
}

impl<'s> Bench<'s> {
    fn at(server: &'s Beyond, finds_out: bool) -> Self {
        let proxy = Proxy::to(server.port);
        let (from, to) = (server.port.to_string(), proxy.port().to_string());
        let way = server.url.replace(&from, &to);
        Self {
            server,
            finds_out,
            proxy,
            straight: Sets::at(&with_options(&server.url, "deadline=60s")),
            cut: Sets::at(&hurried(&way)),
        }
    }

    /// Each request of the command is cut, each in a try of its own.
    fn cuts(&self, verb: &Verb) {
        let key = |case: &str| format!("{} {case}", verb.name);
        let ask = |sets: &Sets, key: String| {
            let leases = self.straight.prepare(&key);
            (verb.act)(sets, &key, leases, USED).expect("an answer");
            self.straight.seen(&key)
        };
        // What it leaves where nothing is cut; and statements are prepared.
        let done = ask(&self.straight, key("straight"));
        ask(&self.cut, key("warm"));
        let mut tally = Tally::default();
        // What follows the definitions goes this way, too, and may be what is cut.
        for round in 0..ROUNDS {
            for cut in Cut::ALL {
                let tries = (1..=MOST).take_while(|request| {
                    let key = key(&format!("{round} {cut:?} {request}"));
                    self.proxy.cut_at(*request, cut);
                    Try::of(self, verb, &key, &done).run(&mut tally)
                });
                assert!((1..MOST).contains(&tries.count()), "{cut:?}");
            }
            if (tally.untold > 0 || self.finds_out) && tally.undone + tally.retried > 0 {
                break;
            }
        }
        let url = &self.server.url;
        println!("{url}: {}: {tally:?}", verb.name);
        match self.finds_out {
            true => assert_eq!(tally.untold, 0, "{}: it was not found out", verb.name),
            false => assert!(tally.untold > 0, "{}: no answer was lost", verb.name),
        }
        let others = tally.undone + tally.retried;
        assert!(others > 0, "{}: all was done", verb.name);
    }
}

/// One command, asked until it is answered.
struct Try<'b> {
    bench: &'b Bench<'b>,
    verb: &'b Verb,
    key: &'b str,
    leases: Leases,
    /// Where the key stood at first, and where the command leaves it.
    first: Seen,
    done: &'b Seen,
    now: Seen,
}

impl<'b> Try<'b> {
    fn of(bench: &'b Bench<'b>, verb: &'b Verb, key: &'b str, done: &'b Seen) -> Self {
        let leases = bench.straight.prepare(key);
        let first = bench.straight.seen(key);
        Self {
            bench,
            verb,
            key,
            leases,
            now: first.clone(),
            first,
            done,
        }
    }

    /// Where the key stands if it is done now.
    fn next(&self) -> Seen {
        let mut next = self.done.clone();
        if !self.verb.is_done_once {
            let used = |limit: usize| self.first.left[limit] - self.done.left[limit];
            next.left = std::array::from_fn(|limit| self.now.left[limit] - used(limit));
        }
        next
    }

    /// Asks. It ends in time, and is done as a whole or not at all; answers whether it
    /// was done, and whether that was told.
    fn ask(&mut self) -> (bool, bool) {
        let (clock, next) = (Clock::system(), self.next());
        let asked = clock.now();
        let told = (self.verb.act)(&self.bench.cut, self.key, self.leases, USED);
        let took = clock.now().since(asked).as_duration();
        let what = self.key;
        assert!(took < DEADLINE + SLACK, "{what}: {took:?}");
        let unknown = matches!(told, Err(Error::Store(StoreError::Unavailable(_))));
        assert!(told.is_ok() || unknown, "{what}: {told:?}");
        let (was, is) = (self.now.clone(), self.bench.straight.seen(self.key));
        let is_done = is.is_like(&next);
        assert!(is_done || is.is_like(&was), "{what}: {was:?}, then {is:?}");
        assert!(is_done || unknown, "{what} was said to be done: {is:?}");
        assert!(is.keeps_fences_of(&was), "{what}: {was:?}, then {is:?}");
        self.now = is;
        (is_done, told.is_ok())
    }

    /// Asks, and if that was cut again, until it is answered; `false` if it was not.
    fn run(mut self, tally: &mut Tally) -> bool {
        let answer = self.ask();
        if !self.bench.proxy.mend() {
            assert_eq!(answer, (true, true), "{}", self.key);
            return false;
        }
        match answer {
            (true, true) => tally.retried += 1,
            (true, false) => tally.untold += 1,
            (false, _) => tally.undone += 1,
        }
        let is_told = (0..RETRIES).any(|_| self.ask().1);
        assert!(is_told, "{}: nobody answers any more", self.key);
        if self.verb.is_done_once {
            // And late, and with other words.
            let (sets, key) = (&self.bench.cut, self.key);
            (self.verb.act)(sets, key, self.leases, LATER).expect("an answer");
            let late = self.bench.straight.seen(key);
            assert!(late.is_like(&self.now), "{key}: late, and {late:?}");
        }
        true
    }
}

fn is_done_as_a_whole_or_not(store: &Beyond) {
    is_done_as_a_whole(&Bench::at(store, false));
}

fn is_done_as_a_whole(bench: &Bench<'_>) {
    VERBS.iter().for_each(|verb| bench.cuts(verb));
}

#[test]
fn a_command_to_a_redis_that_is_cut_is_done_once_or_not_and_ends_in_time() {
    Beyond::redis().iter().for_each(is_done_as_a_whole_or_not);
}

#[test]
fn a_command_to_a_postgresql_that_is_cut_is_done_once_or_not_and_ends_in_time() {
    let server = Beyond::postgres();
    server.iter().for_each(is_done_as_a_whole_or_not);
}

#[test]
fn a_command_to_a_mariadb_that_is_cut_is_done_once_or_not_and_ends_in_time() {
    let server = Beyond::mariadb();
    server.iter().for_each(is_done_as_a_whole_or_not);
}

/// A write is known by a token or by its writer: whoever asks is told what has become of it.
#[test]
fn a_command_to_a_dynamodb_that_is_cut_is_done_once_and_told_in_time() {
    let server = Beyond::dynamodb();
    let benches = server.iter().map(|server| Bench::at(server, true));
    benches.for_each(|bench| is_done_as_a_whole(&bench));
}
