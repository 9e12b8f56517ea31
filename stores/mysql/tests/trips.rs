//! Round trips, counted by the server: each statement that reaches it is one, and
//! what a compound statement does is none.

mod support;

use support::{Fixture, hourly, machine_time, number, open, plan, rate, slots};
use tidegate_conformance::lineage;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_mysql::Clock;
use tidegate_store::Ending;
use tidegate_store::core::Rule;
use tidegate_store::definitions::MOST_ANCESTORS;

/// Statements that clients have sent since the server was started, this one too.
fn sent(server: &MariadbServer) -> u64 {
    number(server, "SHOW GLOBAL STATUS LIKE 'Questions'")
}

/// How many round trips `act` takes.
fn trips(server: &MariadbServer, act: impl FnOnce()) -> u64 {
    let before = sent(server);
    let between = sent(server);
    act();
    // Each look is as many statements as the one before it.
    sent(server) - between - (between - before)
}

fn of_a_take_and_a_lease(
    server: &MariadbServer,
    levels: usize,
    rules: &[(usize, Rule)],
) -> [u64; 2] {
    let store = open(server, Clock::Server);
    let name = format!("{levels} {}", rules.len());
    let fixture = Fixture::at(&store, &name, plan(0, levels, rules), machine_time());
    let amounts = vec![1; rules.len()];
    // The statements are prepared from here on, and the rows are there.
    for _ in 0..2 {
        assert!(fixture.admits(b"a/b/c", &amounts));
        assert!(
            fixture
                .lease(b"a/b/c", &amounts, 600_000_000)
                .lease
                .is_some()
        );
    }
    let take = trips(server, || assert!(fixture.admits(b"a/b/c", &amounts)));
    let lease = trips(server, || {
        assert!(
            fixture
                .lease(b"a/b/c", &amounts, 600_000_000)
                .lease
                .is_some()
        );
    });
    [take, lease]
}

/// One that loads and one that writes; with more than seven rows one more for each 32, in powers
/// of two.
#[test]
fn a_batch_of_one_root_is_two_round_trips() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let together = |levels, rules: &[(usize, Rule)], count, twice| {
        let name = format!("{levels} {count}");
        let fixture = Fixture::at(&store, &name, plan(0, levels, rules), machine_time());
        // The statements are prepared from here on, and the rows are there.
        for _ in 0..2 {
            assert_eq!(fixture.takes_together(count), count);
        }
        trips(&server, || assert_eq!(fixture.takes_together(count), twice))
    };
    assert_eq!(together(1, &[(0, rate(1, 10_000))], 256, 256), 2);
    assert_eq!(together(1, &[(0, rate(1, 10_000))], 512, 512), 4);
    let three = [(0, hourly(10_000)), (1, hourly(9)), (1, rate(1, 9))];
    assert_eq!(together(2, &three, 7, 7), 2);
    assert_eq!(together(2, &three, 200, 200), 2 + 7);
    // A refusal changes nothing: its transaction is ended while it is answered.
    let none = [(0, hourly(6)), (1, hourly(9))];
    assert!(together(2, &none, 3, 0) <= 2);
}

/// By the primary key, however many there are.
#[test]
fn a_definition_and_its_ancestors_are_one_round_trip() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    lineage::define(&store, "me");
    server.ask(
        "INSERT INTO tidegate_definitions (owner, name, body, version) \
         SELECT 'me', CONCAT('k', seq), 'v', 1 FROM seq_1_to_1000",
    );
    let read = || assert_eq!(lineage::read(&store, "me", &[0]).len(), 1 + MOST_ANCESTORS);
    // The statement is prepared from here on.
    read();
    let looked = || number(&server, "SHOW GLOBAL STATUS LIKE 'Rows_read'");
    let before = looked();
    assert_eq!(trips(&server, read), 1);
    assert!(looked() - before < 100, "{}", looked() - before);
}

#[test]
fn a_command_is_two_round_trips_whatever_its_limits_and_ancestors() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let one = [(0, rate(1, 99))];
    let five = [
        (0, rate(1, 99)),
        (0, rate(2, 99)),
        (0, hourly(99)),
        (0, slots(99)),
        (0, rate(7, 99)),
    ];
    let ancestors = [(0, rate(1, 99)), (1, hourly(99)), (2, slots(99))];
    assert_eq!(of_a_take_and_a_lease(&server, 1, &one), [2, 2]);
    assert_eq!(of_a_take_and_a_lease(&server, 1, &five), [2, 2]);
    assert_eq!(of_a_take_and_a_lease(&server, 3, &ancestors), [2, 2]);
}

#[test]
fn an_end_of_a_lease_is_two_round_trips_too() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, slots(3))]), machine_time());
    for _ in 0..3 {
        fixture.lease(b"k", &[1], 30_000_000);
    }
    fixture.end(b"k", 1, Ending::Release).expect("held");
    let ended = trips(&server, || {
        fixture.end(b"k", 2, Ending::Release).expect("held");
    });
    assert_eq!(ended, 2);
}
