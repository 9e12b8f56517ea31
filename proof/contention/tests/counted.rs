//! Processes use limits of which usage is counted, and are killed all the time: what is counted is what
//! the limits have taken, to the unit, and what the processes were told of.

mod node;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use tidegate_conformance::dynamodb_server::DynamodbServer;
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::redis_server::RedisServer;
use tidegate_conformance::with_options;

use node::Node;

const PROCESSES: u64 = 4;
/// So many processes are killed at least, and until some of each set is used for sure.
const KILLS: u64 = 24;
const SETS: usize = 5;

enum Line {
    /// It may use so much of a set.
    Asks(String, u64),
    /// It has used so much of it.
    Used(String, u64),
    /// Of a set and a limit: what is taken, and what is counted.
    Told([String; 2], [u64; 2]),
}

fn line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse().ok();
    let name = |at: usize| words.get(at).map(|word| (*word).to_owned());
    match *words.first()? {
        "asks" => Some(Line::Asks(name(1)?, number(2)?)),
        "used" => Some(Line::Used(name(1)?, number(2)?)),
        "told" => Some(Line::Told([name(1)?, name(2)?], [number(3)?, number(4)?])),
        _ => None,
    }
}

/// What processes have said of each set: used for sure, and perhaps beside that.
#[derive(Default)]
struct Ledger(BTreeMap<String, [u64; 2]>);

impl Ledger {
    /// Of how many sets some is used for sure.
    fn used(&self) -> usize {
        self.0.values().filter(|[surely, _]| *surely > 0).count()
    }

    fn add(&mut self, lines: &[Line]) {
        let mut asked = None;
        for line in lines {
            match line {
                Line::Asks(set, most) => asked = Some((set, most)),
                Line::Used(set, used) => {
                    asked = None;
                    self.0.entry(set.clone()).or_default()[0] += used;
                }
                Line::Told(..) => {}
            }
        }
        // It was killed before it was told.
        if let Some((set, most)) = asked {
            self.0.entry(set.clone()).or_default()[1] += most;
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "other processes go on for so long"
)]
fn is_counted(store: &str, url: &str) {
    let url = with_options(url, "deadline=60s");
    let start = |seed: u64| Node::start(("use", &url), &[("--seed", seed as i64)], line);
    let (mut nodes, mut ledger) = (Vec::new(), Ledger::default());
    nodes.extend((0..PROCESSES).map(start));
    let mut kills = 0..;
    while ledger.used() < SETS || kills.start < KILLS {
        let kill = kills.next().expect("no end");
        let at = (kill % PROCESSES) as usize;
        nodes[at].until_it_speaks();
        // At other points of what it does.
        thread::sleep(Duration::from_micros(40_000 + 7_919 * (kill % 11)));
        let killed = std::mem::replace(&mut nodes[at], start(PROCESSES + kill));
        ledger.add(&killed.kill());
    }
    nodes.iter().for_each(Node::until_it_speaks);
    nodes.into_iter().for_each(|node| ledger.add(&node.kill()));
    let said = Node::start(("tell-use", &url), &[], line).tell();
    ledger.add(&said);
    let mut told = 0;
    for line in &said {
        let Line::Told([set, limit], [taken, counted]) = line else {
            continue;
        };
        let [surely, perhaps] = ledger.0.get(set).copied().unwrap_or_default();
        println!("{store}, {set}, {limit}: {taken} taken, {counted} counted; {surely} told");
        assert_eq!(taken, counted, "{set}, {limit}");
        if limit == "units" {
            let all = surely..=surely + perhaps;
            assert!(all.contains(counted), "{set}: {counted}, not of {all:?}");
        }
        told += 1;
    }
    assert_eq!(told, 8, "units of five sets, calls of three");
}

#[test]
fn what_killed_processes_use_of_a_redis_is_counted_to_the_unit() {
    if let Some(server) = RedisServer::start() {
        is_counted("redis", &server.url());
    }
}

#[test]
fn what_killed_processes_use_of_a_postgresql_is_counted_to_the_unit() {
    if let Some(server) = PostgresServer::start() {
        is_counted("postgres", &server.url());
    }
}

#[test]
fn what_killed_processes_use_of_a_mariadb_is_counted_to_the_unit() {
    if let Some(server) = MariadbServer::start() {
        is_counted("mariadb", &server.url());
    }
}

#[test]
fn what_killed_processes_use_of_a_dynamodb_is_counted_to_the_unit() {
    if let Some(server) = DynamodbServer::start() {
        is_counted("dynamodb", &server.url());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_killed_processes_use_of_shared_memory_is_counted_to_the_unit() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    is_counted("shm", &format!("shm:counted?dir={}", dir.path().display()));
}
