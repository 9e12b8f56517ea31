//! `tidegate policy`, as a process, and the server that it speaks with.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tidegate_conformance::{Beyond, Paused};

const CHAT: &str = "[policy.chat.limits]\nrpm = { calls = 10, per = '1h' }\n";
const YAML: &str = "policy:\n  chat:\n    limits:\n      rpm: { calls: 10, per: 1h }\n";

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

fn tidegate(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.current_dir(folder).args(words);
    for name in [
        "TIDEGATE_TOKEN",
        "TIDEGATE_SERVER",
        "TIDEGATE_CONFIG",
        "TIDEGATE_APPLIED",
    ] {
        command.env_remove(name);
    }
    command.output().expect("the program runs")
}

fn policy(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let output = tidegate(folder, &[&["policy"], words].concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let code = output.status.code().expect("by itself");
    (code, text(output.stdout), text(output.stderr))
}

/// A server on a free port, killed when it is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path, config: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .current_dir(folder)
            .args(["serve", "--config", config]);
        command.args(["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"]);
        command.args(more).env_remove("TIDEGATE_APPLIED");
        let log = File::create(folder.join("server.log")).expect("a log");
        command.stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().expect("the program runs");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let mut lines = said.lines().map(|line| line.expect("text"));
        let line = lines.find(|line| line.trim_start().starts_with("HTTP"));
        let url = line.expect("it is announced");
        let url = url
            .split_whitespace()
            .nth(1)
            .expect("an address")
            .to_owned();
        Self { process, url }
    }

    fn plan(&self, folder: &Path, words: &[&str]) -> (i32, String, String) {
        policy(folder, &[&["plan", "--server", &self.url], words].concat())
    }

    fn apply(&self, folder: &Path, words: &[&str]) -> (i32, String, String) {
        policy(folder, &[&["apply", "--server", &self.url], words].concat())
    }

    /// What `policy.limit` grants by what the server says.
    fn calls(&self, folder: &Path) -> String {
        let probe = folder.join("probe.toml");
        std::fs::write(&probe, CHAT.replace("10", "999999")).expect("written");
        let (_, told, _) = self.plan(folder, &["probe.toml", "--json"]);
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        told["changes"][0]["was"]
            .as_str()
            .expect("it is raised")
            .to_owned()
    }

    fn hang_up(&self) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", "HUP", &id]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Until `done`, or for some ten seconds.
fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..500 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came");
}

/// Only the first began so, and the others looked like a part of it.
#[test]
fn each_of_several_faults_begins_alike() {
    let text = "[policy.chat.limits]\nrpm = { calls = 'x', per = '1h' }\n\
                tpm = { calls = 3, per = 'day' }\n";
    let folder = folder(&[("faulty.toml", text)]);
    let (code, _, said) = policy(folder.path(), &["check", "faulty.toml"]);
    assert_eq!(code, 1, "{said}");
    let begins = said.lines().filter(|line| line.starts_with("error: "));
    assert_eq!(
        begins.collect::<Vec<_>>(),
        [
            "error: `calls` is a string; it must be a whole number",
            "error: `per = \"day\"` needs a `zone`"
        ]
    );
}

#[test]
fn every_fault_of_every_file_is_told_at_once() {
    let folder = folder(&[
        ("good.toml", CHAT),
        ("good.yaml", YAML),
        (
            "ns.toml",
            &format!(
                "{CHAT}[namespace.acme.policy.web.limits]\nrpm = {{ calls = 9, per = '1h' }}\n"
            ),
        ),
        (
            "bad.toml",
            "[policy.a.limits]\nx = { calls = 0, per = '1m' }\ny = { cals = 3 }\n",
        ),
        (
            "bad.yaml",
            "policy:\n  a:\n    limits:\n      x: { calls: 0, per: 1m }\n",
        ),
    ]);
    let (code, said, _) = policy(folder.path(), &["check", "good.toml", "good.yaml"]);
    assert_eq!(code, 0);
    assert_eq!(said, "good.toml: sound (chat)\ngood.yaml: sound (chat)\n");
    let (_, said, _) = policy(folder.path(), &["check", "ns.toml"]);
    assert_eq!(said, "ns.toml: sound (chat; namespace acme: web)\n");
    let (_, said, _) = policy(folder.path(), &["check", "--json", "ns.toml"]);
    assert!(said.contains("\"namespaces\""), "{said}");
    let all = ["check", "bad.toml", "good.toml", "bad.yaml", "none.toml"];
    let (code, said, errors) = policy(folder.path(), &all);
    assert_eq!((code, said.as_str()), (1, "good.toml: sound (chat)\n"));
    for place in [
        "bad.toml:2:15",
        "bad.toml:3:7",
        "bad.yaml:4:19",
        "cannot read none.toml",
    ] {
        assert!(errors.contains(place), "{place}\n{errors}");
    }
    let (code, said, errors) = policy(folder.path(), &[&all[..], &["--json"]].concat());
    assert_eq!((code, errors.as_str()), (1, ""));
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["files"][0]["faults"][0]["line"], 2);
    assert_eq!(told["files"][1]["policies"][0], "chat");
    assert_eq!(
        told["files"][2]["faults"][0]["help"],
        "write 1 to 9007199254740991"
    );
    assert!(told["files"][3]["error"].is_string());
    assert_eq!(policy(folder.path(), &["check"]).0, 2);
}

#[test]
fn a_difference_is_a_table_with_what_it_means() {
    let folder = folder(&[
        ("old.toml", CHAT),
        ("same.yaml", YAML),
        (
            "new.yaml",
            &YAML
                .replace("10", "12")
                .replace("    limits", "    ttl: 5s\n    limits"),
        ),
    ]);
    let (code, said, _) = policy(
        folder.path(),
        &["diff", "old.toml", "same.yaml", "--exit-code"],
    );
    assert_eq!((code, said.as_str()), (0, "nothing changes\n"));
    let (code, said, _) = policy(folder.path(), &["diff", "old.toml", "new.yaml"]);
    assert_eq!(code, 0);
    assert_eq!(
        said,
        "change   what      setting  was  becomes  for keys in use\n\
         changed  chat      ttl      -    5s       for leases from now on\n\
         raised   chat.rpm  calls    10   12       from the next decision on; no request waits longer\n"
    );
    let (code, said, _) = policy(
        folder.path(),
        &["diff", "old.toml", "new.yaml", "--exit-code", "--json"],
    );
    assert_eq!(code, 3);
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["changes"][1]["change"], "raised");
    std::fs::write(folder.path().join("old.toml"), "[policy]").unwrap();
    assert_eq!(
        policy(folder.path(), &["diff", "old.toml", "new.yaml"]).0,
        1
    );
}

#[test]
fn what_is_planned_is_applied_and_stays_until_the_file_changes() {
    let folder = folder(&[
        ("server.yaml", YAML),
        ("next.toml", &CHAT.replace("10", "20")),
    ]);
    let path = folder.path();
    let applied = ["--applied", "applied.json", "--audit", "audit.log"];
    let server = Server::start(path, "server.yaml", &applied);
    assert_eq!(server.plan(path, &["server.yaml"]).1, "nothing changes\n");
    let (code, said, _) = server.plan(path, &["next.toml", "--exit-code"]);
    assert_eq!(code, 3);
    assert!(
        said.contains("raised  chat.rpm  calls    10   20"),
        "{said}"
    );
    let (code, said, errors) = server.apply(path, &["next.toml"]);
    assert!(
        code == 0 && said.contains("raised  chat.rpm"),
        "{said}{errors}"
    );
    assert_eq!(server.plan(path, &["next.toml"]).1, "nothing changes\n");
    let log = std::fs::read_to_string(path.join("audit.log")).unwrap();
    assert!(
        log.contains("limit chat.rpm: calls 10 -> 20") && log.contains("anyone"),
        "{log}"
    );
    drop(server);
    // A restart keeps them, and so does a file that says the same.
    let server = Server::start(path, "server.yaml", &applied);
    assert_eq!(server.calls(path), "20");
    std::fs::write(path.join("server.yaml"), format!("# the same\n{YAML}")).unwrap();
    server.hang_up();
    std::thread::park_timeout(Duration::from_millis(300));
    assert_eq!(server.calls(path), "20");
    // A file with other policies wins.
    std::fs::write(path.join("server.yaml"), YAML.replace("10", "30")).unwrap();
    wait_for(|| server.calls(path) == "30");
    assert!(path.join("applied.json.superseded").exists());
    assert!(!path.join("applied.json").exists());
    drop(server);
    assert_eq!(
        Server::start(path, "server.yaml", &applied).calls(path),
        "30"
    );
}

/// What was applied was laid aside before the file's policies were gone over to: gone at
/// the next restart, though the server had gone on with it.
#[test]
fn what_is_applied_stays_if_the_file_cannot_be_gone_over_to() {
    let Some(store) = Beyond::redis() else { return };
    let folder = folder(&[
        ("server.yaml", YAML),
        ("next.toml", &CHAT.replace("10", "20")),
    ]);
    let path = folder.path();
    let server = Server::start(
        path,
        "server.yaml",
        &["--store", &*store.url, "--applied", "applied.json"],
    );
    assert_eq!(server.apply(path, &["next.toml"]).0, 0);
    let logged = |what: &str| {
        let log = std::fs::read_to_string(path.join("server.log"));
        log.expect("a log").contains(what)
    };
    // What is new has to be opened at the store.
    let _paused = Paused::new(store.pid);
    let levels = YAML.replace("    limits", "    key: org\n    limits");
    std::fs::write(path.join("server.yaml"), levels).unwrap();
    server.hang_up();
    wait_for(|| logged("configuration not reloaded"));
    assert!(!logged("the applied ones were moved"));
    assert_eq!(server.calls(path), "20");
    std::fs::write(path.join("server.yaml"), YAML).unwrap();
    server.hang_up();
    wait_for(|| logged("the file was read again"));
    assert_eq!(server.calls(path), "20");
    assert!(path.join("applied.json").exists());
}

/// A price that was another changed nothing, by `diff` and by its exit code.
#[test]
fn other_prices_are_rows_of_a_diff_and_no_part_of_a_plan() {
    let priced =
        |input: &str| format!("{CHAT}[price]\ngpt-5 = {{ input = '{input}', output = 10 }}\n");
    let (old, new) = (priced("2.5"), priced("250"));
    let folder = folder(&[("old.toml", &*old), ("new.toml", &*new)]);
    let path = folder.path();
    let (code, said, _) = policy(path, &["diff", "old.toml", "new.toml", "--exit-code"]);
    let row = said.lines().nth(1).unwrap_or_default();
    let words: Vec<_> = row.split_whitespace().take(6).collect();
    assert_eq!(code, 3, "{said}");
    assert_eq!(words, ["changed", "price", "gpt-5", "input", "2.5", "250"]);
    let (_, said, _) = policy(path, &["diff", "old.toml", "new.toml", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["changes"][0]["price"], "gpt-5");
    assert_eq!(said["changes"][0]["policy"], serde_json::Value::Null);
    let (code, _, _) = policy(path, &["diff", "old.toml", "old.toml", "--exit-code"]);
    assert_eq!(code, 0);
    let server = Server::start(path, "old.toml", &[]);
    let (code, said, noted) = server.plan(path, &["new.toml", "--exit-code"]);
    assert_eq!((code, &*said), (0, "nothing changes\n"));
    assert!(noted.contains("[price] is not sent"), "{noted}");
}

#[test]
fn other_weights_are_rows_of_a_diff_and_no_part_of_a_plan() {
    let weighed = |output: u32| format!("{CHAT}[token-weight]\nm = {{ output = {output} }}\n");
    let (old, new) = (weighed(4), weighed(5));
    let folder = folder(&[("old.toml", &*old), ("new.toml", &*new)]);
    let path = folder.path();
    let (code, said, _) = policy(path, &["diff", "old.toml", "new.toml", "--exit-code"]);
    let row = said.lines().nth(1).unwrap_or_default();
    let words: Vec<_> = row.split_whitespace().take(6).collect();
    assert_eq!(code, 3, "{said}");
    assert_eq!(words, ["changed", "token-weight", "m", "output", "4", "5"]);
    let (_, said, _) = policy(path, &["diff", "old.toml", "new.toml", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(said["changes"][0]["token_weight"], "m");
    assert_eq!(said["changes"][0]["price"], serde_json::Value::Null);
    let server = Server::start(path, "old.toml", &[]);
    let (code, said, noted) = server.plan(path, &["new.toml", "--exit-code"]);
    assert_eq!((code, &*said), (0, "nothing changes\n"));
    assert!(noted.contains("[token-weight] is not sent"), "{noted}");
}

/// Two servers took turns at one store, each by limits of its own, and nothing said so.
#[test]
fn a_server_whose_limits_are_not_those_of_the_store_says_so_once() {
    let segment = tempfile::tempdir().expect("a folder");
    if cfg!(target_os = "linux") {
        tells_what_differs(&format!("shm:one?dir={}", segment.path().display()));
    }
    for store in [Beyond::redis(), Beyond::postgres(), Beyond::mariadb()] {
        store
            .iter()
            .for_each(|store| tells_what_differs(&store.url));
    }
}

fn tells_what_differs(store: &str) {
    let limits = |calls: u32, ttl: &str| {
        format!(
            "[policy.chat.limits]\nrpm = {{ calls = {calls}, per = '1m', burst = 5 }}\n\
             running = {{ concurrency = 2, ttl = '{ttl}' }}\n\
             slid = {{ budget = 7, per = '1h', algorithm = 'sliding_window' }}\n\
             logged = {{ budget = 7, per = '1h', algorithm = 'sliding_log' }}\n\
             day = {{ budget = 7, per = 'day', zone = 'UTC' }}\n"
        )
    };
    let folder = folder(&[
        ("one.toml", &limits(90, "30s")),
        ("other.toml", &limits(100, "1m")),
    ]);
    let path = folder.path();
    let shared = ["--store", store];
    let differing = || {
        let log = std::fs::read_to_string(path.join("server.log")).expect("a log");
        let told = log.lines();
        let told = told.filter(|line| line.contains("differs from the one in the store"));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    let checked = |server: &Server| {
        let check = ["check", "-p", "chat", "-k", "k", "running=0", "rpm=1"];
        let code = tidegate(path, &[&check[..], &["--server", &server.url]].concat()).status;
        assert_eq!(code.code(), Some(0));
    };
    let one = Server::start(path, "one.toml", &shared);
    (0..2).for_each(|_| checked(&one));
    let again = Server::start(path, "one.toml", &shared);
    checked(&again);
    assert_eq!(differing(), [""; 0], "{store}");
    let other = Server::start(path, "other.toml", &shared);
    (0..2).for_each(|_| checked(&other));
    let told = differing();
    assert_eq!(told.len(), 2, "{store}: {told:?}");
    for (line, words) in told.iter().zip([
        ["chat", "rpm", "100 per 1m, burst 5", "90 per 1m, burst 5"],
        ["chat", "running", "2 at once, ttl 1m", "2 at once, ttl 30s"],
    ]) {
        for word in words {
            assert!(line.contains(word), "{store}: {line}");
        }
    }
}

/// It was kept in a file of the one server that was told.
#[test]
fn what_is_applied_is_kept_in_a_shared_store_and_served_by_every_server() {
    for store in [Beyond::redis(), Beyond::postgres(), Beyond::mariadb()] {
        store.iter().for_each(is_applied_everywhere);
    }
}

fn is_applied_everywhere(store: &Beyond) {
    let folder = folder(&[
        ("server.yaml", YAML),
        ("rolled.yaml", &YAML.replace("10", "40")),
        ("next.toml", &CHAT.replace("10", "20")),
        ("last.toml", &CHAT.replace("10", "25")),
    ]);
    let path = folder.path();
    let shared = ["--store", &*store.url, "--applied", "store"];
    let (one, other) = (
        Server::start(path, "server.yaml", &shared),
        Server::start(path, "server.yaml", &shared),
    );
    assert_eq!(one.apply(path, &["next.toml"]).0, 0);
    assert_eq!(one.calls(path), "20");
    wait_for(|| other.calls(path) == "20");
    assert_eq!(other.calls(path), "20");
    assert_eq!(other.apply(path, &["last.toml"]).0, 0);
    wait_for(|| one.calls(path) == "25");
    assert_eq!(one.calls(path), "25");
    drop(one);
    let one = Server::start(path, "server.yaml", &shared);
    assert_eq!(one.calls(path), "25", "a restart keeps them");
    // Halfway through a roll-out of another file: what is applied over that is not for
    // those who do not have it yet, and takes nothing from them.
    let rolled = Server::start(path, "rolled.yaml", &shared);
    assert_eq!(rolled.apply(path, &["next.toml"]).0, 0);
    assert_eq!(rolled.calls(path), "20");
    for _ in 0..60 {
        assert_eq!((&*one.calls(path), &*other.calls(path)), ("25", "25"));
        std::thread::park_timeout(Duration::from_millis(50));
    }
    // A file with other policies wins, at the server that has it.
    std::fs::write(path.join("server.yaml"), YAML.replace("10", "30")).unwrap();
    wait_for(|| one.calls(path) == "30");
    assert_eq!(one.calls(path), "30");
    let alone = ["serve", "--store", "memory:", "--applied", "store"];
    let refused = tidegate(path, &alone);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("--applied FILE"),
        "{said}"
    );
}

/// They were called sound, and the server did not start.
#[test]
fn a_servers_file_that_cannot_be_served_is_not_sound() {
    let server = "[server]\nhttp = 'foo'\nstore = 'redsi://x'\n";
    let sound = "[server]\nhttp = '127.0.0.1:0'\nstore = 'redis://u:secret@nowhere:1'\n\
        audit = '/nonexistent/folder/audit.log'\n";
    let folder = folder(&[
        ("bad.toml", &format!("{server}{CHAT}")),
        ("good.toml", &format!("{sound}{CHAT}")),
    ]);
    let (code, _, errors) = policy(folder.path(), &["check", "bad.toml"]);
    assert!(code == 1 && errors.contains("bad.toml:2:"), "{errors}");
    assert!(
        errors.contains("bad.toml:3:") && errors.contains("redis://HOST"),
        "{errors}"
    );
    // What is elsewhere cannot be looked at here.
    let (code, said, errors) = policy(folder.path(), &["check", "good.toml"]);
    assert_eq!((code, said.as_str()), (0, "good.toml: sound (chat)\n"));
    assert!(
        errors.contains("warning") && errors.contains("/nonexistent/folder"),
        "{errors}"
    );
}

#[test]
fn a_server_that_nobody_could_ask_is_none_and_a_taken_port_leaves_no_file() {
    let folder = folder(&[("chat.toml", CHAT)]);
    let path = folder.path();
    let off = ["--http", "off", "--grpc", "off", "--resp", "off"];
    let serve = ["serve", "--config", "chat.toml"];
    let output = tidegate(path, &[&serve[..], &off].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(2) && said.contains("every listener is off"),
        "{said}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let protocols = ["--http", &at, "--grpc", "off", "--resp", "off"];
    let output = tidegate(path, &[&serve[..], &protocols].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(!path.join("tidegate.redb").exists());
}

#[test]
fn a_server_that_was_not_told_to_refuses_and_so_does_one_without_the_right_token() {
    let made = tidegate(
        Path::new("."),
        &["token", "ci", "--scopes", "observe,decide"],
    );
    let entry = String::from_utf8(made.stdout).unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    let token = told.lines().next().unwrap();
    let folder = folder(&[
        ("open.toml", CHAT),
        ("locked.toml", &format!("{entry}\n{CHAT}")),
        ("next.toml", &CHAT.replace("10", "20")),
        (
            "next-locked.toml",
            &format!("{entry}\n{}", CHAT.replace("10", "20")),
        ),
        ("bad.toml", "[policy.chat.limits]\nrpm = 3\n"),
    ]);
    let path = folder.path();
    std::fs::write(path.join("token"), format!("{token}\n")).unwrap();
    let server = Server::start(path, "open.toml", &["--store", "memory:"]);
    let (code, _, errors) = server.apply(path, &["next.toml"]);
    assert!(code == 1 && errors.contains("--applied FILE"), "{errors}");
    let (code, _, errors) = server.apply(path, &["bad.toml"]);
    assert!(code == 1 && errors.contains("bad.toml:2:7"), "{errors}");
    drop(server);
    let applied = ["--store", "memory:", "--applied", "applied.json"];
    // A server's own settings are not sent anywhere, and its policies are.
    let server = Server::start(path, "open.toml", &applied);
    let (code, said, errors) = server.apply(path, &["next-locked.toml"]);
    assert!(code == 0 && said.contains("raised"), "{said} {errors}");
    assert!(
        said.ends_with(&format!("applied at {}\n", server.url)),
        "{said}"
    );
    assert!(errors.contains("note: [[token]] is not sent"), "{errors}");
    let kept = std::fs::read_to_string(path.join("applied.json")).unwrap();
    assert!(!kept.contains("sha256"), "{kept}");
    drop(server);
    std::fs::remove_file(path.join("applied.json")).unwrap();
    let server = Server::start(path, "locked.toml", &applied);
    let (code, _, errors) = server.plan(path, &["next.toml"]);
    assert!(code == 1 && errors.contains("TIDEGATE_TOKEN"), "{errors}");
    let (code, said, _) = server.plan(path, &["next.toml", "--token-file", "token"]);
    assert!(code == 0 && said.contains("raised"), "{said}");
    let (code, _, errors) = server.apply(path, &["next.toml", "--token", token]);
    assert!(code == 1 && errors.contains("administer"), "{errors}");
    assert!(!path.join("applied.json").exists());
}

/// A pool in a file, a member that goes and one that comes, while it is served.
#[test]
fn a_pool_is_reloaded_member_by_member() {
    let pool = |members: &[&str]| {
        let member = |name: &&str| {
            format!("[policy.chat.member.{name}.limits]\nrpm = {{ calls = 10, per = '1h' }}\n")
        };
        members.iter().map(member).collect::<String>()
    };
    let folder = folder(&[
        ("pool.toml", &pool(&["eu", "us"])),
        ("next.toml", &pool(&["eu", "asia"])),
    ]);
    let path = folder.path();
    let server = Server::start(path, "pool.toml", &["--store", "memory:"]);
    let (_, said, _) = server.plan(path, &["next.toml"]);
    assert!(
        said.contains("removed  chat/us") && said.contains("added    chat/asia"),
        "{said}"
    );
    std::fs::write(path.join("pool.toml"), pool(&["eu", "asia"])).unwrap();
    wait_for(|| server.plan(path, &["next.toml"]).1 == "nothing changes\n");
    // What cannot be reached is told, with what to do.
    let (code, _, errors) = policy(
        path,
        &["plan", "next.toml", "--server", "http://127.0.0.1:9"],
    );
    assert!(
        code == 1 && errors.contains("`tidegate serve` starts one"),
        "{errors}"
    );
}
