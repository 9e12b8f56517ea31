//! The program, over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

struct Provider {
    process: Child,
    at: SocketAddr,
}

impl Provider {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_provider"));
        command.args(words).stdout(Stdio::piped());
        let mut process = command.spawn().expect("the program runs");
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().expect("piped"));
        said.read_line(&mut line).expect("it says where it is");
        let at = line.trim().trim_start_matches("http://").parse();
        Self {
            process,
            at: at.expect("an address"),
        }
    }

    /// A call on its way.
    fn begin(&self, path: &str, wish: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.at).expect("it listens");
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer me\r\nx-sim: {wish}\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).expect("sent");
        stream
    }

    fn ask(&self, path: &str, wish: &str, body: &str) -> String {
        let mut answer = String::new();
        let mut stream = self.begin(path, wish, body);
        stream.read_to_string(&mut answer).expect("text");
        answer
    }

    fn ledger(&self) -> Value {
        let mut stream = TcpStream::connect(self.at).expect("it listens");
        let get = b"GET /sim/ledger HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(get).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        serde_json::from_str::<Value>(body).expect("JSON")["me"].clone()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const CHAT: &str = "/v1/chat/completions";
const CALL: &str = r#"{"model":"m","max_tokens":9,"stream":true,"messages":[]}"#;

#[test]
fn every_shape_says_in_its_stream_what_the_ledger_has() {
    let provider = Provider::start(&[]);
    let gemini = "/v1beta/models/m:streamGenerateContent";
    let last = [
        (CHAT, "data: [DONE]"),
        ("/v1/responses", "response.completed"),
        ("/v1/messages", "message_stop"),
        (gemini, "\"candidatesTokenCount\":9"),
    ];
    for (path, last) in last {
        let answer = provider.ask(path, "output=9,input=4", CALL);
        assert!(answer.contains("text/event-stream"), "{answer}");
        assert!(answer.contains(last), "{answer}");
        assert!(answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    }
    let ledger = provider.ledger();
    assert_eq!(ledger["whole"], 4);
    assert_eq!(
        (&ledger["input_tokens"], &ledger["output_tokens"]),
        (&16.into(), &36.into())
    );
}

#[test]
fn a_stream_that_is_cut_has_brought_its_tokens_and_no_end() {
    let provider = Provider::start(&[]);
    let answer = provider.ask(CHAT, "output=9,cut=3", CALL);
    assert_eq!(answer.matches("\"content\":").count(), 1 + 3, "{answer}");
    assert!(!answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    let ended = provider.ask(CHAT, "output=9,end=3", CALL);
    assert!(
        ended.ends_with("\r\n0\r\n\r\n") && !ended.contains("[DONE]"),
        "{ended}"
    );
    let failed = provider.ask(CHAT, "output=9,error=3", CALL);
    assert!(failed.contains("server_error"), "{failed}");
    let ledger = provider.ledger();
    assert_eq!(
        (&ledger["broken"], &ledger["output_tokens"]),
        (&3.into(), &9.into())
    );
}

#[test]
fn a_client_that_goes_away_has_used_what_was_produced_until_then() {
    let provider = Provider::start(&[]);
    let mut stream = BufReader::new(provider.begin(CHAT, "output=9,silence=4", CALL));
    let mut tokens = 0;
    while tokens < 1 + 4 {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).expect("text"), 0, "it goes on");
        tokens += line.matches("\"content\":").count();
    }
    assert_eq!(provider.ledger()["open"], 1);
    drop(stream);
    // It learns of that when the connection tells it.
    while provider.ledger()["open"] == 1 {}
    let ledger = provider.ledger();
    assert_eq!(
        (&ledger["cut_by_client"], &ledger["output_tokens"]),
        (&1.into(), &4.into())
    );
}

#[test]
fn what_makes_no_sense_is_told_and_counted() {
    let provider = Provider::start(&["--limit", "requests=1/1m"]);
    let status = |path, wish, body| {
        let answer = provider.ask(path, wish, body);
        answer
            .split(' ')
            .nth(1)
            .map(str::to_owned)
            .expect("a status")
    };
    assert_eq!(status("/v1/files", "output=1", CALL), "404");
    assert_eq!(status(CHAT, "beans=1", CALL), "400");
    assert_eq!(status(CHAT, "output=1", "{}"), "400");
    assert_eq!(status(CHAT, "status=529", CALL), "529");
    assert_eq!(provider.ledger()["bad"], 3);
    assert_eq!(provider.ledger()["failed"], 1);
    let words = ["--change", "1s:tokens=5/1m", "--limit", "tokens=5/1h"];
    let wrong = Command::new(env!("CARGO_BIN_EXE_provider"))
        .args(words)
        .output();
    let wrong = wrong.expect("it runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("no --limit has that unit and period"));
}
