//! What takes minutes says how far it is: a line now and then, on a terminal or not.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::command::show;

/// How often a line comes.
const EVERY: Duration = Duration::from_secs(10);

/// How often a program that runs is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Builds, and says how many of how many crates are done; what cargo says beside that is
/// passed on.
pub fn build(cargo: &mut Command) -> Result<(), String> {
    println!("$ {}", show(cargo));
    cargo.env("CARGO_TERM_COLOR", "never");
    cargo.env("CARGO_TERM_PROGRESS_WHEN", "always");
    cargo.env("CARGO_TERM_PROGRESS_WIDTH", "80");
    let mut child = cargo.stderr(Stdio::piped()).spawn().map_err(told)?;
    let mut clock = Clock::start();
    if let Some(stderr) = child.stderr.take() {
        follow(BufReader::new(stderr), &mut clock);
    }
    ended(child.wait().map_err(told)?, cargo)?;
    println!("built in {}", clock.so_far());
    Ok(())
}

/// Runs a program, and meanwhile says what `line` makes of the seconds since its start.
pub fn run(command: &mut Command, line: impl Fn(u64) -> String) -> Result<(), String> {
    println!("$ {}", show(command));
    let mut child = command.spawn().map_err(told)?;
    let mut clock = Clock::start();
    loop {
        if let Some(status) = child.try_wait().map_err(told)? {
            return ended(status, command);
        }
        if clock.is_due() {
            println!("{}, {}", line(clock.seconds()), clock.so_far());
        }
        std::thread::park_timeout(LOOK);
    }
}

fn follow(mut stderr: impl BufRead, clock: &mut Clock) {
    while let Some(piece) = piece(&mut stderr) {
        match Piece::of(&piece) {
            Piece::Count(done, all) if clock.is_due() => {
                println!("building {done} of {all}, {}", clock.so_far());
            }
            Piece::Count(..) | Piece::Noise => {}
            Piece::Line => eprintln!("{}", piece.trim_end()),
        }
    }
}

/// Up to the end of a line, or to where cargo writes over it.
fn piece(stderr: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    for byte in stderr.bytes().map_while(Result::ok) {
        match byte {
            b'\r' | b'\n' => return Some(String::from_utf8_lossy(&bytes).into_owned()),
            byte => bytes.push(byte),
        }
    }
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// What cargo says in one piece.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// So many crates of so many are built.
    Count(u32, u32),
    /// One crate of hundreds, or a bar without a count.
    Noise,
    /// What a reader wants to see: an error, a wait for a lock.
    Line,
}

impl Piece {
    fn of(piece: &str) -> Piece {
        let text = piece.trim();
        match text.split_whitespace().next() {
            None | Some("Compiling" | "Downloaded" | "Finished") => Piece::Noise,
            Some("Building") => counted(text).map_or(Piece::Noise, |(n, m)| Piece::Count(n, m)),
            Some("Downloading") if text.contains('[') => Piece::Noise,
            Some(_) => Piece::Line,
        }
    }
}

/// From `Building [====>    ] 212/335: tokio, syn`.
fn counted(text: &str) -> Option<(u32, u32)> {
    let (_, count) = text.split_once("] ")?;
    let count = count.split(':').next()?;
    let (done, all) = count.trim().split_once('/')?;
    Some((done.parse().ok()?, all.parse().ok()?))
}

/// How long it has taken, and when the next line is due.
struct Clock {
    start: Instant,
    due: Duration,
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a reader has waited is not a decision"
)]
impl Clock {
    fn start() -> Clock {
        Clock {
            start: Instant::now(),
            due: EVERY,
        }
    }

    fn seconds(&self) -> u64 {
        self.start.elapsed().as_secs()
    }
}

impl Clock {
    /// Once in [`EVERY`].
    fn is_due(&mut self) -> bool {
        let elapsed = Duration::from_secs(self.seconds());
        let is_due = elapsed >= self.due;
        if is_due {
            self.due = elapsed + EVERY;
        }
        is_due
    }

    fn so_far(&self) -> String {
        spelled(self.seconds())
    }
}

fn spelled(seconds: u64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

fn ended(status: ExitStatus, command: &Command) -> Result<(), String> {
    match status.success() {
        true => Ok(()),
        false => Err(format!("failed ({status}): {}", show(command))),
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::{Piece, piece, spelled};

    #[test]
    fn cargos_bar_is_read_and_its_errors_are_passed_on() {
        let of = |text: &str| Piece::of(text);
        let bar = "    Building [=====>     ] 212/335: tokio, syn(build.rs)";
        assert_eq!(of(bar), Piece::Count(212, 335));
        assert_eq!(of("   Compiling syn v2.0.119"), Piece::Noise);
        assert_eq!(
            of("Downloading [==> ] 3 crates, remaining 2MB"),
            Piece::Noise
        );
        assert_eq!(of("error: could not compile `tidegate`"), Piece::Line);
        assert_eq!(of("    Blocking waiting for file lock"), Piece::Line);
    }

    #[test]
    fn a_line_ends_where_cargo_writes_over_it() {
        let mut text = "Building [ ] 1/2: a\rCompiling b\nerror".as_bytes();
        let pieces: Vec<_> = std::iter::from_fn(|| piece(&mut text)).collect();
        assert_eq!(pieces, ["Building [ ] 1/2: a", "Compiling b", "error"]);
    }

    #[test]
    fn a_time_is_spelled_in_minutes_from_the_first_on() {
        assert_eq!(
            [59, 60, 190].map(spelled),
            ["59 s", "1 min 0 s", "3 min 10 s"]
        );
    }
}
