//! `tidegate gateway`, as processes: two of them on one store, before a provider.

mod applied;
mod begun;
mod cooling;
mod learnt;
mod server;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const POLICY: &str = "
[policy.llm.limits]
tokens  = { rate = 100, per = '1h' }
running = { concurrency = 1, ttl = '10m' }
";

/// What callers show, and what the gateways have for the provider; neither is ever in a log.
const CALLER: &str = "sk-of-the-caller-e093";
const SECRET: &str = "sk-of-the-gateway-7d41";

/// What a provider says of every call: it has used 10 tokens.
const ANSWER: &str = r#"{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":6}}"#;

/// A provider that answers; a call with `silence` in it is never answered, one
/// with `late` in it when the test says so.
struct Provider {
    at: SocketAddr,
    /// A call that came.
    calls: Receiver<()>,
    /// Has the calls that wait for it answered.
    late: SyncSender<()>,
}

impl Provider {
    fn start() -> Self {
        Self::saying("200 OK")
    }

    /// One whose answers begin so.
    fn saying(head: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("bound");
        let (came, calls) = sync_channel(64);
        let (late, waits) = sync_channel(64);
        let waits = Arc::new(Mutex::new(waits));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, came) = (stream.expect("accepted"), came.clone());
                let waits = Arc::clone(&waits);
                thread::spawn(move || answer(stream, head, &came, &waits));
            }
        });
        Self { at, calls, late }
    }

    /// Answers a call with `late` in it.
    fn answer_late(&self) {
        self.late.send(()).expect("somebody waits");
    }
}

/// One call, one connection.
fn answer(mut stream: TcpStream, head: &str, came: &SyncSender<()>, waits: &Mutex<Receiver<()>>) {
    let mut lines = BufReader::new(stream.try_clone().expect("cloned"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().expect("a number");
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).expect("a body");
    came.send(()).expect("the test goes on");
    let body = String::from_utf8_lossy(&body);
    if body.contains("late") {
        let waits = waits.lock().expect("nobody panics with it");
        waits.recv().expect("the test goes on");
    }
    if body.contains("silence") {
        // Until the other side is gone.
        let _ = lines.read(&mut [0]);
        return;
    }
    let answer = format!(
        "HTTP/1.1 {head}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{ANSWER}",
        ANSWER.len()
    );
    // Whoever is gone has not asked.
    let _ = stream.write_all(answer.as_bytes());
}

struct Gateway {
    process: Child,
    at: SocketAddr,
    /// Where it serves what a server does, if anywhere.
    http: Option<SocketAddr>,
    /// What it says to type, to try it.
    to_try: String,
    log: PathBuf,
}

impl Gateway {
    fn start(folder: &Path, provider: &Provider) -> Self {
        Self::before(folder, provider.at, "off", "20s")
    }

    /// One before what listens at `provider`, whose calls wait for so long.
    fn before(folder: &Path, provider: SocketAddr, http: &str, wait: &str) -> Self {
        Self::told(folder, provider, &["--http", http, "--wait", wait])
    }

    /// One with further flags, of which `off` is where it serves HTTP.
    fn told(folder: &Path, provider: SocketAddr, more: &[&str]) -> Self {
        let store = format!("shm:gateway?size=8&dir={}", folder.display());
        let upstream = format!("fake=openai@http://{provider}");
        let more = [more, &["--upstream", &upstream]].concat();
        Self::on(&store, folder, &more)
    }

    /// One on this store.
    fn on(store: &str, folder: &Path, more: &[&str]) -> Self {
        let words = ["--store", store, "--config", "tidegate.toml"];
        Self::run(folder, &[&words, more].concat())
    }

    /// One that is told this alone.
    fn run(folder: &Path, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["gateway", "--listen", "127.0.0.1:0"]);
        command.args(["--grpc", "off", "--resp", "off"]).args(words);
        command.env("TIDEGATE_KEY_FAKE", SECRET);
        command.current_dir(folder);
        let log = folder.join("gateway.log");
        let written = File::create(&log).expect("a log");
        command.stdout(Stdio::piped()).stderr(written);
        let mut process = command.spawn().expect("the program runs");
        let mut said = said(&mut process);
        let http = (!words.contains(&"off")).then(|| announced(&mut said, "HTTP"));
        let at = announced(&mut said, "LLM");
        let to_try = said.next().expect("it is told how to try it");
        Self {
            process,
            at,
            http,
            to_try,
            log,
        }
    }

    /// A call on its way.
    fn begin(&self, prompt: &str) -> TcpStream {
        self.ask(&format!(
            r#"{{"model":"m","max_tokens":5,"prompt":"{prompt}"}}"#
        ))
    }

    fn ask(&self, body: &str) -> TcpStream {
        send(self.at, ("POST", "/v1/completions", CALLER), body)
    }

    fn status(&self, prompt: &str) -> u16 {
        answered(self.begin(prompt)).0
    }

    /// Five calls at once that name no bound on their answer.
    fn five_unbounded(&self) -> Vec<u16> {
        let call = || answered(self.ask(r#"{"model":"m","prompt":"Hi"}"#)).0;
        thread::scope(|scope| {
            let calls: Vec<_> = (0..5).map(|_| scope.spawn(call)).collect();
            let ended = calls.into_iter().map(|call| call.join().expect("it ends"));
            ended.collect()
        })
    }
}

/// What a process says, line by line.
fn said(process: &mut Child) -> impl Iterator<Item = String> + use<> {
    let said = BufReader::new(process.stdout.take().expect("piped"));
    said.lines().map(|line| line.expect("text"))
}

/// Where it says that it listens: the next line that begins with that word.
fn announced(said: &mut impl Iterator<Item = String>, word: &str) -> SocketAddr {
    let line = said.find(|line| line.trim_start().starts_with(word));
    let line = line.expect("it is announced");
    let at = line.split_whitespace().nth(1).expect("an address");
    at.trim_start_matches("http://")
        .parse()
        .expect("an address")
}

/// A request on its way, of whoever has this credential.
fn send(at: SocketAddr, (method, path, secret): (&str, &str, &str), body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("it listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {secret}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// The status, and all that came.
fn answered(mut stream: TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("a status: {answer}"));
    (status, answer)
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        if !thread::panicking() {
            let log = std::fs::read_to_string(&self.log).expect("a log");
            for secret in [CALLER, SECRET] {
                assert!(!log.contains(secret), "{secret} was logged: {log}");
            }
        }
    }
}

fn folder() -> tempfile::TempDir {
    folder_with(POLICY)
}

fn folder_with(policy: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    std::fs::write(folder.path().join("tidegate.toml"), policy).expect("written");
    folder
}

/// Elsewhere a limit, a cap or a model's budget was each replica's own (LiteLLM #33325, Bifrost #3547,
/// agentgateway).
#[test]
fn two_gateways_on_one_store_admit_what_one_would() {
    let (folder, provider) = (folder(), Provider::start());
    let gateways = [(); 2].map(|()| Gateway::start(folder.path(), &provider));
    // Ten calls use ten tokens each, one at a time: the rest of 24 find none.
    let statuses: Vec<u16> = thread::scope(|scope| {
        let call = |number: usize| {
            let gateway = &gateways[number % 2];
            scope.spawn(move || gateway.status("Hi"))
        };
        let calls: Vec<_> = (0..24).map(call).collect();
        calls
            .into_iter()
            .map(|call| call.join().expect("it ends"))
            .collect()
    });
    let admitted = statuses.iter().filter(|status| **status == 200).count();
    let refused = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!((admitted, refused), (10, 14), "{statuses:?}");
    assert_eq!(provider.calls.try_iter().count(), 10);
}

/// A model without a price is refused; the file that gives it one holds once it is read again, and one
/// with a faulty price changes nothing.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how long a test waits is no decision"
)]
fn prices_of_the_file_are_read_again_with_it() {
    const MONEY: &str = "[policy.llm.limits]\n\
        usd = { budget = 10, per = 'day', zone = 'UTC', unit = '0.000001' }\n[price]\n";
    let provider = Provider::start();
    let file = |prices: &str| format!("{MONEY}{prices}\n");
    let folder = folder_with(&file("other = { input = 1, output = 1 }"));
    let path = folder.path().join("tidegate.toml");
    let gateway = Gateway::start(folder.path(), &provider);
    assert_eq!(gateway.status("Hi"), 400);
    std::fs::write(&path, file("m = { input = '1.25', output = 10 }")).expect("written");
    let by = Instant::now() + Duration::from_secs(60);
    while gateway.status("Hi") != 200 {
        assert!(Instant::now() < by, "the price was not read");
    }
    let log = std::fs::read_to_string(folder.path().join("gateway.log")).expect("a log");
    // It said that nothing had changed.
    assert!(log.contains("+ price m, - price other"), "{log}");
    std::fs::write(&path, file("m = { input = 1.25, output = 10 }")).expect("written");
    let checked = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["policy", "check", "tidegate.toml"])
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(
        !checked.status.success() && said.contains("tidegate.toml:4"),
        "{said}"
    );
    assert_eq!(gateway.status("Hi"), 200, "what was read before holds");
}

/// It said nothing, whatever happened before its providers.
#[test]
fn the_log_says_once_that_an_upstream_fails() {
    let folder = folder();
    let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
    let gateway = Gateway::before(folder.path(), nobody, "off", "1s");
    assert_eq!([gateway.status("Hi"), gateway.status("Hi")], [502, 502]);
    let log = std::fs::read_to_string(folder.path().join("gateway.log")).expect("a log");
    let told: Vec<_> = log
        .lines()
        .filter(|line| line.contains("an upstream fails"))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    let names = ["WARN", "upstream=\"fake\"", "cannot be reached", "calls=1"];
    assert!(names.iter().all(|name| told[0].contains(name)), "{told:?}");
}

/// The file was called sound, and the gateway said that the command line was wrong.
#[test]
fn a_file_that_no_gateway_can_go_by_is_its_own_fault_and_is_found_beforehand() {
    let folder = folder_with("[policy.llm.limits]\ntoks = { rate = 100, per = '1h' }\n");
    let ends = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        let output = command.args(words).current_dir(folder.path()).output();
        let output = output.expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().expect("it ends by itself"), error)
    };
    let check = |more: &[&str]| ends(&[&["policy", "check", "tidegate.toml"], more].concat());
    assert_eq!(check(&[]).0, 0);
    assert_eq!(check(&["--gateway", "--counts", "toks=tokens"]).0, 0);
    let (code, why) = check(&["--gateway"]);
    assert!(code == 1 && why.contains("--counts toks=tokens"), "{why}");
    let (code, why) = check(&["--gateway=other"]);
    assert!(
        code == 1 && why.contains("there is no policy `other`"),
        "{why}"
    );
    let begin = [
        "gateway",
        "--config",
        "tidegate.toml",
        "--store",
        "memory:",
        "--listen",
        "127.0.0.1:0",
    ];
    let off = [
        "--http",
        "off",
        "--grpc",
        "off",
        "--resp",
        "off",
        "--upstream",
    ];
    let gateway = |upstream| ends(&[&begin[..], &off, &[upstream]].concat());
    assert_eq!(gateway("openai").0, 1);
    assert_eq!(gateway("one=openai@http://127.0.0.1:1/v1").0, 2);
}

/// Elsewhere what a crashed worker had reserved was lost (LiteLLM #27639), or never expired (TensorZero).
#[test]
fn what_a_killed_gateway_held_is_free_at_once() {
    let (folder, provider) = (folder(), Provider::start());
    let one = Gateway::start(folder.path(), &provider);
    let other = Gateway::start(folder.path(), &provider);
    let held = one.begin("silence");
    provider.calls.recv().expect("it came");
    drop(one);
    assert_eq!(
        other.status("Hi"),
        200,
        "the only slot is back, ten minutes before its ttl"
    );
    drop(held);
}

/// Elsewhere five such calls spent 663 of 100 tokens (LiteLLM #18730), or an estimate of 1,024 locked
/// out every key with a smaller limit (#29191).
#[test]
fn five_calls_without_a_bound_keep_to_a_hundred_tokens_and_none_is_locked_out() {
    let policy =
        |per: &str| format!("[policy.llm.limits]\ntokens = {{ rate = 100, per = '{per}' }}");
    let provider = Provider::start();
    let folder = folder_with(&policy("400d"));
    let gateway = Gateway::before(folder.path(), provider.at, "off", "1ms");
    let mut statuses = gateway.five_unbounded();
    statuses.sort_unstable();
    // Each reserves all there is; who came first has used ten of it.
    assert_eq!(statuses, [200, 429, 429, 429, 429]);
    assert_eq!(provider.calls.try_iter().count(), 1);

    let folder = folder_with(&policy("1s"));
    let gateway = Gateway::before(folder.path(), provider.at, "off", "4m");
    assert_eq!(gateway.five_unbounded(), [200; 5]);
}
