//! The run: connections, the schedule, and a line that says how far it is.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet, spawn_local};
use tonic::transport::Channel;

use crate::args::{Load, Protocol};
use crate::arrivals::Arrivals;
use crate::calls::{self, Asker};
use crate::ledger::Ledger;
use crate::pipeline::{Pipeline, Run};
use crate::policy::Question;
use crate::report::Report;
use crate::tally::Tally;
use crate::watch::{Nanos, Watch};
use crate::wire::{Http, Resp};

/// Puts load on a server, and says what came of it.
pub fn load(load: &Load) -> Result<(), String> {
    let place = load.place()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(in_words)?;
    let local = LocalSet::new();
    let (run, took) = runtime.block_on(local.run_until(play(load, place)))?;
    let tally = run.tally.borrow();
    let report = Report {
        load,
        tally: &tally,
        uses: run.ledger.borrow().uses(),
        unsent: run.arrivals.unsent.get(),
        took,
    };
    tell(load, &report)?;
    report.fault().map_or(Ok(()), Err)
}

/// Connects everything first, so that nobody waits for a connection.
async fn play(load: &Load, place: SocketAddr) -> Result<(Rc<Run>, Nanos), String> {
    let question = Rc::new(Question::of(load).await?);
    let connections = Connections::open(load, place).await?;
    let watch = Watch::start();
    let run = Rc::new(Run {
        watch,
        arrivals: Arrivals::new(load, watch),
        tally: RefCell::new(Tally::new()),
        ledger: RefCell::new(Ledger::new(&question.bounds, load.keys)),
        depth: load.depth(),
    });
    let mut talking = connections.talk(load, &run, &question)?;
    let arrive = Rc::clone(&run);
    let arriving = spawn_local(async move { arrive.arrivals.arrive().await });
    let all = async { while talking.join_next().await.is_some() {} };
    tokio::select! {
        () = all => {}
        () = progress(load, &run) => {}
    }
    arriving.abort();
    run.arrivals.give_up();
    let took = run.tally.borrow().last;
    Ok((run, took))
}

/// Open connections of one protocol.
enum Connections {
    Bytes(Vec<TcpStream>, SocketAddr),
    Calls(Vec<Channel>),
}

impl Connections {
    async fn open(load: &Load, place: SocketAddr) -> Result<Self, String> {
        let help = |error: String| {
            format!("cannot connect to {place} (--server, --protocol): {error}; is a server there?")
        };
        let (mut streams, mut channels) = (Vec::new(), Vec::new());
        for _ in 0..load.connections {
            if load.protocol == Protocol::Grpc {
                channels.push(calls::connect(place).await.map_err(help)?);
                continue;
            }
            let stream = TcpStream::connect(place).await;
            let stream = stream.map_err(|error| help(error.to_string()))?;
            stream.set_nodelay(true).map_err(in_words)?;
            streams.push(stream);
        }
        match load.protocol {
            Protocol::Grpc => Ok(Self::Calls(channels)),
            Protocol::Http | Protocol::Resp => Ok(Self::Bytes(streams, place)),
        }
    }

    fn talk(
        self,
        load: &Load,
        run: &Rc<Run>,
        question: &Rc<Question>,
    ) -> Result<JoinSet<()>, String> {
        let mut talking = JoinSet::new();
        match self {
            Self::Bytes(streams, place) => streams.into_iter().for_each(|stream| {
                let run = Rc::clone(run);
                match load.protocol {
                    Protocol::Http => {
                        let (host, token) = (place.to_string(), load.token.as_deref());
                        let wire = Http::new(question, &host, token, &load.header);
                        talking.spawn_local(Pipeline::new(run, wire, stream).talk());
                    }
                    _ => {
                        let wire = Resp::new(question, load.token.clone());
                        talking.spawn_local(Pipeline::new(run, wire, stream).talk());
                    }
                }
            }),
            Self::Calls(channels) => {
                let token = load
                    .token
                    .as_ref()
                    .map(|token| format!("Bearer {token}").parse());
                let token = token.transpose();
                let token =
                    token.map_err(|_| "--token: it has characters that a header cannot hold")?;
                for channel in channels {
                    let (run, question) = (Rc::clone(run), Rc::clone(question));
                    let asker = Asker::new(run, question, channel, token.clone());
                    match load.batch {
                        Some(batch) => drop(talking.spawn_local(asker.stream(batch as usize))),
                        None => (0..load.depth()).for_each(|_| {
                            talking.spawn_local(asker.clone().call());
                        }),
                    }
                }
            }
        }
        Ok(talking)
    }
}

/// Says every second how far it is, if somebody is looking; never returns.
async fn progress(load: &Load, run: &Run) {
    if load.quiet || load.json || !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let mut before = 0;
    loop {
        second.tick().await;
        let (answered, refused, errors, p99) = {
            let tally = run.tally.borrow();
            let p99 = tally.latency.value_at_percentile(99.0) / 1_000;
            (tally.answered, tally.refused, tally.errors, p99)
        };
        let rate = answered - std::mem::replace(&mut before, answered);
        // Whoever does not read it has not asked.
        let _ = write!(
            std::io::stderr(),
            "\r{answered} answered, {rate}/s, {refused} refused, {errors} errors, p99 {p99} us   "
        );
    }
}

fn in_words(error: std::io::Error) -> String {
    error.to_string()
}

fn tell(load: &Load, report: &Report<'_>) -> Result<(), String> {
    if !load.quiet && !load.json && std::io::stderr().is_terminal() {
        // Clears the line of the progress.
        let _ = write!(std::io::stderr(), "\r{:80}\r", "");
    }
    let text = match load.json {
        true => format!("{:#}\n", report.json()),
        false => report.text(),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(in_words)?;
    if let Some(path) = &load.histogram {
        let written = std::fs::write(path, report.percentiles());
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
