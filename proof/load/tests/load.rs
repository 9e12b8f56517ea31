//! `tidegate-load` against `tidegate serve`, over all three protocols.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tidegate_fleet::program::program;

const POLICY: &str = "[policy.busy.limits]\nrate = { calls = 100_000, per = '1s', burst = 50_000 }\n\
                      [policy.narrow]\nkey = 'org/user'\n[policy.narrow.limits]\n\
                      org = { calls = 40, per = '1h', level = 'org' }\n\
                      slots = { concurrency = 1_000 }\n";

/// A server on free ports, killed when it is dropped.
struct Server {
    process: Child,
    addresses: [String; 3],
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.toml"), POLICY).unwrap();
        let mut command = Command::new(program().expect("the server"));
        command.args(["serve", "--store", "memory:", "--config", "p.toml"]);
        for flag in ["--http", "--grpc", "--resp"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.current_dir(folder.path()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        let mut lines = said.lines().map(Result::unwrap);
        let addresses = ["HTTP", "gRPC", "RESP"].map(|protocol| {
            let line = lines.find(|line| line.trim_start().starts_with(protocol));
            let line = line.unwrap_or_else(|| panic!("{protocol} is announced"));
            let at = line.split_whitespace().nth(1).unwrap();
            at.trim_start_matches("http://").to_owned()
        });
        Self {
            process,
            addresses,
            _folder: folder,
        }
    }

    /// The load's exit code and its JSON.
    fn load(&self, protocol: usize, more: &[&str]) -> (i32, Value) {
        let name = ["http", "grpc", "resp"][protocol];
        let [http, ..] = &self.addresses;
        let mut arguments = vec![
            "--protocol",
            name,
            "--server",
            &self.addresses[protocol],
            "--http",
            http,
        ];
        arguments.extend(["--json", "--keys", "100", "--connections", "4"]);
        arguments.extend(more);
        let output = load(Path::new("."), &arguments);
        let json = serde_json::from_slice(&output.stdout);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        (
            output.status.code().unwrap(),
            json.unwrap_or_else(|_| panic!("{words}")),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn load(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-load"));
    command.args(arguments).current_dir(folder);
    command.output().unwrap()
}

fn number(json: &Value, name: &str) -> u64 {
    json[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {json}"))
}

/// Everything that was asked was answered, and nothing went wrong.
fn sound((code, json): &(i32, Value)) {
    assert_eq!(*code, 0, "{json}");
    assert!(number(json, "answered") > 0, "{json}");
    assert_eq!(number(json, "sent"), number(json, "answered"), "{json}");
    let known = number(json, "admitted") + number(json, "refused");
    assert_eq!(number(json, "answered"), known, "{json}");
}

#[test]
fn every_protocol_answers_an_open_load_in_full() {
    let server = Server::start();
    for protocol in 0..3 {
        let arguments = ["--policy", "busy", "--rate", "400/s", "--duration", "1s"];
        let (code, json) = server.load(protocol, &arguments);
        sound(&(code, json.clone()));
        // Four hundred are expected, and the schedule alone says how many come.
        assert!((250..=600).contains(&number(&json, "sent")), "{json}");
        assert_eq!(json["limits"][0]["exceeded"], 0, "{json}");
    }
}

#[test]
fn every_protocol_answers_a_closed_load_with_leases() {
    let server = Server::start();
    for protocol in 0..3 {
        let arguments = ["--policy", "narrow", "--closed", "--verb", "acquire"];
        let more = [
            "--depth",
            "3",
            "--duration",
            "500ms",
            "--distribution",
            "zipf:1.1",
        ];
        let run = server.load(protocol, &[&arguments[..], &more].concat());
        sound(&run);
        // The organisation's forty were taken by whoever came first.
        let admitted = number(&run.1, "admitted");
        assert_eq!(admitted, if protocol == 0 { 40 } else { 0 }, "{}", run.1);
        assert_eq!(number(&run.1, "settled"), admitted);
    }
}

#[test]
fn a_stream_answers_batches_and_a_pipeline_what_is_sent_ahead() {
    let server = Server::start();
    let policy = [
        "--policy",
        "busy",
        "--closed",
        "--duration",
        "300ms",
        "--depth",
        "2",
    ];
    sound(&server.load(1, &[&policy[..], &["--batch", "50"]].concat()));
    let throttle = ["--throttle", "9,100,1", "--closed", "--duration", "300ms"];
    let (code, json) = server.load(
        2,
        &[&throttle[..], &["--distribution", "hot", "--depth", "8"]].concat(),
    );
    sound(&(code, json.clone()));
    let closest = &json["limits"][0]["closest"];
    assert!(
        number(closest, "admitted") <= number(closest, "most") && number(closest, "most") >= 10
    );
}

#[test]
fn latencies_are_written_as_hdrhistogram_reads_them() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.hgrm").display().to_string();
    let load = [
        "--raw",
        "PING",
        "--closed",
        "--duration",
        "200ms",
        "--histogram",
        &path,
    ];
    let (code, json) = server.load(2, &load);
    assert_eq!((code, number(&json, "errors")), (0, 0), "{json}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.trim_start().starts_with("Value") && text.contains("#[Max     ="),
        "{text}"
    );
    let count = format!("Total count    = {:>12}]", number(&json, "answered"));
    assert!(text.contains(&count), "{text}");
}

/// A server that admits whatever is asked, though its limit is two a day.
#[test]
fn a_server_that_admits_too_much_is_found_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4_096];
                while let Ok(1..) = stream.read(&mut bytes) {
                    if stream
                        .write_all(b"*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:9\r\n")
                        .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    let throttle = [
        "--throttle",
        "1,2,86400",
        "--distribution",
        "hot",
        "--closed",
    ];
    let rest = [
        "--server",
        &address,
        "--connections",
        "2",
        "--duration",
        "100ms",
    ];
    let output = load(Path::new("."), &[&throttle[..], &rest].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("EXCEEDED"), "{said}");
}

#[test]
fn load_is_put_on_this_machine_unless_it_is_said() {
    let cases: [(&[&str], &str); 4] = [
        (
            &["--raw", "PING", "--closed", "--server", "192.0.2.1:6379"],
            "--yes-elsewhere",
        ),
        (&["--closed"], "--policy"),
        (&["--policy", "p"], "--rate"),
        (
            &["--protocol", "http", "--throttle", "1,1,1", "--closed"],
            "RESP",
        ),
    ];
    for (arguments, remedy) in cases {
        let output = load(Path::new("."), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(remedy), "{said}");
    }
}

#[test]
fn help_shows_no_token_of_the_environment() {
    let mut help = Command::new(env!("CARGO_BIN_EXE_tidegate-load"));
    help.arg("--help").env("TIDEGATE_TOKEN", "tg-secret");
    let output = help.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("TIDEGATE_TOKEN") && !said.contains("secret"),
        "{said}"
    );
}
