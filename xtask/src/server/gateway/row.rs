//! One that is compared, and what was seen of it.

use std::path::Path;
use std::process::Command;

use super::streams::{self, Streamed};
use crate::server::clients::{Seen, load};
use crate::server::hosts::{Host, Ports};
use crate::server::measure::median;

/// How many calls are under way where as many are answered as can be.
const MANY: usize = 32;

/// How many streams come at once while their first events and gaps are measured.
const STREAMS: u32 = 16;

/// At a given rate so many connections share the calls: enough that the rate is kept to.
const CONNECTIONS: usize = 128;

/// The parts of what it answers at most at which it is tried whether anything fails.
const PARTS: [f64; 7] = [0.95, 0.85, 0.75, 0.6, 0.45, 0.3, 0.15];

/// A first call may take so many seconds: much is loaded then.
const FIRST: f64 = 120.0;

/// A call that waits for longer, at a given rate, has failed, in microseconds.
const LATE: f64 = 50e3;

/// What a caller shows.
const TOKEN: &str = "sk-bench-0123456789abcdef";

const CALL: &str = r#"{"model":"m","max_tokens":16,"user":"x-sim: output=16","messages":[{"role":"user","content":"What is the tide doing today?"}]}"#;

/// The end of what was said, on one line.
pub fn brief(why: &str) -> String {
    let words: Vec<&str> = why.split_whitespace().collect();
    let line = words.join(" ");
    let more = line.chars().count().saturating_sub(300);
    line.chars().skip(more).collect()
}

/// One that is compared; the first is the provider itself. By round, in order; a round in which it
/// failed has no figure, and is told.
pub struct Row {
    pub what: &'static str,
    host: Host,
    headers: Vec<String>,
    pub alone: Vec<Option<Seen>>,
    pub many: Vec<Option<Seen>>,
    pub cpu_us: Vec<Option<f64>>,
    pub streamed: Vec<Option<Streamed>>,
    /// The highest rate without failure, and by round what is seen there of it and of the provider.
    pub highest: Option<f64>,
    pub at_highest: Vec<(Seen, Seen)>,
    /// So many streams at once lost nothing.
    pub held: u32,
    /// Resident bytes: before anything was asked, while calls come, and after a rest.
    pub idle: f64,
    pub steady: Vec<f64>,
    pub rested: f64,
    /// What failed.
    pub failures: Vec<String>,
}

impl Row {
    pub fn start(
        what: &'static str,
        command: &mut Command,
        port: u16,
        headers: Vec<String>,
    ) -> Result<Self, String> {
        let ports = Ports {
            http: port,
            ..Ports::default()
        };
        Ok(Self {
            what,
            host: Host::start(what, command, ports)?,
            headers,
            alone: Vec::new(),
            many: Vec::new(),
            cpu_us: Vec::new(),
            streamed: Vec::new(),
            highest: None,
            at_highest: Vec::new(),
            held: 0,
            idle: f64::NAN,
            steady: Vec::new(),
            rested: f64::NAN,
            failures: Vec::new(),
        })
    }

    /// Whether it answers a call as the provider does.
    pub fn warm(&self, program: &Path) -> Result<(), String> {
        let one = ["--closed", "--connections", "1", "--asks", "1"];
        self.calls(program, &one, FIRST).map(drop)
    }

    pub fn is_idle(&mut self) {
        self.idle = self.resident();
    }

    pub fn has_rested(&mut self) {
        self.rested = self.resident();
    }

    fn resident(&self) -> f64 {
        self.host.resident().unwrap_or(f64::NAN)
    }

    fn server(&self) -> String {
        format!("127.0.0.1:{}", self.host.ports.http)
    }

    fn fields(&self) -> Vec<String> {
        let token = format!("authorization: Bearer {TOKEN}");
        [&[token][..], &self.headers].concat()
    }

    fn calls(&self, program: &Path, how: &[&str], seconds: f64) -> Result<Seen, String> {
        let (server, call) = (self.server(), format!("POST /v1/chat/completions {CALL}"));
        let mut arguments = vec!["--protocol", "http", "--server", &server, "--raw", &call];
        arguments.extend(["--token", TOKEN]);
        let fields = self.headers.iter();
        arguments.extend(fields.flat_map(|field| ["--header", field]));
        arguments.extend(how);
        load(program, &arguments, seconds)
    }

    /// One call after the other; as many as it can answer; and streams.
    pub fn ask(&mut self, program: &Path, seconds: f64) {
        let closed = |connections: usize| {
            let connections = connections.to_string();
            self.calls(
                program,
                &["--closed", "--connections", &connections],
                seconds,
            )
        };
        let alone = closed(1);
        let before = self.host.cpu_secs();
        let many = closed(MANY);
        let cpu = before.and_then(|before| Ok(self.host.cpu_secs()? - before));
        let streamed = streams::read(&self.server(), &self.fields(), STREAMS);
        let answers = many.as_ref().map_or(f64::NAN, |seen| seen.answers);
        self.cpu_us.push(
            cpu.ok()
                .map(|cpu| cpu * 1e6 / answers)
                .filter(|cpu| cpu.is_finite()),
        );
        self.steady.push(self.resident());
        let alone = self.noted("one call at once", alone);
        self.alone.push(alone);
        let many = self.noted("32 calls at once", many);
        self.many.push(many);
        let streamed = self.noted("16 streams at once", streamed);
        self.streamed.push(streamed);
    }

    fn noted<T>(&mut self, during: &str, seen: Result<T, String>) -> Option<T> {
        seen.map_err(|why| {
            let why = brief(&why);
            eprintln!("{}: {during}: {why}", self.what);
            self.failures.push(format!("{during}: {why}"));
        })
        .ok()
    }

    fn at(&self, program: &Path, rate: f64, seconds: f64) -> Result<Seen, String> {
        let (rate, connections) = (format!("{rate:.1}/s"), CONNECTIONS.to_string());
        let how = [
            "--rate",
            &rate,
            "--connections",
            &connections,
            "--depth",
            "1",
        ];
        let seen = self.calls(program, &how, seconds)?;
        match seen.latency_us[1] <= LATE {
            true => Ok(seen),
            false => Err(format!(
                "at {rate} the 99th percentile was {:.0} us",
                seen.latency_us[1]
            )),
        }
    }

    /// Looks for the highest rate at which every call is answered in time, and asks there again,
    /// in turns with the provider itself.
    pub fn find_highest(&mut self, direct: &Self, program: &Path, options: &super::Options) {
        let rates = self.many.iter().flatten().map(|seen| seen.rate);
        let most = median(&rates.collect::<Vec<_>>());
        if most.is_nan() {
            return;
        }
        let mut rates = PARTS.iter().map(|part| part * most);
        let all_well = |rate: &f64| self.at(program, *rate, options.seconds).is_ok();
        self.highest = rates.find(all_well);
        let Some(rate) = self.highest else {
            return;
        };
        for _ in 0..options.rounds {
            let pair = self
                .at(program, rate, options.seconds)
                .and_then(|seen| Ok((seen, direct.at(program, rate, options.seconds)?)));
            let pair = self.noted("at the highest rate", pair);
            self.at_highest.extend(pair);
        }
    }

    /// Holds more and more streams at once, until one of them loses something.
    pub fn hold(&mut self, numbers: &[u32]) {
        for number in numbers {
            match streams::read(&self.server(), &self.fields(), *number) {
                Ok(_) => self.held = *number,
                Err(why) => {
                    eprintln!("{}: {number} streams at once: {why}", self.what);
                    return;
                }
            }
        }
    }
}
