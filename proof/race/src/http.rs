//! One call over one connection, whose client may leave at any byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nobody waits for longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// When a client leaves before it has its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaves {
    /// It stays.
    Never,
    /// Its patience is over.
    After(Duration),
    /// It has read so many bytes.
    AtByte(usize),
}

/// How a call ended, as its client sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The answer came to its end.
    Whole,
    /// A limit refused it (429).
    Refused,
    /// Another error was answered, of that status.
    Failed(u16),
    /// Nobody listened.
    Unreached,
    /// The connection broke.
    Broke,
    /// The client left before its answer began, or in its middle.
    Left,
}

/// Makes a call, and reads its answer to the end or to where the client leaves.
#[must_use]
pub fn call(at: SocketAddr, request: &str, leaves: Leaves) -> Ended {
    let Ok(mut stream) = TcpStream::connect(at) else {
        return Ended::Unreached;
    };
    if stream.write_all(request.as_bytes()).is_err() {
        return Ended::Broke;
    }
    let mut answer = Vec::new();
    match read(&mut stream, &mut answer, leaves) {
        Some(ended) => ended,
        None => told(&answer),
    }
}

/// `None` if the other side has closed.
#[expect(
    clippy::disallowed_methods,
    reason = "a client's patience is by the clock"
)]
fn read(stream: &mut TcpStream, answer: &mut Vec<u8>, leaves: Leaves) -> Option<Ended> {
    let begun = Instant::now();
    let patience = match leaves {
        Leaves::After(patience) => patience,
        _ => PATIENCE,
    };
    let mut bytes = [0; 4_096];
    loop {
        let rest = patience.saturating_sub(begun.elapsed());
        if rest.is_zero() || stream.set_read_timeout(Some(rest)).is_err() {
            return Some(Ended::Left);
        }
        match stream.read(&mut bytes) {
            Ok(0) => return None,
            Ok(length) => answer.extend_from_slice(&bytes[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Some(Ended::Left);
            }
            Err(_) => return Some(Ended::Broke),
        }
        if matches!(leaves, Leaves::AtByte(byte) if answer.len() >= byte) {
            return Some(Ended::Left);
        }
    }
}

/// What an answer says whose connection was closed.
fn told(answer: &[u8]) -> Ended {
    let text = String::from_utf8_lossy(answer);
    let status = text.split(' ').nth(1).and_then(|code| code.parse().ok());
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Ended::Broke;
    };
    match status {
        Some(200) if is_whole(head, body) => Ended::Whole,
        Some(429) => Ended::Refused,
        Some(status @ 400..) => Ended::Failed(status),
        _ => Ended::Broke,
    }
}

/// Whether it has the length that its head says, or a last chunk.
fn is_whole(head: &str, body: &str) -> bool {
    let head = head.to_ascii_lowercase();
    let length: Option<usize> = head
        .split_once("content-length: ")
        .and_then(|(_, rest)| rest.lines().next()?.parse().ok());
    match length {
        Some(length) => body.len() == length,
        None => body.contains("[DONE]") && body.ends_with("0\r\n\r\n"),
    }
}

/// Asks for JSON.
///
/// # Errors
/// If something else is answered.
pub fn json(at: SocketAddr, method: &str, path: &str, body: &str) -> Result<Value, String> {
    let request = request(method, path, &[], body);
    let wrong = |error: std::io::Error| format!("{at}{path}: {error}");
    let mut stream = TcpStream::connect(at).map_err(wrong)?;
    stream.write_all(request.as_bytes()).map_err(wrong)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(wrong)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    serde_json::from_str(body).map_err(|error| format!("{path}: {error}: {answer}"))
}

/// As it is sent: one call, one connection.
#[must_use]
pub fn request(method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let fields: String = fields.collect();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: race\r\nconnection: close\r\n\
         content-type: application/json\r\n{fields}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
