//! PgBouncer before the server.

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::{Fixture, SECOND, machine_time, options, plan, slots};
use tempfile::TempDir;
use tidegate_conformance::postgres_server::PostgresServer;
use tidegate_conformance::{ports, skip};
use tidegate_postgres::{Clock, PostgresError, PostgresStore};
use tidegate_store::Ending;

/// Where Debian has it.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

/// A pooler that runs until this is dropped.
struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    /// `None`, and says so, if this machine has none.
    fn start(server: &PostgresServer, mode: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skip(
                "PgBouncer is not installed (Debian: pgbouncer)",
                "TIDEGATE_REQUIRE_PGBOUNCER",
            );
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let port = ports::next_free().expect("a free port");
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={} user=tidegate\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = {mode}\ndefault_pool_size = 10\n",
            server.port()
        );
        let file = folder.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let id = Command::new("id").arg("-u").output().expect("id runs");
        let mut command = Command::new(PROGRAM);
        if id.stdout.trim_ascii() == b"0" {
            // It refuses to be root.
            let mut chown = Command::new("chown");
            let owned = chown.arg("-R").arg("postgres").arg(folder.path()).status();
            assert!(owned.expect("chown runs").success(), "the user postgres");
            command.args(["--user", "postgres"]);
        }
        let mut child = command
            .arg(&file)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("PgBouncer runs");
        let log = child.stderr.take().expect("its log");
        let mut lines = BufReader::new(log).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("process up")), "it starts");
        // What it says later is read to its end, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self {
            child,
            port,
            _folder: folder,
        })
    }

    fn open(&self) -> Result<PostgresStore, PostgresError> {
        let address = format!("postgres://tidegate@127.0.0.1:{}/postgres", self.port);
        PostgresStore::open(&address, options(Clock::Server))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The settings of the store's sessions went as `options`, which no PgBouncer passes on.
#[test]
fn session_pooling_serves_a_store_with_its_settings() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let Some(pooler) = Pooler::start(&server, "session") else {
        return;
    };
    let store = pooler.open().expect("a server");
    let fixture = Fixture::at(&store, "t", plan(0, 1, &[(0, slots(1))]), machine_time());
    let held = fixture
        .lease(b"k", &[1], 60 * SECOND)
        .lease
        .expect("it fits");
    assert!(fixture.lease(b"k", &[1], 60 * SECOND).lease.is_none());
    fixture.end(b"k", held.id, Ending::Release).expect("held");
    let lock = store.lock("one", std::time::Duration::from_secs(20));
    assert!(lock.expect("an answer").is_some());
}

#[test]
fn transaction_pooling_is_refused_with_what_to_do() {
    let Some(server) = PostgresServer::start() else {
        return;
    };
    let Some(pooler) = Pooler::start(&server, "transaction") else {
        return;
    };
    let refused = pooler.open().expect_err("no session lasts");
    assert_eq!(refused, PostgresError::Pooler);
    assert!(refused.to_string().contains("pool_mode = session"));
}
