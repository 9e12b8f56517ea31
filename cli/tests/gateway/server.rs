//! What the file says of the server's listeners holds for the gateway's.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use super::applied::TOKEN;
use super::{CALLER, Gateway, POLICY, Provider, answered, folder_with};

const FLAGS: &[&str] = &["--http", "off", "--wait", "20s"];

#[test]
fn the_most_connections_are_those_of_the_file() {
    let folder = folder_with(&format!("[server]\nmax_connections = 1\n{POLICY}"));
    let provider = Provider::start();
    let gateway = Gateway::told(folder.path(), provider.at, FLAGS);
    let held = gateway.begin("silence");
    provider.calls.recv().expect("it came");
    // It is answered before it asks.
    let more = TcpStream::connect(gateway.at).expect("it listens");
    assert_eq!(answered(more).0, 503);
    drop(held);
}

/// The call was cut off ten seconds after the signal, whatever the file said.
#[test]
fn a_call_is_answered_for_as_long_as_the_file_says_after_the_signal_to_stop() {
    let folder = folder_with(&format!("[server]\nshutdown_timeout = '10m'\n{POLICY}"));
    let provider = Provider::start();
    let mut gateway = Gateway::told(folder.path(), provider.at, FLAGS);
    let call = gateway.begin("late");
    provider.calls.recv().expect("it came");
    let id = gateway.process.id().to_string();
    let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
    assert!(sent.expect("kill runs").success());
    // Longer than the ten seconds that it has without a word of the file.
    let another = provider.calls.recv_timeout(Duration::from_secs(12));
    assert!(another.is_err(), "nobody else calls");
    provider.answer_late();
    assert_eq!(answered(call).0, 200);
    assert!(gateway.process.wait().expect("it ends").success());
}

/// With tokens it was a 401: it sent a key of the provider's.
#[test]
fn the_call_that_is_printed_to_try_a_gateway_is_answered() {
    for tokens in ["", TOKEN] {
        let folder = folder_with(&format!("{POLICY}{tokens}"));
        let provider = Provider::start();
        let gateway = Gateway::told(folder.path(), provider.at, FLAGS);
        let mut shell = Command::new("sh");
        let status = format!("{} -o /dev/null -w '%{{http_code}}'", gateway.to_try);
        shell.args(["-c", &status]);
        shell
            .env("OPENAI_API_KEY", CALLER)
            .env("TIDEGATE_TOKEN", "another");
        let status = shell.output().expect("a shell runs").stdout;
        assert_eq!(
            String::from_utf8_lossy(&status),
            "200",
            "{}",
            gateway.to_try
        );
    }
}
