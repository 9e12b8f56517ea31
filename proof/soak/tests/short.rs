//! The same load for a short while, so that it finds what it should and nothing else. How
//! fast the machine is plays no part: nobody asks who was late, and by a clock that is
//! moved by hand nobody is.

mod faulty;

use std::sync::Arc;
use std::time::Duration;

use tidegate::Store;
use tidegate::{Clock, ManualClock};
use tidegate_soak::{Options, Outcome, run};

use faulty::{Fault, Faulty};

fn options(store: &str, seconds: u64, rate: u64) -> Options {
    Options {
        store: store.to_owned(),
        seconds,
        rate,
        picture: None,
    }
}

/// The load by a clock that stands still while anything is to be done.
fn by_hand(store: &Arc<dyn Store>, seconds: u64, rate: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let clock = ManualClock::default();
    let moved = clock.clone();
    runtime.block_on(async move {
        let hand = tokio::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(1));
            loop {
                tick.tick().await;
                moved.advance(Duration::from_millis(1));
            }
        });
        let options = options("memory:", seconds, rate);
        let outcome = run(&options, store, &clock.clock()).await;
        hand.abort();
        outcome.expect("a store that has room for it")
    })
}

fn memory() -> Arc<dyn Store> {
    tidegate_url::open("memory:").expect("a store").store
}

#[test]
fn in_memory_only_limits_refuse_and_nothing_grows() {
    let outcome = by_hand(&memory(), 30, 4_000);
    let [asked, granted, refused, _] = outcome.totals();
    assert_eq!(outcome.faults, (0, Vec::new()));
    assert_eq!((outcome.late, outcome.unsent), (0, 0));
    assert!(
        asked >= 120_000 && granted > 80_000 && refused > 1_000,
        "{outcome}"
    );
    assert!(outcome.to_string().contains("refused by"));
    // How much memory a test has belongs to those beside it, too; and of few asks, few
    // rows are looked at whether they can go.
    let flat = |name| outcome.flat.iter().find(|flat| flat.name == name);
    for name in ["leases held", "leases remembered", "asks that wait"] {
        assert!(
            flat(name).is_some_and(|flat| !flat.grows()),
            "{name}: {outcome}"
        );
    }
    assert!(
        flat("keys").is_some_and(|keys| keys.most < granted / 10),
        "{outcome}"
    );
}

#[test]
fn in_a_file_only_limits_refuse() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("file:{}", folder.path().join("soak").display());
    let store = tidegate_url::open(&url).expect("a store").store;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let options = options(&url, 3, 500);
    let outcome = runtime.block_on(run(&options, &store, &Clock::system()));
    let outcome = outcome.expect("a store that has room for it");
    assert_eq!(outcome.faults, (0, Vec::new()), "{outcome}");
    let file = outcome.samples.last().map(|sample| sample.file);
    assert!(file.is_some_and(|bytes| bytes > 0));
}

/// What is wrong with a store that does this, in the words of those who found it.
fn found(fault: Fault) -> (Outcome, String) {
    let store: Arc<dyn Store> = Arc::new(Faulty {
        store: memory(),
        fault,
    });
    let outcome = by_hand(&store, 5, 4_000);
    let told = outcome.faults.1.join("\n");
    (outcome, told)
}

#[test]
fn a_store_that_grants_more_than_there_is_is_found() {
    let (outcome, told) = found(Fault::Forgets);
    assert!(outcome.faults.0 > 0 && !outcome.holds(), "{outcome}");
    assert!(told.contains("are granted, of"), "{told}");
}

#[test]
fn a_store_that_refuses_what_there_is_is_found() {
    let (outcome, told) = found(Fault::ChargesTwice);
    assert!(outcome.faults.0 > 0 && !outcome.holds(), "{outcome}");
    assert!(told.contains("are refused where"), "{told}");
}
