//! The trace through a program of Python's (`peers/`): it says when it asks what, by the time of its own
//! event loop, and the provider answers through the pipe.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tidegate_core::{Span, Timestamp};
use tidegate_sim::call::{Call, Shape};
use tidegate_sim::shapes;
use tidegate_sim::sim::{End, Reply, Sim};

use crate::book::Book;
use crate::course::{BEGIN, Course, PATIENCE};
use crate::outcome::{Known, Outcome};
use crate::traffic::Ask;

/// A client of `peers/clients.py`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Peer {
    /// OpenAI's SDK by itself.
    OpenAi,
    /// OpenAI's SDK behind aiolimiter, at the limit of the beginning times that.
    Fixed(f64),
    /// adaptive-rate-limiter.
    Adaptive,
}

impl Peer {
    const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Fixed(_) => "fixed",
            Self::Adaptive => "adaptive",
        }
    }

    const fn factor(self) -> f64 {
        match self {
            Self::Fixed(factor) => factor,
            Self::OpenAi | Self::Adaptive => 1.0,
        }
    }
}

/// A package and its version, as `peers/requirements.txt` has it.
#[must_use]
pub fn version(package: &str) -> String {
    let mut lines = include_str!("../peers/requirements.txt").lines();
    let line = lines.find(|line| line.split("==").next() == Some(package));
    line.unwrap_or(package).replace("==", " ")
}

/// Ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Plays a course by a client that this interpreter runs, which has what `peers/requirements.txt` says.
///
/// # Errors
/// What could not be begun, and what the client says that is no message.
pub fn play(course: &Course, peer: Peer, python: &Path, seed: u64) -> Result<Outcome, String> {
    let client = peer.name();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/clients.py");
    let mut command = Command::new(python);
    command
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let child = command.spawn();
    let child = child.map_err(|error| format!("{}: {error}", python.display()))?;
    let mut running = Running(child);
    let mut to = running.0.stdin.take().ok_or("no pipe")?;
    let from = running.0.stdout.take().ok_or("no pipe")?;
    let told = |error: std::io::Error| format!("{client}: {error}");
    writeln!(to, "{}", task(course, peer, seed)).map_err(told)?;
    let book = Book::default();
    let mut sim = book.provider(course, seed);
    let mut outcome = Outcome::default();
    for line in BufReader::new(from).lines() {
        let line = line.map_err(told)?;
        let message: Value =
            serde_json::from_str(&line).map_err(|_| format!("{client}: {line}"))?;
        let at = Duration::from_micros(message["at"].as_u64().unwrap_or(0));
        if let Some(number) = message["ask"].as_u64() {
            let number = usize::try_from(number).ok();
            let ask = number.and_then(|number| course.calls.get(number));
            let answer = answer(&mut sim, at, ask.ok_or("no such call")?)?;
            writeln!(to, "{answer}").map_err(told)?;
        } else if let Some(limit) = message["knows"].as_u64() {
            outcome.known.push(Known { at, limit });
        } else if let Some(waits) = message["waits"].as_array() {
            let waits = waits
                .iter()
                .map(|wait| wait.as_u64().map(Duration::from_micros));
            outcome.waits = waits.collect();
        } else {
            return Err(format!("{client}: {line}"));
        }
    }
    if outcome.waits.len() != course.calls.len() {
        return Err(format!("{client}: it ended before its last call"));
    }
    outcome.decided = book.take();
    Ok(outcome)
}

/// What the client is to do.
fn task(course: &Course, peer: Peer, seed: u64) -> Value {
    let calls = course.calls.iter().map(|ask| {
        let at = u64::try_from(ask.at.as_micros()).unwrap_or(u64::MAX);
        json!([at, ask.prompt, ask.output])
    });
    json!({
        "client": peer.name(),
        "factor": peer.factor(),
        "seed": seed,
        "begin_s": BEGIN.as_micros() / 1_000_000,
        "patience_s": PATIENCE.as_secs(),
        "limit": course.limit,
        "calls": calls.collect::<Vec<_>>(),
    })
}

/// What the provider answers, and after how long the client has it.
fn answer(sim: &mut Sim, at: Duration, ask: &Ask) -> Result<Value, String> {
    let body = json!({ "model": "m", "max_tokens": ask.output });
    let wish = format!("input={}", ask.prompt);
    let body = body.to_string();
    let call = Call::read(
        Shape::Chat,
        "/chat/completions",
        body.as_bytes(),
        Some(&wish),
    )?;
    let now: Timestamp = BEGIN + Span::from(at);
    let told = |headers: Vec<(&'static str, String)>| {
        let headers = headers.into_iter();
        let headers = headers.map(|(name, value)| (name.to_owned(), Value::from(value)));
        headers.collect::<Map<String, Value>>()
    };
    Ok(match sim.ask(now, "ours", &call) {
        Reply::Refusal(refusal) => json!({
            "status": refusal.status,
            "after_us": 0,
            "headers": told(refusal.headers),
            "body": refusal.body,
        }),
        Reply::Answer(answer, headers) => {
            sim.produced(now, answer.id, answer.tokens);
            sim.end(now, answer.id, End::Whole);
            json!({
                "status": 200,
                "after_us": answer.pace.whole(answer.tokens).as_micros(),
                "headers": told(headers),
                "body": shapes::whole(&answer),
            })
        }
    })
}
