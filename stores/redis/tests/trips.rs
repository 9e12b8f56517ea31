//! Round trips, counted by the server's own MONITOR.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use support::{Fixture, ask, connect, hourly, machine_time, open, open_at, plan, rate, slots};
use tidegate_conformance::TableExt as _;
use tidegate_conformance::lineage;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_redis::Clock;
use tidegate_store::core::{Rule, Span};
use tidegate_store::definitions::MOST_ANCESTORS;
use tidegate_store::{Ending, Hours, Select, Verb};

/// A key that no script and no store has.
const MARK: &str = "how far the test has come";

/// What reaches the server over the wire, as it says itself.
struct Monitor {
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl Monitor {
    fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("a server");
        stream.write_all(b"MONITOR\r\n").expect("a command");
        let mut lines = BufReader::new(stream).lines();
        assert_eq!(lines.next().expect("a line").expect("a line"), "+OK");
        Self { lines }
    }

    /// The commands since the last time, without those that scripts made.
    fn commands(&mut self, server: &RedisServer) -> Vec<String> {
        let lines = self.lines(server).into_iter();
        lines.map(|words| words[0].clone()).collect()
    }

    /// Which functions were called since the last time.
    fn functions(&mut self, server: &RedisServer) -> Vec<String> {
        let calls = self.lines(server).into_iter();
        let calls = calls.filter(|words| words[0] == "FCALL");
        let name = |words: Vec<String>| words[1].rsplit('_').next().map(str::to_owned);
        calls.filter_map(name).collect()
    }

    /// The first two words of each command since the last time.
    fn lines(&mut self, server: &RedisServer) -> Vec<Vec<String>> {
        let mut connection = connect(server);
        let () = ask(&mut connection, &["SET", MARK, ""]);
        let lines = self.lines.by_ref().map(|line| line.expect("a line"));
        let lines = lines.take_while(|line| !line.contains(MARK));
        let commands = lines.filter(|line| !line.contains(" lua]"));
        let words = |line: String| {
            let words = line.split('"').skip(1).step_by(2);
            words.take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let commands = commands.map(words).filter(|words| !words.is_empty());
        // A process looks after its limits once a second, whatever is asked.
        let beside = ["CLIENT", "HEXISTS"];
        commands
            .filter(|words| !beside.contains(&words[0].as_str()))
            .collect()
    }
}

fn taken(server: &RedisServer, levels: usize, rules: &[(usize, Rule)]) -> Vec<String> {
    let store = open(server, Clock::Server);
    let name = format!("{levels} {}", rules.len());
    let fixture = Fixture::at(&store, &name, plan(0, levels, rules), machine_time());
    let amounts = vec![1; rules.len()];
    // Whatever scripts there are, they are known from here on.
    assert!(fixture.admits(b"a/b/c", &amounts));
    fixture.left(b"a/b/c");
    let mut monitor = Monitor::start(server);
    assert!(fixture.admits(b"a/b/c", &amounts));
    assert!(
        fixture
            .lease(b"a/b/c", &amounts, 600_000_000)
            .lease
            .is_some()
    );
    fixture.left(b"a/b/c");
    monitor.commands(server)
}

#[test]
fn a_command_is_one_round_trip_whatever_its_limits_and_ancestors() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let one = [(0, rate(1, 9))];
    let five = [
        (0, rate(1, 9)),
        (0, rate(2, 9)),
        (0, hourly(9)),
        (0, slots(9)),
        (0, rate(7, 9)),
    ];
    let ancestors = [(0, rate(1, 9)), (1, hourly(9)), (2, slots(9))];
    assert_eq!(taken(&server, 1, &one), ["FCALL"; 3]);
    assert_eq!(taken(&server, 1, &five), ["FCALL"; 3]);
    assert_eq!(taken(&server, 3, &ancestors), ["FCALL"; 3]);
}

#[test]
fn a_batch_of_one_root_is_one_round_trip_for_each_250() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let slow = |burst| (0, hourly(burst));
    let three = [slow(1_000), (1, hourly(9)), (1, rate(1, 9))];
    for (levels, rules) in [
        (1, &[(0, rate(1, 100_000))][..]),
        (1, &[slow(1_000), (0, rate(1, 100_000))]),
        (2, &three),
    ] {
        let name = format!("{levels} {}", rules.len());
        let fixture = Fixture::at(&store, &name, plan(0, levels, rules), machine_time());
        // Whatever functions there are, they are known from here on.
        assert_eq!(fixture.takes_together(2), 2);
        let mut monitor = Monitor::start(&server);
        assert_eq!(fixture.takes_together(1), 1);
        assert_eq!(fixture.takes_together(250), 250);
        assert_eq!(monitor.commands(&server), ["FCALL"; 2], "{name}");
        assert_eq!(fixture.takes_together(501), 501);
        assert_eq!(monitor.commands(&server), ["FCALL"; 3], "{name}");
    }
}

#[test]
fn a_change_of_limits_costs_a_batch_two_trips_more() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let mut fixture = Fixture::at(&store, "t", plan(0, 2, &[(1, hourly(2))]), machine_time());
    assert_eq!(fixture.takes_together(200), 200);
    fixture.plan = plan(1, 2, &[(1, hourly(3))]);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert_eq!(fixture.left(b"b"), []);
    let mut monitor = Monitor::start(&server);
    assert_eq!(fixture.takes_together(200), 200);
    assert_eq!(monitor.commands(&server), ["FCALL", "HMGET", "FCALL"]);
    assert_eq!(
        (fixture.takes_together(200), fixture.takes_together(200)),
        (200, 0)
    );
    assert_eq!(monitor.commands(&server), ["FCALL"; 2]);
}

#[test]
fn a_change_of_limits_costs_a_second_trip_once_for_each_key() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let mut fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[4]));
    fixture.plan = plan(1, 1, &[(0, hourly(7))]);
    fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    assert_eq!(fixture.left(b"other"), [7]);
    let mut monitor = Monitor::start(&server);
    assert_eq!(fixture.left(b"k"), [3]);
    assert_eq!(fixture.left(b"k"), [3]);
    let first = ["FCALL", "HMGET", "FCALL"].as_slice();
    assert_eq!(monitor.commands(&server), [first, &["FCALL"]].concat());
}

/// A way to the server on which no answer comes back before two calls have been sent, once that
/// is asked for. It is for one connection.
struct Gate {
    port: u16,
    holds: Arc<Holds>,
}

/// Whether no answer passes, and who is told when one may.
#[derive(Default)]
struct Holds(Mutex<bool>, Condvar);

impl Holds {
    fn set(&self, holds: bool) {
        *self.0.lock().expect("not poisoned") = holds;
        self.1.notify_all();
    }

    fn now(&self) -> bool {
        *self.0.lock().expect("not poisoned")
    }

    fn wait(&self) {
        let holds = self.0.lock().expect("not poisoned");
        let _passed = self
            .1
            .wait_while(holds, |holds| *holds)
            .expect("not poisoned");
    }
}

impl Gate {
    fn before(server: &RedisServer) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let there = ("127.0.0.1", server.port());
        let holds = Arc::<Holds>::default();
        let held = Arc::clone(&holds);
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let server = TcpStream::connect(there).expect("a server");
                pass(client, server, Arc::clone(&held));
            }
        });
        Self { port, holds }
    }
}

/// Carries bytes both ways until one of them ends.
fn pass(client: TcpStream, server: TcpStream, holds: Arc<Holds>) {
    let twin = |stream: &TcpStream| stream.try_clone().expect("a twin");
    let (mut from, mut to) = (twin(&client), twin(&server));
    let held = Arc::clone(&holds);
    thread::spawn(move || {
        let (mut bytes, mut sent) = ([0; 65_536], Vec::<u8>::new());
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if held.now() {
                sent.extend(&bytes[..count]);
                let calls = sent.windows(5).filter(|&word| word == b"FCALL").count();
                held.set(calls < 2);
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    });
    let (mut from, mut to) = (server, client);
    thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            holds.wait();
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    });
}

/// Its root is entered where usage is listed by, in the same trip: neither waits for the other's
/// answer.
#[test]
fn what_a_key_uses_first_is_counted_in_one_trip() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let gate = Gate::before(&server);
    let store = open_at(&format!("redis://127.0.0.1:{}", gate.port), Clock::Server);
    let day = Span::from_secs(86_400);
    let plan = Arc::unwrap_or_clone(plan(0, 1, &[(0, rate(1, 9))]));
    let plan = Arc::new(plan.counting_usage(Some(day)));
    let fixture = Fixture::at(&store, "t", plan, machine_time());
    // Whatever functions there are, they are known from here on.
    assert!(fixture.admits(b"a", &[1]));
    let mut monitor = Monitor::start(&server);
    gate.holds.set(true);
    assert!(fixture.admits(b"b", &[1]));
    assert!(!gate.holds.now());
    assert!(fixture.admits(b"b", &[1]));
    assert_eq!(monitor.functions(&server), ["root", "bucket", "bucket"]);
    let listing = fixture.listing(Select::All, 10, None);
    let used = fixture.table.list_usage(&listing, Hours::ALL);
    let used = used.expect("a page").items;
    let amount = |key: &[u8]| {
        let of = used.iter().filter(|used| used.key.bytes() == key);
        of.map(|used| used.amount).sum::<u64>()
    };
    assert_eq!((amount(b"a"), amount(b"b")), (1, 2));
}

#[test]
fn a_definition_and_its_ancestors_are_one_round_trip() {
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    lineage::define(&store, "me");
    let mut monitor = Monitor::start(&server);
    assert_eq!(lineage::read(&store, "me", &[0]).len(), 1 + MOST_ANCESTORS);
    assert_eq!(monitor.commands(&server), ["FCALL"]);
}

/// How many commands the server executed since its counts were reset, those of scripts
/// among them.
fn executed(server: &RedisServer) -> u64 {
    let said: String = ask(&mut connect(server), &["INFO", "commandstats"]);
    let calls = said.split("calls=").skip(1);
    let count = |calls: &str| calls.split(',').next().and_then(|count| count.parse().ok());
    calls.map(|calls| count(calls).unwrap_or(0)).sum()
}

/// A reset read and wrote every lease of its root, those that had ended among them: of
/// 300,000 it held the server for five seconds.
#[test]
fn a_reset_looks_at_no_lease() {
    const LEASES: usize = 400;
    let Some(server) = RedisServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let plan = plan(0, 2, &[(0, hourly(10_000)), (1, hourly(1_000))]);
    let mut fixture = Fixture::at(&store, "t", plan, machine_time());
    let lease = |fixture: &mut Fixture, key: &[u8]| {
        let lease = fixture.lease(key, &[1, 1], 600_000_000).lease;
        lease.expect("it fits").id
    };
    let before: Vec<_> = (0..LEASES).map(|_| lease(&mut fixture, b"a/b")).collect();
    let beside = lease(&mut fixture, b"a/c");
    assert_eq!(fixture.left(b"a/b"), [9_599, 600]);
    let () = ask(&mut connect(&server), &["CONFIG", "RESETSTAT"]);
    fixture.execute(b"a/b", Verb::Reset).expect("a reset");
    let executed = executed(&server);
    assert!(executed < 40, "{executed} commands");
    let after = lease(&mut fixture, b"a/b");
    assert_eq!(fixture.left(b"a/b"), [9_598, 999]);
    // What was taken of the key's own limit before is not given back after; what was of
    // its ancestor's is.
    for id in &before[..10] {
        fixture.end(b"a/b", *id, Ending::Cancel).expect("held");
    }
    assert_eq!(fixture.left(b"a/b"), [9_608, 999]);
    let until = machine_time() + Span::from_secs(900);
    let renew = Verb::Renew {
        id: before[10],
        until,
    };
    fixture.execute(b"a/b", renew).expect("held");
    fixture.execute(b"a", Verb::Reset).expect("a reset");
    fixture
        .end(b"a/b", before[10], Ending::Cancel)
        .expect("held");
    fixture.end(b"a/c", beside, Ending::Cancel).expect("held");
    fixture.end(b"a/b", after, Ending::Cancel).expect("held");
    assert_eq!(fixture.left(b"a/b"), [10_000, 1_000]);
    assert_eq!(fixture.left(b"a/c"), [10_000, 1_000]);
}
