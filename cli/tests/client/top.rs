//! `tidegate top`: one frame as text, and a terminal.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::server::{POLICY, Server};

#[test]
fn one_frame_is_printed_with_policies_and_who_is_refused_most() {
    let server = Server::start(POLICY);
    for _ in 0..5 {
        server.request(&["check", "-p", "chat", "-k", "hot", "-q", "tpm=0"]);
    }
    server
        .request(&["acquire", "-p", "jobs", "-k", "a", "-q"])
        .ends(0);
    let once = ["top", "--once", "--interval", "100ms", "--sort", "leases"];
    let said = server.request(&once).ends(0);
    let lines: Vec<Vec<&str>> = said
        .out
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0][..3], ["POLICY", "ADM/s", "REF/s"]);
    assert_eq!((lines[1][0], lines[1][6], lines[1][7]), ("jobs", "1", "1"));
    assert_eq!((lines[2][0], lines[2][6]), ("chat", "0"));
    assert_eq!(lines[3][0], "all");
    assert!(lines.contains(&vec!["2", "chat", "hot"]), "{said:?}");
    // What is no terminal is given the same.
    let piped = server
        .request(&["top", "--interval", "100ms", "--denied", "0"])
        .ends(0);
    assert!(piped.out.starts_with("POLICY") && !piped.out.contains("hot"));
}

#[test]
fn who_may_not_look_at_all_policies_is_told_so() {
    let made = crate::server::tidegate();
    let made = { made }
        .args(["token", "ci", "--policies", "chat"])
        .output()
        .unwrap();
    let entry = String::from_utf8(made.stdout).unwrap();
    let told = String::from_utf8(made.stderr).unwrap();
    let token = told.lines().next().unwrap();
    let server = Server::start(&format!("{entry}\n{POLICY}"));
    let said = server.request(&["top", "--once", "--token", token]).ends(4);
    assert!(said.error.contains("observe"), "{said:?}");
}

/// `script` gives it a terminal.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_it_is_drawn_until_q_is_pressed() {
    let server = Server::start(POLICY);
    let program = env!("CARGO_BIN_EXE_tidegate");
    let line = format!(
        "stty cols 120 rows 30; {program} top --interval 100ms --server {}",
        server.url
    );
    let mut script = Command::new("script");
    script.args([
        "--quiet",
        "--flush",
        "--return",
        "--command",
        &line,
        "/dev/null",
    ]);
    let script = script
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut script = script.spawn().expect("script runs");
    let mut screen = script.stdout.take().unwrap();
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    let drawn = |seen: &[u8]| {
        let text = String::from_utf8_lossy(seen);
        ["POLICY", "jobs", "chat"]
            .iter()
            .all(|word| text.contains(word))
    };
    while !drawn(&seen) {
        let read = std::io::Read::read(&mut screen, &mut piece).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend(&piece[..read]);
    }
    script.stdin.take().unwrap().write_all(b"q").unwrap();
    std::io::Read::read_to_end(&mut screen, &mut seen).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(0));
    // The screen that was there before is back.
    assert!(
        seen.ends_with(b"\x1b[?1049l") || String::from_utf8_lossy(&seen).contains("\u{1b}[?1049l")
    );
}
