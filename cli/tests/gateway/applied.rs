//! Policies that are applied at a gateway are those that it can serve.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{CALLER, Gateway, POLICY, Provider, announced, answered, folder, said, send};

/// Members of a pool, of which no upstream has the name.
const POOL: &str = "
[policy.llm.member.eu.limits]
tokens = { rate = 100, per = '1h' }
[policy.llm.member.us.limits]
tokens = { rate = 100, per = '1h' }
";

/// Lets in who says `another`, and nobody else.
pub const TOKEN: &str = "
[[token]]
name = 'another'
sha256 = 'ae448ac86c4e8e4dec645729708ef41873ae79c6dff84eff73360989487f08e5'
scopes = ['decide']
";

const UNKNOWN: &str = "[policy.llm.limits]\nwidgets = { rate = 100, per = '1h' }\n";

const FREE: &[&str] = &["--http", "127.0.0.1:0", "--wait", "20s"];

/// Applies the policies at `server`; the status and what it says.
fn apply(folder: &Path, server: &str, policies: &str) -> (i32, String) {
    fs::write(folder.join("next.toml"), policies).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["policy", "apply", "--server", server, "next.toml"]);
    let output = command.current_dir(folder).output().expect("it runs");
    let code = output.status.code().expect("it ends by itself");
    let said = [output.stdout, output.stderr].concat();
    (code, String::from_utf8_lossy(&said).into_owned())
}

pub fn until(mut done: impl FnMut() -> bool) {
    for _ in 0..1_500 {
        if done() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it never came");
}

/// It took them, answered every call with 500, and did not start again.
#[test]
fn what_a_gateway_cannot_serve_is_not_applied_to_it() {
    let (folder, provider) = (folder(), Provider::start());
    let path = folder.path();
    let flags = [FREE, &["--applied", "applied.json"]].concat();
    let gateway = Gateway::told(path, provider.at, &flags);
    let server = format!("http://{}", gateway.http.expect("it serves"));
    let (code, said) = apply(path, &server, POOL);
    assert!(
        code == 1 && said.contains("no upstream is called so"),
        "{said}"
    );
    let (code, said) = apply(path, &server, UNKNOWN);
    assert!(
        code == 1 && said.contains("--counts widgets=tokens"),
        "{said}"
    );
    assert_eq!(gateway.status("Hi"), 200, "what was in force is");
    let raised = POLICY.replace("rate = 100", "rate = 120");
    assert_eq!(apply(path, &server, &raised).0, 0);
    drop(gateway);
    let gateway = Gateway::told(path, provider.at, &flags);
    assert_eq!(gateway.status("Hi"), 200, "it starts again");
}

/// A server without a gateway, on the gateway's store.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let store = format!("shm:gateway?size=8&dir={}", folder.display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["serve", "--config", "tidegate.toml", "--store", &store]);
        command.args(["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"]);
        command.args(["--applied", "store"]).current_dir(folder);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the program runs");
        let url = format!("http://{}", announced(&mut said(&mut process), "HTTP"));
        Self { process, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// It went over to them as well, and had no upstream for any call.
#[test]
fn what_is_applied_elsewhere_and_a_gateway_cannot_serve_leaves_what_it_serves() {
    let (folder, provider) = (folder(), Provider::start());
    let path = folder.path();
    let flags = ["--http", "off", "--wait", "20s", "--applied", "store"];
    let gateway = Gateway::told(path, provider.at, &flags);
    let server = Server::start(path);
    assert_eq!(apply(path, &server.url, POOL).0, 0, "it has no upstreams");
    let log = || fs::read_to_string(path.join("gateway.log")).expect("a log");
    until(|| log().contains("cannot switch to the policies applied at another server"));
    assert!(log().contains("no upstream is called so"), "{}", log());
    assert_eq!(gateway.status("Hi"), 200, "what was in force is");
    assert_eq!(apply(path, &server.url, &POLICY.replace("100", "120")).0, 0);
    until(|| log().contains("policies were applied at another server"));
}

/// From then on the gateway read nothing again, so that a token that was taken away stayed valid, and
/// did not start again.
#[test]
fn what_is_applied_elsewhere_and_a_gateway_cannot_serve_keeps_no_other_change_from_it() {
    let (folder, provider) = (folder(), Provider::start());
    let path = folder.path();
    let flags = ["--http", "off", "--wait", "20s", "--applied", "store"];
    let gateway = Gateway::told(path, provider.at, &flags);
    let server = Server::start(path);
    assert_eq!(apply(path, &server.url, POOL).0, 0);
    let log = || fs::read_to_string(path.join("gateway.log")).expect("a log");
    until(|| log().contains("cannot switch to the policies applied at another server"));
    assert_eq!(gateway.status("Hi"), 200);
    fs::write(path.join("tidegate.toml"), format!("{TOKEN}{POLICY}")).expect("written");
    let was_read = || {
        let log = log();
        assert!(!log.contains("configuration not reloaded"), "{log}");
        log.contains("the file was read again")
    };
    until(was_read);
    let statuses = |gateway: &Gateway| {
        let body = r#"{"model":"m","max_tokens":5,"prompt":"Hi"}"#;
        [CALLER, "another"].map(|secret| {
            let call = ("POST", "/v1/completions", secret);
            answered(send(gateway.at, call, body)).0
        })
    };
    assert_eq!(statuses(&gateway), [401, 200]);
    drop(gateway);
    let gateway = Gateway::told(path, provider.at, &flags);
    assert!(log().contains("the file's are in force here"), "{}", log());
    assert_eq!(statuses(&gateway), [401, 200]);
}
