//! The examples run, and say what their pages promise.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

fn output(program: &str) -> String {
    let run = Command::new(program).output().expect("it starts");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}{:?}", run.stderr);
    text
}

#[test]
fn quickstart_grants_twice_and_names_the_limit_that_refuses() {
    let text = output(env!("CARGO_BIN_EXE_quickstart"));
    assert!(text.contains("request 1: granted until 2"), "{text}");
    assert!(text.contains("request 3: refused by "), "{text}");
    assert!(text.contains("that may wait: granted = true"), "{text}");
}

#[test]
fn llm_budget_settles_by_what_was_used_and_refuses_what_does_not_fit() {
    let text = output(env!("CARGO_BIN_EXE_llm_budget"));
    assert!(text.contains("1500 + 420 tokens: 0.010800 USD"), "{text}");
    assert!(text.contains("tpm refuses, not before 2"), "{text}");
    assert!(text.contains("left today: 4.894700 USD"), "{text}");
}

#[test]
fn worker_pool_does_every_job_at_either_account() {
    let text = output(env!("CARGO_BIN_EXE_worker_pool"));
    assert!(text.contains("failed: 0"), "{text}");
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let jobs = line.and_then(|line| line.trim().split(' ').next());
        jobs.and_then(|jobs| jobs.parse::<u32>().ok())
            .expect("a number")
    };
    let (eu, us) = (of("eu:"), of("us:"));
    assert_eq!(eu + us, 60);
    assert!(eu > 0 && us > 0, "{text}");
}

#[test]
fn distributed_lock_has_one_holder_and_gives_back() {
    let text = output(env!("CARGO_BIN_EXE_distributed_lock"));
    assert!(text.contains("held, fence "), "{text}");
    assert!(text.ends_with("given back\n"), "{text}");
}

#[test]
fn every_axis_says_what_it_promises() {
    let axes: &[(&str, &[&str])] = &[
        ("rate", &["call 3: admitted", "call 4: refused, next in 1"]),
        ("cost", &["9,000 more fit: true", "one more fits: false"]),
        (
            "concurrency",
            &["first: true, second: false", "has ended: true"],
        ),
        (
            "all-at-once",
            &[
                "8000 tokens: refused by tokens",
                "1000 tokens: refused by slots",
            ],
        ),
        ("forecast", &["tokens: 2 requests"]),
        (
            "debit",
            &["9000 charged; more may start: true", "start: false"],
        ),
        (
            "many",
            &[
                "bob, 7000: admitted = true",
                "alice, 7000: admitted = false",
            ],
        ),
    ];
    for (axis, promised) in axes {
        let run = Command::new(env!("CARGO_BIN_EXE_axes")).arg(axis).output();
        let text = String::from_utf8(run.expect("it starts").stdout).expect("text");
        assert!(promised.iter().all(|said| text.contains(said)), "{text}");
    }
}

#[test]
fn axum_service_answers_429_with_retry_after_beyond_the_limit() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_axum_service"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let stdout = server.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on http://");
    let address = address.expect("an address").to_owned();
    // Sixty a minute: one a second comes back meanwhile.
    let answers: Vec<_> = (0..200).map(|_| ask(&address)).collect();
    server.kill().expect("it runs");
    server.wait().expect("it ends");
    assert!(answers[0].starts_with("HTTP/1.1 200"), "{}", answers[0]);
    let refused = answers
        .iter()
        .find(|answer| answer.starts_with("HTTP/1.1 429"));
    let refused = refused.expect("two hundred are more than sixty");
    assert!(refused.contains("retry-after: 1"), "{refused}");
}

fn ask(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let request = "GET / HTTP/1.1\r\nhost: x\r\nx-api-key: alice\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
