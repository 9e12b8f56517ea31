//! Plays the trace by every client: `cargo xtask trace`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use tidegate_sim::limit::Kind;
use tidegate_trace::course::Course;
use tidegate_trace::gateway::{self, Keeps};
use tidegate_trace::outcome::Outcome;
use tidegate_trace::peers::{self, Peer, version};
use tidegate_trace::table::{Row, table};
use tidegate_trace::{picture, traffic};

/// An hour of real calls before a provider that enforces its limit, by client: a table
#[derive(Debug, Parser)]
#[command(name = "cargo xtask trace")]
struct Trace {
    /// The calls
    #[arg(long, value_name = "PATH")]
    calls: PathBuf,

    /// An interpreter that has what `proof/trace/peers/requirements.txt` names; without it, only the
    /// gateway's row
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// Draw what came of it where the limit changes
    #[arg(long, value_name = "PATH")]
    svg: Option<PathBuf>,

    /// The provider counts by the minute, in place of a bucket that refills all the time
    #[arg(long)]
    windows: bool,

    /// What is left to chance is drawn by it
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    match run(&Trace::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// By what a course is played.
#[derive(Clone, Copy)]
enum Client {
    Gateway,
    Peer(Peer),
}

fn run(trace: &Trace) -> Result<(), String> {
    let calls = traffic::read(&trace.calls)?;
    let mut steady = Course::hour(calls);
    if trace.windows {
        steady.kind = Kind::Window;
    }
    let changing = steady.clone().changing();
    println!("{}\n", steady.said());
    let clients = clients(trace.python.is_some());
    let played = std::thread::scope(|scope| {
        let play = |course, client| scope.spawn(move || play(course, client, trace));
        let playing = clients.iter().map(|(name, client)| {
            let both = (play(&steady, *client), play(&changing, *client));
            (name, both)
        });
        // All are begun before one is waited for.
        let playing: Vec<_> = playing.collect();
        let played = playing.into_iter().map(|(name, (one, other))| {
            let ended = (one.join(), other.join());
            let (Ok(one), Ok(other)) = ended else {
                return Err(format!("{name}: its thread panicked"));
            };
            Ok((name, one?, other?))
        });
        played.collect::<Result<Vec<_>, String>>()
    })?;
    let rows: Vec<Row> = played
        .iter()
        .map(|(name, one, other)| Row {
            name: (*name).clone(),
            steady: one.numbers(&steady),
            changing: other.numbers(&changing),
        })
        .collect();
    print!("{}", table(&rows));
    if let Some(path) = &trace.svg {
        let drawn = played.iter().map(|(name, _, outcome)| (&***name, outcome));
        let svg = picture::draw(&changing, &drawn.collect::<Vec<_>>());
        std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

fn clients(has_python: bool) -> Vec<(String, Client)> {
    let mut clients = vec![(
        "Tidegate's gateway, `learnt = true`".to_owned(),
        Client::Gateway,
    )];
    if has_python {
        let limiter = version("aiolimiter");
        let peers = [
            (format!("{limiter}, set right"), Peer::Fixed(1.0)),
            (format!("{limiter}, 20 % too high"), Peer::Fixed(1.2)),
            (format!("{limiter}, 20 % too low"), Peer::Fixed(0.8)),
            (format!("{}'s own retries", version("openai")), Peer::OpenAi),
            (version("adaptive-rate-limiter"), Peer::Adaptive),
        ];
        clients.extend(peers.map(|(name, peer)| (name, Client::Peer(peer))));
    }
    clients
}

fn play(course: &Course, client: Client, trace: &Trace) -> Result<Outcome, String> {
    match client {
        Client::Gateway => gateway::play(course, Keeps::Learnt(course.wrong_start()), trace.seed),
        Client::Peer(peer) => {
            let python = trace.python.as_deref().unwrap_or(Path::new("python3"));
            peers::play(course, peer, python, trace.seed)
        }
    }
}
