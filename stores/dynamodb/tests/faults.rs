//! A DynamoDB that throttles, conflicts, fails and says nothing: what is asked is done once or
//! not at all, is told in time, and says what is over its limit.

mod support;

use std::time::Duration;

use support::counting::{Counting, Fault, Request};
use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::fixture::{Fixture, SECOND, hourly, machine_time, plan, slots};
use tidegate_dynamodb::{Clock, DynamodbStore, Options};
use tidegate_store::{Ending, StoreError};

const READS: &[&str] = &["GetItem", "TransactGetItems"];
const WRITES: &[&str] = &["PutItem", "TransactWriteItems"];

/// What says that too much is asked, and what is told of it.
const THROTTLES: [(Fault, &str); 5] = [
    (
        Fault::Refused(
            "ProvisionedThroughputExceededException",
            "The level of configured provisioned throughput for the table was exceeded",
        ),
        "provision more",
    ),
    (
        Fault::Refused(
            "ThrottlingException",
            "TableWriteKeyRangeThroughputExceeded: Throughput exceeds the partition's limit",
        ),
        "one key's root is asked more often than a partition takes",
    ),
    (
        Fault::Refused(
            "ThrottlingException",
            "TableWriteMaxOnDemandThroughputExceeded: above the table's maximum",
        ),
        "the table's own maximum on demand is reached",
    ),
    (
        Fault::Refused(
            "ThrottlingException",
            "Rate of requests exceeds the allowed",
        ),
        "more is asked of the table than it takes",
    ),
    (
        Fault::Refused(
            "RequestLimitExceeded",
            "Throughput exceeds the limit of the account",
        ),
        "the account's quota is reached",
    ),
];

/// A store whose commands may take so long, behind the proxy.
fn open(proxy: &Counting, deadline: Duration) -> DynamodbStore {
    let endpoint = format!("http://127.0.0.1:{}", proxy.port());
    let options = Options {
        deadline,
        ..support::options(&endpoint, Clock::Server)
    };
    DynamodbStore::open(support::TABLE, options).expect("an emulator")
}

/// How many requests were writes.
fn writes(proxy: &Counting) -> usize {
    let asked = proxy.asked().into_iter();
    asked.filter(Request::is_write).count()
}

/// One limit, whose key is one item; and two of two levels, whose changes are transactions.
struct Both {
    one: Fixture,
    two: Fixture,
    taken: u64,
}

impl Both {
    fn of(store: &DynamodbStore) -> Self {
        let rules = [(0, hourly(1_000)), (1, slots(1_000))];
        let one = Fixture::at(store, "one", plan(0, 1, &rules[..1]), machine_time());
        let two = Fixture::at(store, "two", plan(0, 2, &rules), machine_time());
        assert!(one.admits(b"k", &[1]) && two.admits(b"a/b", &[1, 0]));
        Self { one, two, taken: 1 }
    }

    /// Takes of each, with a lease that is given back, whatever befalls the writes.
    fn is_done_once(&mut self, proxy: &Counting, times: usize, fault: Fault) {
        // A transaction alone is in conflict with others.
        if fault != Fault::Conflict {
            proxy.next(times, WRITES, fault);
            assert!(self.one.admits(b"k", &[1]), "{fault:?}");
            assert_eq!(proxy.mend(), 0, "{fault:?}");
        } else {
            assert!(self.one.admits(b"k", &[1]));
        }
        proxy.next(times, WRITES, fault);
        let lease = self.two.lease(b"a/b", &[1, 1], 600 * SECOND).lease;
        assert_eq!(proxy.mend(), 0, "{fault:?}");
        self.taken += 1;
        let left = 1_000 - self.taken;
        assert_eq!(self.one.left(b"k"), [left], "{fault:?}");
        assert_eq!(self.two.left(b"a/b"), [left, 999], "{fault:?}");
        proxy.next(times, WRITES, fault);
        let id = lease.expect("it fits").id;
        self.two.end(b"a/b", id, Ending::Release).expect("held");
        assert_eq!(proxy.mend(), 0, "{fault:?}");
        assert_eq!(self.two.left(b"a/b"), [left, 1_000], "{fault:?}");
    }
}

#[test]
fn what_is_throttled_or_in_conflict_for_a_while_is_done_once() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy, support::DEADLINE);
    let mut both = Both::of(&store);
    for (fault, _) in THROTTLES {
        both.is_done_once(&proxy, 3, fault);
        proxy.next(3, READS, fault);
        assert!(!both.one.admits(b"k", &[1_000]), "{fault:?}");
        assert_eq!(proxy.mend(), 0, "{fault:?}");
    }
    both.is_done_once(&proxy, 3, Fault::Conflict);
}

/// A failure says nothing of whether it was done. It was, or it was not: in the end it is once.
#[test]
fn what_fails_before_or_behind_it_was_done_is_done_once() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy, support::DEADLINE);
    let mut both = Both::of(&store);
    for status in [500, 503] {
        for fault in [Fault::Failed(status), Fault::FailedBehind(status)] {
            both.is_done_once(&proxy, 2, fault);
        }
        proxy.next(2, READS, Fault::Failed(status));
        assert!(!both.one.admits(b"k", &[1_000]));
        assert_eq!(proxy.mend(), 0);
    }
}

/// A request that nobody answers has a third of the deadline; then it is made again.
#[test]
fn what_is_not_answered_is_asked_again_in_time_and_done_once() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy, Duration::from_secs(12));
    let mut both = Both::of(&store);
    for fault in [Fault::Silent, Fault::SilentBehind] {
        both.is_done_once(&proxy, 1, fault);
    }
}

/// A transaction that is asked for again is the same one, and known by the same token; the next
/// has another.
#[test]
fn a_transaction_is_asked_for_again_by_its_token() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy, support::DEADLINE);
    let both = Both::of(&store);
    let mut seen = Vec::new();
    for fault in [Fault::FailedBehind(500), Fault::Failed(503)] {
        proxy.forget();
        proxy.next(2, WRITES, fault);
        assert!(both.two.admits(b"a/b", &[1, 1]));
        let tokens: Vec<String> = proxy.asked().into_iter().map(|one| one.token).collect();
        assert_eq!(tokens.len(), 3, "{tokens:?}");
        assert!(!tokens[0].is_empty() && tokens.iter().all(|one| *one == tokens[0]));
        seen.push(tokens[0].clone());
    }
    assert_ne!(seen[0], seen[1]);
    assert_eq!(both.two.left(b"a/b")[0], 1_000 - 3);
}

/// Nothing was done, and it is said why and what to do, after a bounded number of requests.
#[test]
fn throttling_that_lasts_is_told_with_what_is_over_its_limit() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let store = open(&proxy, support::DEADLINE);
    let both = Both::of(&store);
    for (fault, advice) in THROTTLES {
        proxy.forget();
        proxy.next(usize::MAX, WRITES, fault);
        let told = both.one.take(b"k", &[1]);
        assert!(writes(&proxy) <= 25, "{}", writes(&proxy));
        let Err(StoreError::Busy(words)) = told else {
            panic!("{fault:?}: {told:?}");
        };
        assert!(words.contains(advice), "{words}");
        proxy.mend();
    }
    proxy.next(usize::MAX, WRITES, Fault::Conflict);
    let told = both.two.take(b"a/b", &[1, 1]);
    assert!(matches!(told, Err(StoreError::Busy(_))), "{told:?}");
    proxy.mend();
    assert_eq!(both.one.left(b"k"), [999], "nothing was done");
    assert_eq!(both.two.left(b"a/b")[0], 999, "nothing was done");
    assert!(both.one.admits(b"k", &[1]), "it goes on");
}

/// Nobody can say whether it was done: that is told, within the deadline, as an outage.
#[test]
fn failures_and_silence_that_last_are_told_in_time_as_an_outage() {
    let Some(server) = DynamodbServer::start() else {
        return;
    };
    let proxy = Counting::to(server.port());
    let deadline = Duration::from_secs(2);
    let store = open(&proxy, deadline);
    let both = Both::of(&store);
    for fault in [Fault::Failed(500), Fault::FailedBehind(503), Fault::Silent] {
        proxy.forget();
        proxy.next(usize::MAX, WRITES, fault);
        // Whatever never comes is not waited for: it ends.
        let told = both.one.take(b"k", &[1]);
        assert!(matches!(told, Err(StoreError::Unavailable(_))), "{told:?}");
        assert!(writes(&proxy) <= 5, "{}", writes(&proxy));
        proxy.mend();
    }
    let left = both.one.left(b"k")[0];
    assert!((998..=999).contains(&left), "once at most: {left}");
}
