//! A process that asks: how each is had and started, and what a lap came to.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::command::root;
use crate::server::clients::number;
use crate::server::hosts::{client_core, pinned};
use crate::server::peers::{home, install_wheel};

/// Where one is started.
pub struct Place<'a> {
    /// Our own program.
    pub program: &'a Path,
    /// Where DynamoDB is.
    pub endpoint: &'a str,
}

/// One that is compared.
pub struct Kind {
    pub what: &'static str,
    /// Sees to it that it is there; or why it cannot be.
    command: fn(&Place<'_>) -> Result<Command, String>,
}

/// What is named in the table.
pub const BARE: &str = "bare update";
pub const ZAE: &str = "zae-limiter 0.17";

/// All of them; ours is the first.
pub const KINDS: [Kind; 3] = [
    Kind {
        what: "ours",
        command: |place| Ok(own(place, "ours")),
    },
    Kind {
        what: BARE,
        command: |place| Ok(own(place, "bare")),
    },
    Kind {
        what: ZAE,
        command: zae,
    },
];

fn own(place: &Place<'_>, what: &str) -> Command {
    let mut command = pinned(&client_core(), &place.program.display().to_string());
    command.args([what, "--endpoint", place.endpoint, "--table", what]);
    command
}

fn zae(place: &Place<'_>) -> Result<Command, String> {
    install_wheel("zae-limiter", &["zae-limiter==0.17.0"])?;
    let python = home("zae-limiter/bin/python");
    let mut command = pinned(&client_core(), &python.display().to_string());
    command.arg(root().join("proof/bench-dynamodb/zae.py"));
    command.args(["--endpoint", place.endpoint, "--table", "zae"]);
    Ok(command)
}

/// What a lap came to.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// Decisions a second.
    pub rate: f64,
    /// Microseconds of its CPU time for each.
    pub cpu_us: f64,
    /// How long one took, in microseconds: p50, p99.
    pub latency_us: [f64; 2],
}

impl Lap {
    /// As a process tells it.
    fn read(told: &str) -> Option<Self> {
        let number = |name| number(told, name);
        Some(Self {
            rate: number("decisions")? / number("seconds")?,
            cpu_us: number("cpu_us")?,
            latency_us: [number("p50_us")?, number("p99_us")?],
        })
    }
}

/// A process that asks when it is told; it ends when this is dropped.
pub struct Asker {
    pub what: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Asker {
    pub fn start(kind: &Kind, place: &Place<'_>) -> Result<Self, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", kind.what);
        let mut command = (kind.command)(place)?;
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Ok(Self {
            what: kind.what,
            process,
            input: input.ok_or("no input")?,
            output: BufReader::new(output.ok_or("no output")?),
        })
    }

    /// A lap, as `proof/bench-dynamodb/src/main.rs` reads it.
    pub fn ask(&mut self, lap: &str) -> Result<Lap, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", self.what);
        let mut told = String::new();
        writeln!(self.input, "{lap}").map_err(wrong)?;
        self.output.read_line(&mut told).map_err(wrong)?;
        Lap::read(&told).ok_or_else(|| format!("{}: {lap}: it says {told:?}", self.what))
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::Lap;

    #[test]
    fn a_lap_is_read_as_either_program_tells_it() {
        let told =
            r#"{"decisions": 300, "seconds": 1.5, "cpu_us": 81.25, "p50_us": 700, "p99_us": 2e3}"#;
        let lap = Lap::read(told).unwrap();
        assert_eq!((lap.rate, lap.cpu_us), (200.0, 81.25));
        assert_eq!(lap.latency_us, [700.0, 2_000.0]);
        assert!(Lap::read("").is_none());
    }
}
