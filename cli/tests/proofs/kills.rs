//! Killed at random moments under load, over all protocols: what was acknowledged is
//! there, nothing is lost or doubled.
//!
//! Each round a server is started on the same file and held to the ledgers of
//! the round before; then it is asked by five clients, and killed. 20 rounds
//! each; `TIDEGATE_KILLS=200` for more.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::RngExt;

use crate::client::Protocol::{self, Grpc, Http, Resp};
use crate::ledger::{Ledger, Worker};
use crate::reckoning::{Books, Reckoning};
use crate::server::{Server, Started, folder, until};

/// Their windows open with the first use and last for longer than any test.
const POLICIES: &str = "
[policy.spent.limits]
units = { budget = 1_000_000_000, per = '400d', algorithm = 'first_use_window' }

[policy.scarce.limits]
few = { budget = 40, per = '400d', algorithm = 'first_use_window' }

[policy.work.limits]
tokens = { budget = 1_000_000_000, per = '400d', algorithm = 'first_use_window' }
slots = { concurrency = 10_000, ttl = '1h' }
";

/// A client for each.
const CLIENTS: [Protocol; 5] = [Http, Http, Resp, Resp, Grpc];

#[test]
fn no_kill_loses_anything_acknowledged_if_always_synced() {
    kill_again_and_again("always", None);
}

#[test]
fn a_kill_loses_at_most_an_interval_if_synced_by_the_interval() {
    kill_again_and_again("interval=50ms", Some(Duration::from_millis(50)));
}

fn kills() -> usize {
    let given = std::env::var("TIDEGATE_KILLS").ok();
    given.map_or(20, |given| given.parse().expect("a number"))
}

fn kill_again_and_again(sync: &str, loss: Option<Duration>) {
    let folder = folder(POLICIES);
    let (mut books, mut ledgers) = (Books::default(), Vec::new());
    for round in 0..=kills() {
        let server = Started::on_file(folder.path(), sync).listening();
        let last = Reckoning {
            client: Http.enter(&server).expect("it listens"),
            books: &mut books,
            ledgers: std::mem::take(&mut ledgers),
            round: round.wrapping_sub(1),
            loss,
        };
        last.run();
        if round == kills() {
            break;
        }
        ledgers = loaded_and_killed(server, round);
        if round % 4 == 3 {
            killed_while_it_opens(folder.path(), sync);
        }
    }
    println!(
        "{sync}: {} kills, {} changes acknowledged ({} leases); {} lost, the oldest {:?} before the last",
        kills(),
        books.acknowledged,
        books.leases,
        books.lost,
        books.oldest
    );
    assert!(books.leases >= kills(), "hardly anything was done");
}

/// Asks a server over every protocol until it is killed.
fn loaded_and_killed(mut server: Server, round: usize) -> Vec<Ledger> {
    let (answered, killed) = (AtomicU64::new(0), AtomicBool::new(false));
    let (answered, killed) = (&answered, &killed);
    let worker = |(number, protocol): (usize, Protocol)| Worker {
        client: protocol.enter(&server).expect("it listens"),
        name: number.to_string(),
        round,
        answered,
        ledger: Ledger::default(),
    };
    let workers: Vec<_> = CLIENTS.into_iter().enumerate().map(worker).collect();
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .into_iter()
            .map(|worker| scope.spawn(move || until_killed(worker, killed)))
            .collect();
        let all = CLIENTS.len() as u64;
        until("an answer to each", || {
            answered.load(Ordering::SeqCst) == all
        });
        thread::sleep(Duration::from_millis(rand::rng().random_range(0..200)));
        killed.store(true, Ordering::SeqCst);
        server.kill();
        let ledgers = threads.into_iter().map(|thread| thread.join());
        ledgers.map(|ledger| ledger.expect("no panic")).collect()
    })
}

fn until_killed(worker: Worker<'_>, killed: &AtomicBool) -> Ledger {
    let (ledger, error): (_, io::Error) = worker.run();
    assert!(killed.load(Ordering::SeqCst), "while it lived: {error}");
    ledger
}

fn killed_while_it_opens(folder: &Path, sync: &str) {
    let mut opening = Started::on_file(folder, sync);
    thread::sleep(Duration::from_millis(rand::rng().random_range(0..80)));
    opening.kill();
}
