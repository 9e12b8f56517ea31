//! The DynamoDB store against the suite, on an emulator that the tests share.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::Store;
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::{Subject, differential, suite};
use tidegate_dynamodb::Clock;

/// Random commands in a run: each is a request or two.
const COMMANDS: usize = 20_000;

/// Random walks in a run, some hundred commands each.
const WALKS: u32 = 40;

/// One for all tests, for as long as one of them has it.
static SERVER: Mutex<Weak<DynamodbServer>> = Mutex::new(Weak::new());

fn server() -> Option<Arc<DynamodbServer>> {
    let mut shared = SERVER.lock();
    if let Some(server) = shared.upgrade() {
        return Some(server);
    }
    let server = Arc::new(DynamodbServer::start()?);
    *shared = Arc::downgrade(&server);
    Some(server)
}

/// Each test has a DynamoDB table of its own: what lists several roots passes all of it.
static TABLES: AtomicUsize = AtomicUsize::new(0);

fn subject(server: Arc<DynamodbServer>) -> Subject {
    let table = format!("suite{}", TABLES.fetch_add(1, Ordering::Relaxed));
    let open =
        move || -> Arc<dyn Store> { support::table(&table, &server.endpoint(), Clock::Caller) };
    Subject::opened_once(open)
        .with_random_commands(COMMANDS)
        .with_most_walks(WALKS)
}

/// The subject, or an end of the test where there is no emulator.
macro_rules! emulator {
    () => {
        match server() {
            Some(server) => subject(server),
            None => return,
        }
    };
}

suite!(emulator!());

/// It is the script in which a key's limits are lowered, nobody asks for the key, and a listing comes
/// when those of before would have forgotten it: it was left out.
#[test]
fn a_key_is_listed_by_the_limits_of_now_though_nobody_has_asked_for_it_since() {
    assert!(differential(&emulator!(), 25_769_803_792, 1) > 0);
}
