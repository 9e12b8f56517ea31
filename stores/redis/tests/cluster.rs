//! A cluster one of whose masters is killed, or hangs.

mod support;

use std::time::Duration;

use redis::Connection;
use support::{Fixture, SECOND, ask, connect, hourly, machine_time, plan, slots};
use tidegate_conformance::redis_server::{RedisCluster, RedisServer};
use tidegate_conformance::{Cut, Paused, Proxy};
use tidegate_redis::{Options, RedisStore};
use tidegate_store::{Ending, StoreError, Verb};

/// As many as reach every master.
const KEYS: usize = 24;
const BUDGET: u64 = 5;

/// Asks until there is an answer. Before, nothing is known, and that is told within the
/// deadline.
fn asked<T>(mut ask: impl FnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..100_000 {
        match ask() {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("no replica took the master's place");
}

#[test]
fn after_a_cluster_failover_all_keys_are_decided_again_and_what_is_lost_is_bounded() {
    let Some(mut cluster) = RedisCluster::start_with_replicas() else {
        return;
    };
    let options = Options {
        deadline: Duration::from_secs(30),
        ..Options::default()
    };
    let store = RedisStore::open(&cluster.url(), options).expect("a cluster");
    let plan = plan(0, 1, &[(0, hourly(BUDGET)), (0, slots(2))]);
    let fixture = Fixture::at(&store, "t", plan, machine_time());
    let keys: Vec<_> = (0..KEYS).map(|key| format!("key {key}")).collect();
    let leases = keys.iter().map(|key| {
        let lease = fixture.lease(key.as_bytes(), &[BUDGET, 1], 600 * SECOND);
        lease.lease.expect("it fits")
    });
    let leases: Vec<_> = leases.collect();
    cluster.kill_a_master();
    for (key, lease) in keys.iter().zip(&leases) {
        let key = key.as_bytes();
        let verdict = asked(|| fixture.take(key, &[1, 0]));
        // Replication is asynchronous: what the replica had not seen is there again,
        // once. What another master keeps is not.
        let mut more = u64::from(verdict.admitted());
        while asked(|| fixture.take(key, &[1, 0])).admitted() {
            more += 1;
        }
        assert!(more <= BUDGET, "{more} more of {BUDGET}");
        let end = Verb::End {
            id: lease.id,
            ending: Ending::Release,
            remember: true,
        };
        match asked(|| match fixture.execute(key, end) {
            Err(StoreError::UnknownLease) => Ok(None),
            ended => ended.map(Some),
        }) {
            Some(_) => assert_eq!(more, 0, "a lease without what it took"),
            // A client of a cluster may send again what was cut, and take twice.
            None => assert!(more > 0, "what was taken without its lease"),
        }
        let after = fixture.lease(key, &[0, 1], 600 * SECOND).lease;
        let after = after.expect("a slot is free");
        assert!(after.fence > lease.fence, "fences go on growing");
    }
}

/// It closes no connection, and answers nothing: its replica takes its place, and who
/// has waited in vain asks there.
#[test]
fn a_master_that_hangs_is_given_up_for_its_replica() {
    let Some(cluster) = RedisCluster::start_with_replicas() else {
        return;
    };
    let options = Options {
        deadline: Duration::from_secs(2),
        ..Options::default()
    };
    let store = RedisStore::open(&cluster.url(), options).expect("a cluster");
    let plan = plan(0, 1, &[(0, hourly(BUDGET))]);
    let fixture = Fixture::at(&store, "t", plan, machine_time());
    let keys: Vec<_> = (0..KEYS).map(|key| format!("key {key}")).collect();
    for key in &keys {
        assert!(asked(|| fixture.take(key.as_bytes(), &[1])).admitted());
    }
    let _hangs = Paused::new(cluster.master());
    for key in &keys {
        let is_admitted = || {
            fixture
                .take(key.as_bytes(), &[1])
                .is_ok_and(|v| v.admitted())
        };
        assert!((0..30).any(|_| is_admitted()), "nobody answers for {key}");
    }
}

/// A slot of a cluster on its way from one master to another.
struct Moving {
    slot: String,
    from: (Connection, String),
    to: (Connection, String),
    port: String,
}

impl Moving {
    /// Begins to move the slot of `key`, which is there.
    fn begin(cluster: &RedisCluster, key: &str) -> Self {
        let url = cluster.url();
        let hosts = url.split("://").last().expect("hosts").split(',');
        let mut nodes: Vec<_> = hosts
            .map(|host| {
                let client = redis::Client::open(format!("redis://{host}")).expect("a URL");
                let mut node = client.get_connection().expect("a master");
                let id: String = ask(&mut node, &["CLUSTER", "MYID"]);
                (
                    node,
                    id,
                    host.rsplit(':').next().expect("a port").to_owned(),
                )
            })
            .collect();
        let slot: u16 = ask(&mut nodes[0].0, &["CLUSTER", "KEYSLOT", key]);
        let slot = slot.to_string();
        let has = |node: &mut Connection| {
            let keys: u64 = ask(node, &["CLUSTER", "COUNTKEYSINSLOT", &slot]);
            keys > 0
        };
        let at = nodes.iter_mut().position(|(node, ..)| has(node));
        let (from, from_id, _) = nodes.remove(at.expect("it is there"));
        let (to, to_id, port) = nodes.remove(0);
        let (mut from, mut to) = ((from, from_id), (to, to_id));
        let importing = ["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from.1];
        let () = ask(&mut to.0, &importing);
        let () = ask(
            &mut from.0,
            &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to.1],
        );
        Self {
            slot,
            from,
            to,
            port,
        }
    }

    /// Moves its keys, and ends.
    fn end(mut self) {
        let from = &mut self.from.0;
        let keys = ["CLUSTER", "GETKEYSINSLOT", &self.slot, "100"];
        let keys: Vec<String> = ask(from, &keys);
        for key in &keys {
            let migrate = ["MIGRATE", "127.0.0.1", &self.port, key, "0", "30000"];
            let () = ask(from, &migrate);
        }
        for node in [&mut self.to.0, from] {
            let () = ask(
                node,
                &["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.to.1],
            );
        }
    }
}

/// The client waited for longer than the deadline before it tried again, and the keys of
/// other slots were kept from the cluster by a breaker.
#[test]
fn a_key_whose_slot_is_being_moved_is_decided_when_it_is_there() {
    let Some(cluster) = RedisCluster::start() else {
        return;
    };
    let open = |seconds| {
        let options = Options {
            deadline: Duration::from_secs(seconds),
            ..Options::default()
        };
        RedisStore::open(&cluster.url(), options).expect("a cluster")
    };
    let (hasty, patient) = (open(3), open(60));
    let limits = || plan(0, 1, &[(0, hourly(BUDGET)), (0, slots(2))]);
    let fixture = |store| Fixture::at(store, "t", limits(), machine_time());
    let (hasty, patient) = (fixture(&hasty), fixture(&patient));
    // A machine that is slow enough says of any answer that it came too late, now and then.
    let ask = |key: &[u8]| {
        let mut answers = (0..10).map(|_| hasty.take(key, &[1, 0]));
        let late = |answer: &Result<_, _>| matches!(answer, Err(StoreError::Unavailable(_)));
        answers
            .find(|answer| !late(answer))
            .expect("an answer in time")
    };
    assert!(patient.admits(b"k", &[1, 0]) && patient.admits(b"other", &[1, 0]));
    let moving = Moving::begin(&cluster, "{tidegate:t:k}:r");
    let told = ask(b"k").expect_err("neither node decides");
    let is_told = matches!(&told, StoreError::Busy(words) if words.contains("moving the slot"));
    assert!(is_told, "{told:?}");
    let other = ask(b"other").expect("another slot");
    assert!(other.admitted());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| patient.take(b"k", &[1, 0]));
        let told = ask(b"k");
        assert!(matches!(told, Err(StoreError::Busy(_))), "{told:?}");
        moving.end();
        let told = asked.join().expect("an answer");
        let admitted = told.as_ref().is_ok_and(|told| told.admitted());
        assert!(admitted, "within its deadline: {told:?}");
    });
    assert_eq!(patient.left(b"k"), [BUDGET - 2, 2]);
    assert!(patient.lease(b"k", &[1, 1], SECOND).lease.is_some());
}

/// A cluster of one node that leads its clients over a way of the test's.
fn one_node() -> Option<(RedisServer, Proxy)> {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"])?;
    let port = server.url().rsplit_once(':').expect("a port").1.parse();
    let proxy = Proxy::to(port.expect("a number"));
    let (mut admin, port) = (connect(&server), proxy.port().to_string());
    let _: String = ask(
        &mut admin,
        &["CONFIG", "SET", "cluster-announce-ip", "127.0.0.1"],
    );
    let _: String = ask(
        &mut admin,
        &["CONFIG", "SET", "cluster-announce-port", &port],
    );
    let _: String = ask(&mut admin, &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    while !ask::<String>(&mut admin, &["CLUSTER", "INFO"]).contains("cluster_state:ok") {}
    Some((server, proxy))
}

/// The client of a cluster sent a command again whose connection was lost, up to sixteen
/// times: a take was charged twice, and a mutex was refused to whom it had been granted.
#[test]
fn a_command_whose_answer_was_lost_is_not_sent_to_a_cluster_again() {
    let Some((_server, proxy)) = one_node() else {
        return;
    };
    let address = format!("redis+cluster://127.0.0.1:{}", proxy.port());
    let store = RedisStore::open(&address, Options::default()).expect("a cluster");
    let fixture = Fixture::at(
        &store,
        "t",
        plan(0, 1, &[(0, hourly(1_000))]),
        machine_time(),
    );
    assert!(asked(|| fixture.take(b"k", &[1])).admitted());
    let (mut asks, mut lost) = (1, 0);
    for _ in 0..20 {
        proxy.cut_at(1, Cut::After);
        asks += 1;
        lost += u64::from(fixture.take(b"k", &[1]).is_err());
        proxy.mend();
        // Once it is reached again, it is known what was done.
        let left = asked(|| fixture.execute(b"k", Verb::Peek { amounts: &[] }));
        let left = left.decision().expect("a decision").standings[0].map(|one| one.remaining);
        let used = 1_000 - left.expect("one limit");
        assert!(used <= asks, "{used} are used after {asks} asks");
    }
    assert!(lost > 0, "an answer that is lost is told");
}
