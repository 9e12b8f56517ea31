//! Python's `grpcio`: what it is told, it sees as any user of it would.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tidegate_service::Credential;

use crate::server::{Server, folder};
use crate::tools;

const PACKAGES: [&str; 4] = [
    "grpcio==1.85.1",
    "grpcio-tools==1.85.1",
    "grpcio-health-checking==1.85.1",
    "grpcio-reflection==1.85.1",
];
const MODULES: &str = "grpc, grpc_tools.protoc, grpc_health.v1.health, grpc_reflection.v1alpha";

/// Nothing of these comes back while a test runs.
const POLICIES: &str = "
[policy.chat.limits]
calls = { calls = 10, per = '400d', algorithm = 'first_use_window' }
units = { budget = 1000, per = '400d', algorithm = 'first_use_window' }

[policy.jobs.limits]
running = { concurrency = 1, ttl = '1h' }
";

/// Whose token is their name.
fn tokens() -> String {
    let token = |name: &str, rights: &str| {
        let hash = Credential::hash(name);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("[[token]]\nname = '{name}'\nsha256 = '{hash}'\n{rights}\n")
    };
    token("all", "scopes = ['decide', 'observe', 'administer']")
        + &token("decider", "scopes = ['decide']\npolicies = ['chat']")
}

/// The stubs that `grpcio-tools` makes of the proto, made once.
fn stubs(python: &Path) -> PathBuf {
    static STUBS: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let stubs = tools::scratch("python-stubs");
        std::fs::create_dir_all(&stubs).expect("created");
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocols/grpc/proto");
        let mut protoc = Command::new(python);
        protoc.args(["-m", "grpc_tools.protoc", "--proto_path", proto]);
        for kind in ["python", "grpc_python"] {
            protoc.arg(format!("--{kind}_out={}", stubs.display()));
        }
        let output = protoc.arg("tidegate/v1/tidegate.proto").output();
        let output = output.expect("python runs");
        assert!(output.status.success(), "{}", tools::said(&output));
        stubs
    };
    STUBS.get_or_init(make).clone()
}

/// Plays one scene of the script against a server of its own.
fn play(scene: &str) {
    let Some(python) = tools::python_with(&PACKAGES, MODULES) else {
        return;
    };
    let folder = folder(&(tokens() + POLICIES));
    let server = Server::start(folder.path(), &["--store", "memory:"]);
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/clients/scripts/caller.py"
    );
    let output = Command::new(&python)
        .args([script, scene, &server.grpc.to_string()])
        .env("PYTHONPATH", stubs(&python))
        .output()
        .expect("python runs");
    let said = tools::said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.trim(), format!("{scene}: as it should be"));
}

#[test]
fn grpcio_asks_with_every_unary_verb() {
    play("unary");
}

#[test]
fn grpcio_has_batches_answered_while_its_stream_is_open() {
    play("stream");
}

#[test]
fn grpcio_sees_refusals_as_they_happen() {
    play("denials");
}

#[test]
fn grpcio_threads_are_never_admitted_more_than_the_limit() {
    play("threads");
}

#[test]
fn grpcio_waits_and_gives_up_without_taking_anything() {
    play("waiting");
}

#[test]
fn grpcio_is_told_by_codes_what_is_wrong() {
    play("refusals");
}

#[test]
fn grpcio_is_let_in_by_its_token_alone() {
    play("tokens");
}

#[test]
fn grpcio_health_checking_is_told_that_all_is_well() {
    play("health");
}

#[test]
fn grpcio_reflection_finds_every_verb() {
    play("reflection");
}
