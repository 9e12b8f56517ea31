//! A server that fails: an error that says how, within the deadline; and what was
//! committed is there when it is back.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::{Fixture, SECOND, hourly, machine_time, number, open, plan, rate, slots};
use tidegate_conformance::mariadb_server::MariadbServer;
use tidegate_conformance::{Hole, Paused, TableExt as _};
use tidegate_mysql::{Clock, MysqlError, MysqlStore, Options};
use tidegate_store::core::Span;
use tidegate_store::{OwnedKey, StoreError, block_on};

const PASSWORD: &str = "hunter-2-is-secret";

fn options(millis: u64) -> Options {
    Options {
        deadline: Duration::from_millis(millis),
        ..Options::default()
    }
}

fn words(error: Result<impl Sized, StoreError>) -> String {
    match error {
        Err(StoreError::Unavailable(words)) => words,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("answered"),
    }
}

/// The beginning of what is told where a root's row is locked for too long.
const IN_TIME: &str = "timed out waiting for the row of this key's root, which other requests hold";

/// A server that answers, and does not decide: no outage, which a breaker would count.
fn busy(error: Result<impl Sized, StoreError>) -> &'static str {
    match error {
        Err(StoreError::Busy(words)) if words.starts_with(IN_TIME) => IN_TIME,
        Err(StoreError::Busy(words)) if words.contains("not answered in time") => "its share",
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("answered"),
    }
}

/// A MySQL was taken for what it is not, and nobody said so.
#[test]
fn a_server_that_is_no_mariadb_is_told_at_open() {
    let Some(server) = MariadbServer::start_with(&["--version=8.0.36"]) else {
        return;
    };
    let Err(MysqlError::Server(words)) = MysqlStore::open(&server.url(), options(20_000)) else {
        panic!("it is no MariaDB, as far as it says");
    };
    for part in ["expected a MariaDB", "`8.0.36", "redis://", "postgres://"] {
        assert!(words.contains(part), "{words}");
    }
    // Nothing was made there.
    assert!(server.ask("SHOW TABLES").is_empty());
}

#[test]
fn a_password_is_in_no_message() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let port = server.port();
    let addresses = [
        format!("mysql://root:{PASSWORD}@127.0.0.1:{port}/tidegate"),
        format!("mysql://user:{PASSWORD}@127.0.0.1:{port}/tidegate"),
        format!("mysql://user:{PASSWORD}@127.0.0.1:{port}"),
        format!("mysql://user:{PASSWORD}@127.0.0.1:{port}/tidegate?{PASSWORD}=1"),
        format!("http://user:{PASSWORD}@127.0.0.1:{port}/tidegate"),
        format!("mysql://user:{PASSWORD}@127.0.0.1:notaport/tidegate"),
        PASSWORD.to_owned(),
    ];
    for address in addresses {
        let error = MysqlStore::open(&address, options(20_000)).expect_err("refused");
        let said = format!("{error} {error:?}");
        assert!(!said.contains("hunter"), "{said}");
    }
    server.ask("CREATE USER one IDENTIFIED BY 'another'; GRANT ALL ON tidegate.* TO one");
    let address = format!("mysql://one:another@127.0.0.1:{port}/tidegate");
    let store = MysqlStore::open(&address, options(20_000)).expect("the right password");
    assert!(!format!("{store:?}").contains("another"));
}

#[test]
fn a_server_that_is_not_there_is_told_at_open() {
    // Port 1 of this machine: nobody listens, and nobody may without leave.
    let error = MysqlStore::open("mysql://root@127.0.0.1:1/tidegate", options(20_000));
    let Err(MysqlError::Server(words)) = error else {
        panic!("opened")
    };
    assert!(words.contains("cannot be reached"), "{words}");
}

#[test]
fn an_option_that_makes_no_sense_is_told_at_open() {
    let wrong = [
        Options {
            prefix: "a b".to_owned(),
            ..Options::default()
        },
        Options {
            deadline: Duration::ZERO,
            ..Options::default()
        },
        Options {
            connections: 0,
            ..Options::default()
        },
    ];
    for options in wrong {
        let error = MysqlStore::open("mysql://root@127.0.0.1:1/tidegate", options);
        assert!(matches!(error, Err(MysqlError::Option(_))));
    }
}

#[test]
fn a_paused_server_is_an_error_within_the_deadline_and_then_goes_on() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let quick = MysqlStore::open(&server.url(), options(3_000)).expect("a server");
    let fixture = Fixture::at(&quick, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let paused = Paused::new(server.pid());
    // More commands than there are connections: none is held up by another.
    for _ in 0..2 {
        let said = words(fixture.take(b"k", &[1]));
        assert!(said.contains("no answer"), "{said}");
    }
    drop(paused);
    // It decides again, by a store whose deadline a loaded machine keeps.
    let patient = open(&server, Clock::Server);
    let fixture = Fixture::at(&patient, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
}

/// What is answered is committed: whatever the instruction at which it is killed,
/// no more is granted than was free, and the fence goes on growing.
#[test]
fn what_was_decided_survives_a_killed_server_and_the_same_store_goes_on() {
    let Some(mut server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, hourly(20)), (0, slots(20))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    let mut last = 0;
    for round in 0..3 {
        for _ in 0..4 {
            let lease = fixture
                .lease(b"k", &[1, 1], 3_600_000_000)
                .lease
                .expect("free");
            assert!(lease.fence > last, "fences grow");
            last = lease.fence;
        }
        server.kill();
        let said = words(fixture.take(b"k", &[1, 0]));
        assert!(
            said.contains("reached") || said.contains("closed"),
            "{said}"
        );
        server.start_again();
        let held = 4 * (round + 1);
        assert_eq!(fixture.left(b"k"), [20 - held, 20 - held]);
    }
    fixture
        .end(b"k", 1, tidegate_store::Ending::Release)
        .expect("still held");
}

#[test]
fn connections_that_the_server_has_closed_are_replaced() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    for left in [8, 7, 6] {
        assert!(fixture.admits(b"k", &[1]));
        assert_eq!(fixture.left(b"k"), [left]);
        let others = "SELECT id FROM information_schema.processlist \
                      WHERE id <> connection_id() AND command = 'Sleep'";
        for id in server.ask(others) {
            server.ask(&format!("KILL {id}"));
        }
    }
}

/// A process that stands still in mid-command.
struct Holder(Child);

impl Holder {
    /// It has locked the row of key "k", of the first table.
    fn of_a_row(server: &MariadbServer) -> Self {
        let mut holder = Command::new("mariadb");
        holder.args(["--no-defaults", "--user=root", "--host=127.0.0.1"]);
        holder.args(["--protocol=tcp", "--unbuffered", "--batch", "tidegate"]);
        holder.arg("--execute").arg(
            "START TRANSACTION; SELECT 'held' FROM tidegate_rows \
             WHERE table_id = (SELECT MIN(id) FROM tidegate_tables) AND name = 'k' \
             FOR UPDATE; SELECT SLEEP(600)",
        );
        holder.arg(format!("--port={}", server.port()));
        let mut holder = holder.stdout(Stdio::piped()).spawn().expect("mariadb runs");
        let said = BufReader::new(holder.stdout.take().expect("its output"));
        let mut lines = said.lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "held"));
        Self(holder)
    }

    fn ends(mut self, server: &MariadbServer) {
        self.0.kill().expect("it is ours");
        self.0.wait().expect("it ends");
        let thread =
            "SELECT id FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
        for id in server.ask(thread) {
            server.ask(&format!("KILL {id}"));
        }
    }
}

/// It holds up its root, no other, and nobody beyond the deadline.
#[test]
fn who_holds_a_roots_row_holds_up_that_root_alone_and_not_beyond_the_deadline() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let quick = MysqlStore::open(&server.url(), options(3_000)).expect("a server");
    let patient = open(&server, Clock::Server);
    let limits = || plan(0, 1, &[(0, hourly(9))]);
    let fixture = Fixture::at(&quick, "t", limits(), machine_time());
    let slow = Fixture::at(&patient, "t", limits(), machine_time());
    assert!(slow.admits(b"k", &[1]) && slow.admits(b"other", &[1]));
    let holder = Holder::of_a_row(&server);
    assert_eq!(busy(fixture.take(b"k", &[1])), IN_TIME);
    assert!(slow.admits(b"other", &[1]));
    holder.ends(&server);
    assert!(slow.admits(b"k", &[1]));
}

/// Each was two trips, for which the row was locked.
#[test]
fn takes_of_one_key_that_come_while_others_are_under_way_are_decided_together() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let rules = [(0, hourly(40)), (0, rate(1, 99))];
    let fixture = Fixture::at(&store, "t", plan(0, 1, &rules), machine_time());
    assert!(fixture.admits(b"k", &[1, 1]));
    let holder = Holder::of_a_row(&server);
    let sent = || number(&server, "SHOW GLOBAL STATUS LIKE 'Questions'");
    let before = sent();
    let begun = fixture.takes_at_once(b"k", 50);
    holder.ends(&server);
    let admitted = begun.into_iter().map(|begun| {
        let reply = block_on(begun).expect("an answer");
        reply.verdict().expect("a verdict").admitted()
    });
    assert_eq!(admitted.filter(|&admitted| admitted).count(), 39);
    // Three times two trips, what prepares them, and what ends the holder.
    let sent = sent() - before;
    assert!(sent < 50, "{sent} statements for 50 takes");
}

/// The first root with something due that could not be locked ended every sweep: no other was
/// looked at, and no row that was spent was deleted, for as long as that was so.
#[test]
fn a_root_that_is_locked_keeps_no_other_from_being_swept() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let limits = || plan(0, 1, &[(0, slots(9))]);
    let long_ago = machine_time() - Span::from_secs(3_600);
    let earlier = open(&server, Clock::Caller);
    let fixture = Fixture::at(&earlier, "t", limits(), long_ago);
    for key in [b"k", b"y", b"z"] {
        assert!(fixture.lease(key, &[1], SECOND).lease.is_some());
    }
    let holder = Holder::of_a_row(&server);
    let store = MysqlStore::open(&server.url(), options(3_000)).expect("a server");
    let fixture = Fixture::at(&store, "t", limits(), machine_time());
    let kept = "SELECT COUNT(*) FROM tidegate_leases WHERE root <> 'k'";
    let is_swept = (0..3_000).any(|_| {
        fixture.left(b"another");
        number(&server, kept) == 0
    });
    assert!(is_swept, "what others have is looked at");
    holder.ends(&server);
}

/// Sixteen ask for one root, over eight connections. They took all, and were told that the
/// server is away, which opened the breaker for everybody.
#[test]
fn asks_for_one_locked_root_leave_connections_to_others_and_are_told_it_is_busy() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = MysqlStore::open(&server.url(), options(4_000)).expect("a server");
    let limits = || plan(0, 1, &[(0, hourly(9_999))]);
    let others = Fixture::at(&store, "t", limits(), machine_time());
    assert!(others.admits(b"k", &[1]) && others.admits(b"other", &[1]));
    let hot: Vec<_> = (0..16)
        .map(|_| Fixture::at(&store, "t", limits(), machine_time()))
        .collect();
    let holder = Holder::of_a_row(&server);
    let finished = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for fixture in &hot {
            let finished = &finished;
            scope.spawn(move || {
                busy(fixture.take(b"k", &[1]));
                finished.fetch_add(1, Ordering::SeqCst);
            });
        }
        // Each is told, and until the last one is, others are answered.
        while finished.load(Ordering::SeqCst) < hot.len() {
            assert!(others.admits(b"other", &[1]));
        }
    });
    holder.ends(&server);
    assert!(others.admits(b"k", &[1]));
}

/// A lock that is not granted in time is asked for again.
#[test]
fn a_lock_that_is_granted_late_is_asked_for_again_within_the_deadline() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = MysqlStore::open(&server.url(), options(8_000)).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    let holder = Holder::of_a_row(&server);
    let waits = || number(&server, "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'");
    let before = waits();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| fixture.admits(b"k", &[1]));
        while waits() < before + 2 {
            assert!(!asked.is_finished(), "one wait was all");
        }
        holder.ends(&server);
        assert!(asked.join().expect("it ends"));
    });
    assert_eq!(fixture.left(b"k"), [7]);
}

#[test]
fn a_read_only_server_is_named_as_one_and_admits_nothing() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    server
        .ask("CREATE USER one; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX ON tidegate.* TO one");
    let address = format!("mysql://one@127.0.0.1:{}/tidegate", server.port());
    let store = MysqlStore::open(&address, options(30_000)).expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
    server.ask("SET GLOBAL read_only = 1");
    let said = words(fixture.take(b"k", &[1]));
    assert!(said.contains("takes no writes"), "{said}");
    server.ask("SET GLOBAL read_only = 0");
    assert_eq!(fixture.left(b"k"), [8]);
}

#[test]
fn who_may_only_change_rows_opens_what_another_has_made() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let address = format!("mysql://one@127.0.0.1:{}/tidegate", server.port());
    server.ask("CREATE USER one; GRANT SELECT, INSERT, UPDATE, DELETE ON tidegate.* TO one");
    let refused = MysqlStore::open(&address, options(30_000));
    let Err(MysqlError::Server(said)) = refused else {
        panic!("opened without leave to make a table")
    };
    assert!(said.contains("grant"), "{said}");
    drop(open(&server, Clock::Server));
    let store = MysqlStore::open(&address, options(30_000)).expect("the tables are there");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(9))]), machine_time());
    assert!(fixture.admits(b"k", &[1]));
}

#[test]
fn tables_of_a_newer_version_are_left_alone() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    drop(open(&server, Clock::Server));
    server.ask("UPDATE tidegate_schema SET version = 99");
    let Err(MysqlError::Server(said)) = MysqlStore::open(&server.url(), options(30_000)) else {
        panic!("opened")
    };
    assert!(said.contains("newer"), "{said}");
}

/// They were taken for its own, and a table that they lack was not found when it was asked.
#[test]
fn tables_that_an_unreleased_build_has_made_are_refused() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    drop(open(&server, Clock::Server));
    for change in [
        "UPDATE tidegate_schema SET steps = '0123456789abcdef'",
        "ALTER TABLE tidegate_schema DROP steps",
    ] {
        server.ask(change);
        let Err(MysqlError::Server(said)) = MysqlStore::open(&server.url(), options(30_000)) else {
            panic!("opened after {change}")
        };
        assert!(said.contains("before that version was released"), "{said}");
    }
}

/// A server that had opened its sets before went on by their numbers: its key of 2 an hour
/// was admitted by another set's limit of 100, and used that up.
#[test]
fn a_set_that_was_opened_before_the_tables_were_made_anew_is_no_other_set() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let fixture = |store: &MysqlStore, name: &str, most| {
        Fixture::at(
            store,
            name,
            plan(0, 1, &[(0, hourly(most))]),
            machine_time(),
        )
    };
    let old = open(&server, Clock::Server);
    let before = fixture(&old, "mine", 2);
    assert!(before.admits(b"k", &[1]));
    server.ask("DROP DATABASE tidegate; CREATE DATABASE tidegate");
    let new = open(&server, Clock::Server);
    let others = fixture(&new, "others", 100);
    assert!(others.admits(b"k", &[1]));
    for key in [&b"k"[..], b"unseen"] {
        let told = before.take(key, &[1]).expect_err("it is gone");
        let told = told.to_string();
        assert!(told.contains("were made anew since"), "{told}");
    }
    assert_eq!(others.left(b"k"), [99]);
}

/// A name is the primary: after a failover it leads to another server, and the old one,
/// a replica now, keeps its connections. They were kept here, too, for ever.
#[test]
fn after_a_failover_a_name_is_followed_to_the_server_that_takes_writes() {
    let (Some(old), Some(new)) = (MariadbServer::start(), MariadbServer::start()) else {
        return;
    };
    for server in [&old, &new] {
        server.ask("CREATE USER one; GRANT ALL ON tidegate.* TO one");
    }
    let address = |port| format!("mysql://one@127.0.0.1:{port}/tidegate");
    let plan = plan(0, 1, &[(0, hourly(9))]);
    // What replication would have brought there: one set under one number.
    for (server, taken) in [(&old, 0), (&new, 4)] {
        let store = MysqlStore::open(&address(server.port()), options(30_000));
        let store = store.expect("a server");
        assert!(Fixture::at(&store, "t", plan.clone(), machine_time()).admits(b"k", &[taken]));
        for numbered in ["tables SET id", "plans SET table_id", "rows SET table_id"] {
            server.ask(&format!("UPDATE tidegate_{numbered} = 1"));
        }
    }
    let name = Hole::to(old.port());
    let store = MysqlStore::open(&address(name.port()), options(30_000)).expect("a server");
    let fixture = Fixture::at(&store, "t", plan, machine_time());
    assert!(fixture.admits(b"k", &[1]));
    old.ask("SET GLOBAL read_only = 1");
    let said = words(fixture.take(b"k", &[1]));
    assert!(said.contains("name the primary"), "{said}");
    name.lead_to(new.port());
    assert!(fixture.admits(b"k", &[4]), "by the new primary");
    assert_eq!(fixture.left(b"k"), [1]);
    old.ask("SET GLOBAL read_only = 0");
}

/// A version of the plan's was kept for each time that some key was given a limit of its own,
/// the last 4,096 of them: a key that was not asked meanwhile was an error from then on, as if
/// the store was away.
#[test]
fn a_key_is_read_however_often_others_were_given_limits_meanwhile() {
    let Some(server) = MariadbServer::start() else {
        return;
    };
    let store = open(&server, Clock::Server);
    let mut fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, hourly(10))]), machine_time());
    let mut version = 0;
    let mut give = |fixture: &mut Fixture, capacity| {
        version += 1;
        let variant = fixture.plan.variant(|_| Some(hourly(capacity)));
        let own = [(OwnedKey::new(b"other"), Arc::new(variant))];
        let plan = fixture.plan.going_on(version, own.into_iter().collect());
        fixture.plan = Arc::new(plan);
        fixture.table.adopt(&fixture.plan, fixture.now(), &[]);
    };
    give(&mut fixture, 11);
    give(&mut fixture, 12);
    assert!(fixture.admits(b"k", &[8]));
    give(&mut fixture, 13);
    // And thousands of times more.
    server.ask("UPDATE tidegate_tables SET newest = newest + 5000");
    server
        .ask("UPDATE tidegate_plans SET revision = revision + 5000 ORDER BY revision DESC LIMIT 1");
    for capacity in 20..40 {
        give(&mut fixture, capacity);
    }
    // A process that remembers none of them.
    let another = open(&server, Clock::Server);
    let fixture = Fixture::at(&another, "t", fixture.plan, machine_time());
    assert_eq!(fixture.left(b"k"), [2]);
    assert!(!fixture.admits(b"k", &[3]) && fixture.admits(b"k", &[2]));
    assert_eq!(fixture.left(b"other"), [39]);
    // Of versions of the same limits two are enough.
    assert_eq!(number(&server, "SELECT COUNT(*) FROM tidegate_plans"), 2);
}
