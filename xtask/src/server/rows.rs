//! Who is asked what, and by whom.

use std::path::{Path, PathBuf};

use super::clients::{self, Seen};
use super::hosts::{Host, Ports};
use super::measure::{Asking, Contender, Outcome, compare};
use super::options::Options;
use super::peers;
use crate::command::{cargo, run, target_directory};
use crate::needs;

/// What is compared.
pub struct Row {
    pub name: &'static str,
    pub purpose: &'static str,
    pub run: fn(&Bench) -> Result<Vec<Outcome>, String>,
}

pub const ROWS: &[Row] = &[
    Row {
        name: "resp-1",
        purpose: "RESP, 50 connections, one command at once, by redis-benchmark",
        run: |bench| resp(bench, "resp-1", 1),
    },
    Row {
        name: "resp-16",
        purpose: "the same, sixteen at once",
        run: |bench| resp(bench, "resp-16", 16),
    },
    Row {
        name: "http",
        purpose: "HTTP, 50 connections, by tidegate-load",
        run: http,
    },
    Row {
        name: "grpc",
        purpose: "unary gRPC, 50 connections, one key, by h2load",
        run: grpc,
    },
    Row {
        name: "stream",
        purpose: "a gRPC stream of batches of 500, by tidegate-load",
        run: stream,
    },
    Row {
        name: "lease-resp",
        purpose: "a lease and its settlement beside a check, over RESP, by tidegate-load",
        run: |bench| leases(bench, "lease-resp", "resp", |ports| ports.resp),
    },
    Row {
        name: "lease-http",
        purpose: "the same, over HTTP",
        run: |bench| leases(bench, "lease-http", "http", |ports| ports.http),
    },
    Row {
        name: "lease-grpc",
        purpose: "the same, over gRPC",
        run: |bench| leases(bench, "lease-grpc", "grpc", |ports| ports.grpc),
    },
    Row {
        name: "memory",
        purpose: "resident memory for each of a million keys",
        run: memory,
    },
];

/// A rate that a hundred thousand keys asked at random seldom reach, the same in
/// every server's words.
const BURST: &str = "99";
const COUNT: &str = "1000";
const PERIOD: &str = "60";

/// Policies for the protocols that have no numbers in their calls. `wide` is for a
/// client that always asks for one key.
const POLICIES: &str = "\
[policy.bench.limits]
rate = { calls = 1000, per = '60s', burst = 100 }
[policy.wide.limits]
rate = { calls = 100_000_000, per = '1s' }
[policy.three.limits]
calls = { calls = 1000, per = '60s', burst = 100 }
tokens = { rate = 100_000, per = '60s' }
running = { concurrency = 1000, ttl = '1m' }
[policy.slow.limits]
rate = { calls = 1, per = '1d', burst = 100 }
";

/// How many keys memory is measured with.
const KEYS: f64 = 1_000_000.0;

/// What the rows have in common.
pub struct Bench {
    binary: PathBuf,
    load: PathBuf,
    throttlecrab: PathBuf,
    folder: PathBuf,
    rounds: usize,
    seconds: f64,
    store: String,
}

impl Bench {
    /// Builds and installs what is asked.
    pub fn prepare(options: &Options) -> Result<Self, String> {
        needs::provide()?;
        let folder = target_directory().join("bench-server");
        let written = std::fs::create_dir_all(&folder)
            .and_then(|()| std::fs::write(folder.join("bench.toml"), POLICIES));
        written.map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self {
            binary: match &options.binary {
                // The server runs in a folder of its own.
                Some(binary) => std::path::absolute(binary).map_err(|error| error.to_string())?,
                None => built("tidegate-cli", "tidegate")?,
            },
            load: built("tidegate-load", "tidegate-load")?,
            throttlecrab: peers::install_throttlecrab()?,
            folder,
            rounds: options.rounds,
            seconds: options.seconds,
            store: options.store.clone(),
        })
    }

    fn tidegate(&self) -> Result<Host, String> {
        Host::tidegate(&self.binary, &self.folder, &self.store)
    }

    fn throttlecrab(&self) -> Result<Host, String> {
        peers::throttlecrab(&self.throttlecrab)
    }

    /// `tidegate-load` on one of the ports.
    fn load(&self, ports: Ports, more: &[&str], rate: Option<f64>) -> Result<Seen, String> {
        let http = format!("127.0.0.1:{}", ports.http);
        let rate = rate.map(|rate| format!("{rate:.1}/s"));
        let mut arguments = vec!["--http", &http];
        match &rate {
            Some(rate) => arguments.extend(["--rate", rate]),
            None => arguments.push("--closed"),
        }
        arguments.extend(more);
        clients::load(&self.load, &arguments, self.seconds)
    }
}

/// A program of this build, as it is released.
pub fn built(package: &str, program: &str) -> Result<PathBuf, String> {
    run(&mut cargo(["build", "--release", "--package", package]))?;
    Ok(target_directory().join("release").join(program))
}

/// Commands for redis-benchmark, and the same for `tidegate-load`'s schedule.
fn by_words<'a>(
    bench: &'a Bench,
    host: &'a Host,
    depth: u32,
    expected: f64,
    words: Vec<String>,
) -> Asking<'a> {
    Box::new(move |rate| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(rate) = rate else {
            let asks = expected * bench.seconds;
            return clients::redis_benchmark(host.ports.resp, depth, asks, &words);
        };
        let raw = words.join(" ").replace("__rand_int__", "{key}");
        let server = format!("127.0.0.1:{}", host.ports.resp);
        bench.load(
            host.ports,
            &["--server", &server, "--raw", &raw],
            Some(rate),
        )
    })
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn resp(bench: &Bench, row: &'static str, depth: u32) -> Result<Vec<Outcome>, String> {
    let (ours, redis, crab) = (bench.tidegate()?, peers::redis()?, bench.throttlecrab()?);
    let script = peers::load_script(&redis)?;
    // How many a second are to be expected: it says how many are asked.
    let expected = |one: f64, many: f64| if depth == 1 { one } else { many };
    let fast = expected(50e3, 400e3);
    let key = "key:__rand_int__";
    let contenders = [
        Contender {
            what: "tidegate CL.THROTTLE",
            host: &ours,
            asking: by_words(
                bench,
                &ours,
                depth,
                fast,
                words(["CL.THROTTLE", key, BURST, COUNT, PERIOD]),
            ),
        },
        Contender {
            what: "redis SET",
            host: &redis,
            asking: by_words(bench, &redis, depth, fast, words(["SET", key, "x"])),
        },
        Contender {
            what: "redis EVALSHA, GCRA",
            host: &redis,
            asking: by_words(
                bench,
                &redis,
                depth,
                expected(40e3, 90e3),
                words([
                    "EVALSHA",
                    &script,
                    "1",
                    "gcra:__rand_int__",
                    "6000000",
                    "60000",
                ]),
            ),
        },
        Contender {
            what: "throttlecrab THROTTLE",
            host: &crab,
            asking: by_words(
                bench,
                &crab,
                depth,
                expected(40e3, 100e3),
                words(["THROTTLE", key, BURST, COUNT, PERIOD]),
            ),
        },
    ];
    compare(row, bench.rounds, &contenders, depth == 1)
}

fn http(bench: &Bench) -> Result<Vec<Outcome>, String> {
    let (ours, crab) = (bench.tidegate()?, bench.throttlecrab()?);
    let asking = |host: &Host, question: [&str; 2], rate| {
        let server = format!("127.0.0.1:{}", host.ports.http);
        let arguments = [
            "--protocol",
            "http",
            "--server",
            &server,
            question[0],
            question[1],
        ];
        bench.load(host.ports, &arguments, rate)
    };
    let body = format!(
        "POST /throttle {{\"key\":\"{{key}}\",\"max_burst\":{BURST},\"count_per_period\":{COUNT},\"period\":{PERIOD}}}"
    );
    let contenders = [
        Contender {
            what: "tidegate POST /v1/check",
            host: &ours,
            asking: Box::new(|rate| asking(&ours, ["--policy", "bench"], rate)),
        },
        Contender {
            what: "throttlecrab POST /throttle",
            host: &crab,
            asking: Box::new(|rate| asking(&crab, ["--raw", &body], rate)),
        },
    ];
    compare("http", bench.rounds, &contenders, true)
}

fn grpc(bench: &Bench) -> Result<Vec<Outcome>, String> {
    let (ours, crab) = (bench.tidegate()?, bench.throttlecrab()?);
    let check = bench.message("check", &[text(1, b"wide"), text(2, b"k1")].concat())?;
    let wide = [
        number(2, 100_000_000),
        number(3, 100_000_000),
        number(4, 1),
        number(5, 1),
    ];
    let throttle = bench.message("throttle", &[text(1, b"k1"), wide.concat()].concat())?;
    let asking = |host: &Host, path: &str, message: &Path, rate| {
        clients::h2load(host.ports.grpc, path, message, bench.seconds.ceil(), rate)
    };
    let contenders = [
        Contender {
            what: "tidegate Check",
            host: &ours,
            asking: Box::new(|rate| asking(&ours, "/tidegate.v1.Tidegate/Check", &check, rate)),
        },
        Contender {
            what: "throttlecrab Throttle",
            host: &crab,
            asking: Box::new(|rate| {
                asking(&crab, "/throttlecrab.RateLimiter/Throttle", &throttle, rate)
            }),
        },
    ];
    compare("grpc", bench.rounds, &contenders, true)
}

fn stream(bench: &Bench) -> Result<Vec<Outcome>, String> {
    let ours = bench.tidegate()?;
    let server = format!("127.0.0.1:{}", ours.ports.grpc);
    let arguments = [
        "--protocol",
        "grpc",
        "--server",
        &server,
        "--policy",
        "bench",
    ];
    let more = ["--connections", "4", "--depth", "4", "--batch", "500"];
    let arguments = [&arguments[..], &more].concat();
    let contenders = [Contender {
        what: "tidegate CheckStream",
        host: &ours,
        asking: Box::new(|rate| bench.load(ours.ports, &arguments, rate)),
    }];
    compare("stream", bench.rounds, &contenders, false)
}

/// Our server alone: what a lease with its settlement costs, in checks.
fn leases(
    bench: &Bench,
    row: &'static str,
    protocol: &str,
    port: fn(Ports) -> u16,
) -> Result<Vec<Outcome>, String> {
    let ours = bench.tidegate()?;
    let server = format!("127.0.0.1:{}", port(ours.ports));
    let asking = |policy, verb| -> Asking<'_> {
        let arguments = ["--protocol", protocol, "--server", &server];
        let arguments = [&arguments[..], &["--policy", policy, "--verb", verb]].concat();
        Box::new(move |rate| bench.load(ours.ports, &arguments, rate))
    };
    let contender = |what, policy, verb| Contender {
        what,
        host: &ours,
        asking: asking(policy, verb),
    };
    let contenders = [
        contender("check", "bench", "check"),
        contender("acquire + settle", "bench", "acquire"),
        contender("the same, three limits", "three", "acquire"),
    ];
    compare(row, bench.rounds, &contenders, false)
}

/// Every key is asked for once, by a rate so slow that none is forgotten.
fn memory(bench: &Bench) -> Result<Vec<Outcome>, String> {
    let (ours, redis, crab) = (bench.tidegate()?, peers::redis()?, bench.throttlecrab()?);
    let script = peers::load_script(&redis)?;
    let script = format!("EVALSHA {script} 1 {{key}} 8640000000000 86400000000");
    let rows: [(&'static str, &Host, [&str; 2]); 3] = [
        (
            "tidegate CL.THROTTLE",
            &ours,
            ["--raw", "CL.THROTTLE {key} 99 1 86400"],
        ),
        ("redis EVALSHA, GCRA", &redis, ["--raw", &script]),
        (
            "throttlecrab THROTTLE",
            &crab,
            ["--raw", "THROTTLE {key} 99 1 86400"],
        ),
    ];
    let mut outcomes = Vec::new();
    for (what, host, question) in rows {
        let server = format!("127.0.0.1:{}", host.ports.resp);
        let before = host.resident()?;
        let keys = format!("{KEYS}");
        let mut arguments = vec!["--server", &server, "--depth", "16", "--closed"];
        arguments.extend(["--distribution", "each", "--keys", &keys, "--asks", &keys]);
        arguments.extend(question);
        let seen = clients::load(&bench.binary, &arguments, 300.0)?;
        if seen.answers < KEYS {
            return Err(format!("{what}: only {} keys were asked for", seen.answers));
        }
        let mut outcome = Outcome::of("memory", what);
        outcome.other = Some(((host.resident()? - before) / KEYS, "bytes a key"));
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

impl Bench {
    /// A gRPC message in a file: no compression, its length, itself. It has a
    /// folder of its own, where the client writes its log, too: our server looks
    /// up whenever something changes beside its policies.
    fn message(&self, name: &str, message: &[u8]) -> Result<PathBuf, String> {
        let folder = self.folder.join("messages");
        let path = folder.join(name).with_extension("bin");
        let length = (message.len() as u32).to_be_bytes();
        let bytes = [&[0][..], &length, message].concat();
        let written = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(path)
    }
}

/// A field of bytes, in protobuf's encoding; shorter than 128.
fn text(field: u8, bytes: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A field that is a number, in protobuf's encoding.
fn number(field: u8, mut number: u32) -> Vec<u8> {
    let mut bytes = vec![field << 3];
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}
