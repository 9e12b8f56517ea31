//! `tidegate gateway --fair`, as a process, with callers that share one account at a provider.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

const POLICY: &str = "
[policy.llm]
key = 'account/caller'
[policy.llm.limits]
running = { concurrency = 1, ttl = '10m', level = 'account' }
";

/// What a provider says of a call: one caller's use far more than they say.
fn answer(caller: &str) -> String {
    let used = if caller == "heavy" { 1_000 } else { 6 };
    format!(r#"{{"choices":[],"usage":{{"prompt_tokens":4,"completion_tokens":{used}}}}}"#)
}

/// How many calls the one caller sends at once.
const FLOOD: usize = 30;

/// A provider that answers nothing until it is opened, and knows who called, in order.
#[derive(Default)]
struct Provider {
    callers: Mutex<(Vec<String>, bool)>,
    changed: Condvar,
}

impl Provider {
    fn start(self: &Arc<Self>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let provider = Arc::clone(self);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, provider) = (stream.expect("accepted"), Arc::clone(&provider));
                thread::spawn(move || provider.answer(stream));
            }
        });
        at
    }

    /// One call, one connection.
    fn answer(&self, mut stream: TcpStream) {
        let mut lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
        let mut caller = String::new();
        let head = lines.by_ref().map_while(Result::ok);
        for line in head.take_while(|line| !line.is_empty()) {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("authorization")
            {
                caller = value.trim().trim_start_matches("Bearer ").to_owned();
            }
        }
        let body = answer(&caller);
        let mut state = self.callers.lock().expect("sound");
        state.0.push(caller);
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |state| !state.1));
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
             content-length: {length}\r\n\r\n{body}"
        );
        // Whoever is gone has not asked.
        let _ = stream.write_all(answer.as_bytes());
    }

    fn wait_for_a_call(&self) {
        let state = self.callers.lock().expect("sound");
        let came = self.changed.wait_while(state, |state| state.0.is_empty());
        drop(came.expect("sound"));
    }

    fn open(&self) {
        self.callers.lock().expect("sound").1 = true;
        self.changed.notify_all();
    }
}

struct Gateway {
    process: Child,
    calls: SocketAddr,
    metrics: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Gateway {
    fn start(provider: SocketAddr, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tidegate.toml"), POLICY).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let upstream = format!("fake=openai@http://{provider}");
        command.args(["gateway", "--upstream", &upstream, "--store", "memory:"]);
        command.args(["--config", "tidegate.toml", "--listen", "127.0.0.1:0"]);
        command.args(["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"]);
        command.args(["--wait", "100s", "--key-root", "openai"]);
        command.args(flags).current_dir(folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("the program runs");
        let said = BufReader::new(process.stdout.take().expect("piped"));
        let mut lines = said.lines().map(|line| line.expect("text"));
        let mut address = |protocol: &str| {
            let line = lines.find(|line| line.trim_start().starts_with(protocol));
            let line = line.expect("it is announced");
            let at = line.split_whitespace().nth(1).expect("an address");
            let at = at.trim_start_matches("http://");
            at.parse().expect("an address")
        };
        let (metrics, calls) = (address("HTTP"), address("LLM"));
        Self {
            process,
            calls,
            metrics,
            _folder: folder,
        }
    }

    /// A call of a caller, on its way.
    fn begin(&self, caller: &str) -> TcpStream {
        let body = r#"{"model":"m","max_tokens":5,"prompt":"Hi"}"#;
        let mut stream = TcpStream::connect(self.calls).expect("it listens");
        let length = body.len();
        let request = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {caller}\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    }

    /// How many calls wait, in the queue of callers and at the limits.
    fn waiting(&self) -> usize {
        let mut stream = TcpStream::connect(self.metrics).expect("it listens");
        let request = "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("text");
        let waiting = ["tidegate_waiting{", "tidegate_gateway_waiting{"];
        let lines = page
            .lines()
            .filter(|line| waiting.iter().any(|name| line.starts_with(name)));
        let count = |line: &str| {
            line.rsplit(' ')
                .next()
                .and_then(|count| count.parse::<f64>().ok())
        };
        lines.filter_map(count).sum::<f64>() as usize
    }

    fn wait_until_so_many_wait(&self, many: usize) {
        // It answers as fast as it can; each look is a call of its own.
        let looks = (0..20_000).map(|_| self.waiting());
        assert!(looks.into_iter().any(|waiting| waiting == many));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The callers in the order in which the provider saw them, who call in this one: so many calls
/// of each at once.
fn order(flags: &[&str], callers: &[(&str, usize)]) -> Vec<String> {
    let provider = Arc::new(Provider::default());
    let gateway = Gateway::start(provider.start(), flags);
    let mut calls = vec![gateway.begin(callers[0].0)];
    provider.wait_for_a_call();
    for (caller, many) in callers {
        calls.extend((0..*many).map(|_| gateway.begin(caller)));
        gateway.wait_until_so_many_wait(calls.len() - 1);
    }
    provider.open();
    for mut call in calls {
        let mut answer = String::new();
        call.read_to_string(&mut answer).expect("text");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    provider.callers.lock().expect("sound").0.clone()
}

#[test]
fn a_flood_of_one_credential_does_not_hold_up_anothers_call() {
    let order = order(&["--fair"], &[("flood", FLOOD), ("small", 1)]);
    assert_eq!(order.len(), FLOOD + 2);
    let at = order.iter().position(|caller| caller == "small");
    // One runs, one stands at the limits already.
    assert_eq!(at, Some(2), "{order:?}");
}

/// What counts is what the provider says that a call has used, not what was thought of it.
#[test]
fn a_caller_whose_calls_use_more_than_they_say_has_its_turn_less_often() {
    let order = order(&["--fair"], &[("first", 0), ("heavy", 5), ("light", 10)]);
    let expected = ["first", "heavy"]
        .into_iter()
        .chain(std::iter::repeat_n("light", 10))
        .chain(std::iter::repeat_n("heavy", 4));
    assert!(expected.eq(order.iter().map(String::as_str)), "{order:?}");
}

/// Three parts are three calls for one.
#[test]
fn a_caller_with_more_weight_has_more_turns() {
    // The key of `Bearer paying`: the first 8 bytes of its SHA-256.
    let weight = "credential-6b45d21704c9a8eb=3";
    let flags = ["--fair", "--weight", weight];
    let order = order(&flags, &[("first", 0), ("usual", 12), ("paying", 12)]);
    let paying = order[..14].iter().filter(|caller| *caller == "paying");
    assert!((8..=10).contains(&paying.count()), "{order:?}");
}

#[test]
fn without_fair_calls_are_served_in_order_of_arrival() {
    let order = order(&[], &[("flood", FLOOD), ("small", 1)]);
    assert_eq!(order.last().map(String::as_str), Some("small"), "{order:?}");
}

#[test]
fn a_gateway_whose_callers_share_nothing_does_not_start_fairly() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args([
        "gateway",
        "--upstream",
        "openai",
        "--store",
        "memory:",
        "--fair",
    ]);
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--http",
        "off",
        "--grpc",
        "off",
        "--resp",
        "off",
    ]);
    let output = command
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("callers share no limit of policy `llm`"),
        "{said}"
    );
    assert!(said.contains("--key-root NAME"), "{said}");
}
