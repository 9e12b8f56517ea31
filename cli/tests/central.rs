//! A server as the store of others: real processes, the central one killed, paused and cut off.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Limit, LimitSet, Request, Store};
use tidegate_conformance::Paused;

/// Of the central server: it has a policy that shares its name with one of the others.
const CENTRAL: &str = "[server]\noffers_store = true\n\
                       [policy.chat.limits]\nrpm = { calls = 3, per = '400d' }\n";

/// Of those whose store it is.
const EDGE: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '400d' }\n";

/// A server, killed when it is dropped.
struct Server {
    process: Child,
    http: SocketAddr,
    grpc: SocketAddr,
    folder: tempfile::TempDir,
}

impl Server {
    fn start(policy: &str, store: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tidegate.toml"), policy).expect("written");
        let (process, http, grpc) = run(folder.path(), store, "127.0.0.1:0");
        Self {
            process,
            http,
            grpc,
            folder,
        }
    }

    /// The central one: what it has answered outlives it.
    fn central(policy: &str) -> Self {
        Self::start(policy, "file:central.redb?sync=always")
    }

    /// One whose store this one's is; the deadline is long, as a disk may be slow.
    fn edge(&self, policy: &str) -> Self {
        Self::start(policy, &self.url("?deadline=20s"))
    }

    /// Its store.
    fn url(&self, options: &str) -> String {
        format!("tidegate://{}{options}", self.grpc)
    }

    fn kill(&mut self) {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
    }

    /// Killed, and started again where it was.
    fn kill_and_start_again(&mut self) {
        self.kill();
        let store = "file:central.redb?sync=always";
        let again = run(self.folder.path(), store, &self.grpc.to_string());
        (self.process, self.http, self.grpc) = again;
    }

    /// The status and body of the answer to a JSON request.
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.expect("a status"), body.to_owned())
    }

    fn check(&self) -> u16 {
        let body = "{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{\"rpm\":1}}";
        self.post("/v1/check", body).0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn run(folder: &Path, store: &str, grpc: &str) -> (Child, SocketAddr, SocketAddr) {
    announced(&mut serve(folder, store, grpc))
}

fn serve(folder: &Path, store: &str, grpc: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["serve", "--config", "tidegate.toml", "--store", store]);
    command.args(["--http", "127.0.0.1:0", "--grpc", grpc, "--resp", "off"]);
    command.current_dir(folder);
    command
}

/// Started, once it has said where it listens.
fn announced(command: &mut Command) -> (Child, SocketAddr, SocketAddr) {
    command.stdout(Stdio::piped());
    let mut process = command.spawn().expect("the program runs");
    let said = BufReader::new(process.stdout.take().expect("piped"));
    let mut lines = said.lines().map(|line| line.expect("text"));
    let mut address = |protocol: &str| {
        let line = lines.find(|line| line.trim_start().starts_with(protocol));
        let line = line.unwrap_or_else(|| panic!("{protocol} is announced"));
        let at = line.split_whitespace().nth(1).expect("an address");
        let at = at.trim_start_matches("http://").parse();
        at.expect("an address")
    };
    let (http, grpc) = (address("HTTP"), address("gRPC"));
    (process, http, grpc)
}

fn opened(url: &str) -> Arc<dyn Store> {
    tidegate_url::open(url).expect("it is offered").store
}

/// One slot.
fn slot(store: &Arc<dyn Store>) -> LimitSet {
    let set = LimitSet::builder().name("slot").store(Arc::clone(store));
    let slot = Limit::concurrency("running", 1).ttl(Duration::from_secs(3_600));
    set.limits(vec![slot]).build().expect("a set")
}

/// Until `done`, or for a minute and more.
fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came");
}

#[test]
fn servers_share_the_store_of_a_third_which_outlives_a_kill() {
    let mut central = Server::central(CENTRAL);
    let edges = [central.edge(EDGE), central.edge(EDGE)];
    let admitted = |asks: usize| {
        let asks = (0..asks).map(|ask| edges[ask % 2].check());
        asks.filter(|status| *status == 200).count()
    };
    assert_eq!(admitted(6), 6);
    // Its own policy of that name counts for itself.
    let own = (0..5).filter(|_| central.check() == 200).count();
    assert_eq!(own, 3);
    central.kill_and_start_again();
    wait_for(|| {
        edges.iter().all(|edge| {
            edge.post("/v1/peek", "{\"policy\":\"chat\",\"key\":\"k\"}")
                .0
                == 200
        })
    });
    assert_eq!(admitted(12), 4, "10 in all, before and after");
}

#[test]
fn a_central_server_that_stands_still_holds_nobody_up_for_longer_than_the_deadline() {
    let central = Server::central(CENTRAL);
    let edge = Server::start(EDGE, &central.url("?deadline=800ms"));
    wait_for(|| edge.check() == 200);
    let paused = Paused::new(central.process.id());
    for _ in 0..3 {
        assert_eq!(edge.check(), 503, "the store gave no answer");
    }
    drop(paused);
    wait_for(|| edge.check() == 200);
}

/// A supervisor may start a server before its store is there.
#[test]
fn a_server_waits_at_its_start_for_a_store_that_is_not_there_yet() {
    let mut central = Server::central(CENTRAL);
    central.kill();
    let edge = tempfile::tempdir().expect("a folder");
    let policy = edge.path().join("tidegate.toml");
    std::fs::write(policy, EDGE).expect("written");
    let store = central.url("?deadline=20s");
    let mut command = serve(edge.path(), &store, "127.0.0.1:0");
    let ended = command.output().expect("the program runs");
    assert_eq!(ended.status.code(), Some(1), "it does not wait by itself");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let mut command = serve(edge.path(), &store, "127.0.0.1:0");
            command.args(["--store-wait", "10m"]);
            announced(&mut command)
        });
        std::thread::park_timeout(Duration::from_millis(300));
        assert!(!waits.is_finished(), "it waits");
        central.kill_and_start_again();
        let (process, http, grpc) = waits.join().expect("it serves");
        let folder = tempfile::tempdir().expect("a folder");
        let edge = Server {
            process,
            http,
            grpc,
            folder,
        };
        assert_eq!(edge.check(), 200);
    });
}

/// TERM ended it as if nobody listened, and as the first process of a container it went on.
#[test]
fn a_server_that_waits_for_its_store_stops_when_it_is_told_to() {
    let mut central = Server::central(CENTRAL);
    central.kill();
    let edge = tempfile::tempdir().expect("a folder");
    std::fs::write(edge.path().join("tidegate.toml"), EDGE).expect("written");
    let mut command = serve(edge.path(), &central.url("?deadline=20s"), "127.0.0.1:0");
    command.args(["--store-wait", "10m"]).stderr(Stdio::piped());
    let mut waits = command.spawn().expect("the program runs");
    let log = BufReader::new(waits.stderr.take().expect("piped"));
    let mut lines = log.lines().map(|line| line.expect("text"));
    let line = lines.find(|line| line.contains("cannot be opened yet"));
    assert!(line.is_some(), "it waits");
    let pid = waits.id().to_string();
    let sent = Command::new("kill").args(["-s", "TERM", &pid]).status();
    assert!(sent.expect("kill runs").success());
    assert_eq!(waits.wait().expect("it ends").code(), Some(0));
    assert!(lines.any(|line| line.contains("stopped before the store could be opened")));
}

/// First a lease is held through one server; a request waits at another, and a third behind it
/// gives up. Nobody polls.
#[test]
fn requests_of_all_processes_wait_in_the_central_servers_queue() {
    let central = Server::central(CENTRAL);
    let stores = [(); 3].map(|()| opened(&central.url("?deadline=20s")));
    let [holder, waiter, leaver] = stores.each_ref().map(slot);
    let patient = || Request::from(()).within(Duration::from_secs(600));
    let held = holder.try_acquire("k", ()).wait().expect("an answer");
    let mut held = held.granted().expect("it is free");
    let waits = std::thread::spawn(move || {
        let answer = waiter.acquire("k", patient()).wait();
        answer.expect("an answer").granted()
    });
    std::thread::park_timeout(Duration::from_millis(300));
    // One that gives up leaves its place.
    let short = Request::from(()).within(Duration::from_millis(100));
    let refused = leaver.acquire("k", short).wait().expect("an answer");
    assert!(refused.granted().is_none());
    let dropped = leaver
        .acquire("k", patient())
        .wait_within(Duration::from_millis(100));
    assert!(dropped.is_none(), "it waits");
    held.release().wait().expect("it is held");
    let waited = waits.join().expect("it ends");
    let mut waited = waited.expect("it has its turn");
    // It is its, and after it nobody's who has gone.
    let refused = holder.try_acquire("k", ()).wait().expect("an answer");
    assert!(refused.granted().is_none());
    waited.release().wait().expect("it is held");
    let free = || holder.try_acquire("k", ()).wait().expect("an answer");
    wait_for(|| {
        free()
            .granted()
            .is_some_and(|mut lease| lease.release().wait().is_ok())
    });
}

#[test]
fn a_store_is_offered_to_who_has_a_token_for_it_and_only_if_the_server_says_so() {
    let silent = Server::central("[policy.chat.limits]\nrpm = { calls = 3, per = '1h' }\n");
    let refused = tidegate_url::open(&silent.url("")).expect_err("it is not offered");
    assert!(refused.to_string().contains("offers_store"), "{refused}");
    let token = |token: &str, scopes: &str| {
        let (name, hash) = (token.trim_start_matches("tg_"), sha256(token));
        format!("[[token]]\nname = '{name}'\nsha256 = '{hash}'\nscopes = [{scopes}]\n")
    };
    let tokens =
        token("tg_store", "'store'") + &token("tg_all", "'decide', 'administer', 'observe'");
    let central = Server::central(&(tokens + CENTRAL));
    let at = |token: &str| format!("tidegate://{token}{}", central.grpc);
    for (wrong, says) in [("", "token"), ("tg_other@", "token"), ("tg_all@", "store")] {
        let refused = tidegate_url::open(&at(wrong)).expect_err("nobody is let in by it");
        let words = refused.to_string();
        assert!(words.contains(says), "{wrong}: {words}");
        assert!(
            wrong.is_empty() || !words.contains(wrong.trim_end_matches('@')),
            "{words}"
        );
    }
    let set = slot(&opened(&at("tg_store@")));
    let lease = set.try_acquire("k", ()).wait().expect("an answer");
    assert!(lease.granted().is_some());
}

fn sha256(token: &str) -> String {
    let hash = tidegate_policy::Credential::hash(token.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Two tiers of servers: each takes grants of the central one's store, which no number of them
/// exceeds.
#[test]
fn servers_lease_from_a_central_one_what_it_has_and_no_more() {
    let central = Server::central(CENTRAL);
    let policy = "[policy.chat]\ntier = { mode = 'leased', batch = 4, low_water = 0, idle = '200ms' }\n\
                  [policy.chat.limits]\nrpd = { budget = 30, per = '400d' }\n";
    let edges = [central.edge(policy), central.edge(policy)];
    let body = "{\"policy\":\"chat\",\"key\":\"k\",\"amounts\":{\"rpd\":1}}";
    let mut admitted = 0;
    // What one does not use it returns.
    for _ in 0..6 {
        for ask in 0..20 {
            admitted += usize::from(edges[ask % 2].post("/v1/check", body).0 == 200);
        }
        assert!(admitted <= 30, "{admitted}");
        if admitted == 30 {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(400));
    }
    assert_eq!(admitted, 30, "the last unit is admitted to somebody");
}
