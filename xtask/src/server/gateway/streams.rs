//! A client of many streams at once: what each says, and when.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// How many tokens a stream has, a word each, and how far apart they are sent.
const TOKENS: usize = 64;
const GAP: Duration = Duration::from_millis(20);

/// From its first token to its last a stream takes this many times as long at most.
const PATIENCE: u32 = 4;

/// Whoever says nothing for so long has lost something.
const SILENCE: Duration = Duration::from_secs(10);

/// What a thread that reads one stream needs.
const STACK: usize = 128 * 1024;

const STREAM: &str = r#"{"model":"m","max_tokens":64,"stream":true,"stream_options":{"include_usage":true},"user":"x-sim: output=64,first=20ms,gap=20ms","messages":[{"role":"user","content":"Go on"}]}"#;

/// What was seen of streams at once, in microseconds: until the first token, and between two; each
/// p50 and p99.
#[derive(Clone, Copy, Debug)]
pub struct Streamed {
    pub first_us: [f64; 2],
    pub gap_us: [f64; 2],
}

/// So many streams at once. They begin one after the other within the time between two tokens: a
/// stream is not to wait for the beginnings of all others on one core.
///
/// # Errors
/// One of them lost a token, broke off, or took too long.
pub fn read(server: &str, fields: &[String], number: u32) -> Result<Streamed, String> {
    let read = thread::scope(|scope| {
        let spawn = |nth| {
            let thread = thread::Builder::new().stack_size(STACK);
            let after = GAP * nth / number.max(1);
            thread.spawn_scoped(scope, move || stream(server, fields, after))
        };
        let threads: Vec<_> = (0..number).map(spawn).collect();
        let ended = threads.into_iter().map(|thread| {
            let thread = thread.map_err(|error| error.to_string())?;
            thread.join().map_err(|_| "a client failed".to_owned())?
        });
        ended.collect::<Result<Vec<_>, String>>()
    })?;
    let first = read.iter().map(|instants| instants[0]).collect();
    let gaps = read.iter().flat_map(|instants| instants.windows(2));
    Ok(Streamed {
        first_us: percentiles(first),
        gap_us: percentiles(gaps.map(|two| two[1] - two[0]).collect()),
    })
}

/// When each token of a stream that begins `after` so long arrived, in microseconds.
#[expect(clippy::disallowed_methods, reason = "what is measured is time")]
fn stream(server: &str, fields: &[String], after: Duration) -> Result<Vec<f64>, String> {
    let wrong = |error: Error| match error.kind() {
        ErrorKind::WouldBlock => format!("nothing came for {SILENCE:?}"),
        _ => error.to_string(),
    };
    let mut connection = TcpStream::connect(server).map_err(wrong)?;
    connection.set_read_timeout(Some(SILENCE)).map_err(wrong)?;
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let call = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n{fields}\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{STREAM}",
        STREAM.len()
    );
    thread::sleep(after);
    let begun = Instant::now();
    connection.write_all(call.as_bytes()).map_err(wrong)?;
    let (mut bytes, mut events, mut instants) = ([0; 16_384], Events::default(), Vec::new());
    while !events.is_done {
        let length = connection.read(&mut bytes).map_err(wrong)?;
        if length == 0 {
            return Err(format!("a stream broke off: {}", events.rest()));
        }
        let tokens = events.read(&bytes[..length])?;
        let at = begun.elapsed().as_secs_f64() * 1e6;
        instants.extend(std::iter::repeat_n(at, tokens));
    }
    let took = instants.last().unwrap_or(&0.0) - instants.first().unwrap_or(&0.0);
    let most = (GAP * PATIENCE * TOKENS as u32).as_micros() as f64;
    match instants.len() {
        TOKENS if took <= most => Ok(instants),
        TOKENS => Err(format!("a stream took {:.1} s", took / 1e6)),
        tokens => Err(format!("a stream had {tokens} of {TOKENS} tokens")),
    }
}

/// An answer as it comes: its head, perhaps chunks, and in them lines.
#[derive(Default)]
struct Events {
    /// What has come and is not read.
    raw: Vec<u8>,
    /// Whether what is behind the head comes in chunks, once that is known.
    is_chunked: Option<bool>,
    /// A line whose end has not come.
    line: Vec<u8>,
    is_done: bool,
}

impl Events {
    /// How many tokens these bytes complete.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, String> {
        self.raw.extend_from_slice(bytes);
        let Some(is_chunked) = self.head()? else {
            return Ok(0);
        };
        let mut tokens = 0;
        while let Some(part) = self.part(is_chunked)? {
            for byte in part {
                match byte {
                    b'\n' => tokens += self.end_line(),
                    byte => self.line.push(byte),
                }
            }
        }
        Ok(tokens)
    }

    fn head(&mut self) -> Result<Option<bool>, String> {
        if self.is_chunked.is_none()
            && let Some(end) = self.raw.windows(4).position(|four| four == b"\r\n\r\n")
        {
            let head = self.raw.drain(..end + 4).collect();
            let head = String::from_utf8(head).map_err(|_| "the head is no text")?;
            let head = head.to_ascii_lowercase();
            if !head.starts_with("http/1.1 200") {
                return Err(format!("{} {}", head.trim(), self.rest()));
            }
            self.is_chunked = Some(head.contains("transfer-encoding: chunked"));
        }
        Ok(self.is_chunked)
    }

    /// The next bytes behind the head, if they are there as a whole.
    fn part(&mut self, is_chunked: bool) -> Result<Option<Vec<u8>>, String> {
        if !is_chunked {
            let all = std::mem::take(&mut self.raw);
            return Ok(Some(all).filter(|all| !all.is_empty()));
        }
        let Some(end) = self.raw.windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let size = String::from_utf8_lossy(&self.raw[..end]);
        let size = size.split(';').next().unwrap_or_default().trim();
        let size = usize::from_str_radix(size, 16).map_err(|_| "a chunk without a size")?;
        let from = end + 2;
        if self.raw.len() - from < size.saturating_add(2) {
            return Ok(None);
        }
        let part = self.raw[from..from + size].to_vec();
        self.raw.drain(..from + size + 2);
        Ok(Some(part).filter(|part| !part.is_empty()))
    }

    /// How many tokens the line says that has ended.
    fn end_line(&mut self) -> usize {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        self.is_done |= line.starts_with("data:") && line.contains("[DONE]");
        let Some((_, text)) = line.split_once("\"content\":") else {
            return 0;
        };
        let text = text.trim_start().strip_prefix('"').unwrap_or_default();
        let text = text.split('"').next().unwrap_or_default();
        text.split_whitespace().count()
    }

    fn rest(&self) -> String {
        String::from_utf8_lossy(&self.raw)
            .chars()
            .take(200)
            .collect()
    }
}

fn percentiles(mut numbers: Vec<f64>) -> [f64; 2] {
    numbers.sort_by(f64::total_cmp);
    let at = |part: f64| numbers[((numbers.len() - 1) as f64 * part) as usize];
    [at(0.5), at(0.99)]
}

#[cfg(test)]
mod tests {
    use super::Events;

    const BODY: &str = "data: {\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}\n\n\
        data: {\"delta\":{\"content\": \"the\"}}\n\ndata: {\"delta\":{\"content\":\" tide rises\"}}\n\n\
        data: {\"delta\":{},\"usage\":{}}\n\ndata: [DONE]\n\n";

    #[test]
    fn the_tokens_of_a_stream_are_counted_wherever_it_is_cut() {
        let (begin, end) = BODY.split_at(70);
        let chunked = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{begin}\r\n{:x}\r\n{end}\r\n0\r\n\r\n",
            begin.len(),
            end.len()
        );
        for answer in [format!("HTTP/1.1 200 OK\r\n\r\n{BODY}"), chunked] {
            for size in 1..answer.len() {
                let mut events = Events::default();
                let parts = answer.as_bytes().chunks(size);
                let tokens: usize = parts.map(|part| events.read(part).unwrap()).sum();
                assert_eq!((tokens, events.is_done), (3, true), "{size}");
            }
        }
        let refused = Events::default().read(b"HTTP/1.1 500 No\r\n\r\nwhy");
        assert!(refused.unwrap_err().contains("why"));
    }
}
