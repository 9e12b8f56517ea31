//! The DynamoDB store against the suite, on an emulator that the tests share; or, if
//! `TIDEGATE_DYNAMODB_REGION` names a region, on AWS's own service there, by the credentials that
//! programs of AWS find. Then each test leaves a table `tidegate-suite-RUN-NUMBER`, to be deleted.

mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidegate::Store;
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::{Subject, differential, suite};
use tidegate_dynamodb::{Clock, DynamodbStore, Options};

/// Random commands in a run: each is a request or two.
const COMMANDS: usize = 20_000;

/// Random walks in a run, some hundred commands each.
const WALKS: u32 = 40;

/// The region of AWS whose DynamoDB is asked in the emulator's place.
const REGION: &str = "TIDEGATE_DYNAMODB_REGION";

/// One for all tests, for as long as one of them has it.
static SERVER: Mutex<Weak<DynamodbServer>> = Mutex::new(Weak::new());

/// Which DynamoDB is asked.
enum Service {
    Emulator(Arc<DynamodbServer>),
    Aws(String),
}

impl Service {
    fn open(&self, table: &str) -> Arc<dyn Store> {
        match self {
            Self::Emulator(server) => support::table(table, &server.endpoint(), Clock::Caller),
            Self::Aws(region) => {
                let options = Options {
                    region: Some(region.clone()),
                    clock: Clock::Caller,
                    deadline: support::DEADLINE,
                    ..Options::default()
                };
                Arc::new(DynamodbStore::open(table, options).expect("DynamoDB of AWS"))
            }
        }
    }
}

fn service() -> Option<Service> {
    if let Ok(region) = std::env::var(REGION) {
        return Some(Service::Aws(region));
    }
    let mut shared = SERVER.lock();
    let server = match shared.upgrade() {
        Some(server) => server,
        None => Arc::new(DynamodbServer::start()?),
    };
    *shared = Arc::downgrade(&server);
    Some(Service::Emulator(server))
}

/// Each test has a DynamoDB table of its own: what lists several roots passes all of it.
static TABLES: AtomicUsize = AtomicUsize::new(0);

fn subject(service: Service) -> Subject {
    let number = TABLES.fetch_add(1, Ordering::Relaxed);
    let table = format!("tidegate-suite-{}-{number}", std::process::id());
    Subject::opened_once(move || service.open(&table))
        .reads_no_ancestors()
        .with_random_commands(COMMANDS)
        .with_most_walks(WALKS)
}

/// The subject, or an end of the test where there is no emulator.
macro_rules! emulator {
    () => {
        match service() {
            Some(service) => subject(service),
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
