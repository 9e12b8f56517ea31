//! Who asks: programs that nobody here wrote where they can, else `tidegate-load`.

use std::path::Path;
use std::process::Command;

use super::hosts::{client_core, pinned};

/// What one client saw in one run.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Answers.
    pub answers: f64,
    /// Answers a second.
    pub rate: f64,
    /// Latencies in microseconds, where the client tells them: p50, p99, p99.9.
    pub latency_us: [f64; 3],
}

/// `redis-benchmark`: `asks` commands on 50 connections, `depth` at once on each.
pub fn redis_benchmark(port: u16, depth: u32, asks: f64, words: &[&str]) -> Result<Seen, String> {
    let mut command = pinned(&client_core(), "redis-benchmark");
    command.args([
        "-p",
        &port.to_string(),
        "-c",
        "50",
        "-P",
        &depth.to_string(),
    ]);
    command.args(["-r", "100000", "-n", &format!("{asks:.0}"), "--csv"]);
    let text = said(command.args(words))?;
    let line = text.lines().last().unwrap_or_default();
    let fields: Vec<f64> = line
        .rsplit("\",\"")
        .filter_map(|field| field.trim_matches('"').parse().ok())
        .collect();
    // From the back: max, p99, p95, p50, min, avg, rps; in milliseconds.
    match fields[..] {
        [_, p99, _, p50, _, _, rate, ..] => Ok(Seen {
            answers: asks,
            rate,
            latency_us: [p50 * 1e3, p99 * 1e3, f64::NAN],
        }),
        _ => Err(format!("redis-benchmark: {text}")),
    }
}

/// `h2load`: gRPC calls on 50 connections, one at once on each; all the same.
pub fn h2load(
    port: u16,
    path: &str,
    message: &Path,
    seconds: f64,
    rate: Option<f64>,
) -> Result<Seen, String> {
    let log = message.with_extension("log");
    // It adds to what is there.
    let _ = std::fs::remove_file(&log);
    let mut command = pinned(&client_core(), "h2load");
    command.args([
        "-c",
        "50",
        "-m",
        "1",
        "-t",
        "1",
        "-D",
        &format!("{seconds:.0}"),
    ]);
    if let Some(rate) = rate {
        command.args(["--rps", &format!("{:.3}", rate / 50.0)]);
    }
    command
        .arg("--data")
        .arg(message)
        .arg("--log-file")
        .arg(&log);
    command.args(["-H", "content-type: application/grpc", "-H", "te: trailers"]);
    let text = said(command.arg(format!("http://127.0.0.1:{port}{path}")))?;
    let before = |after: &str| {
        let (text, _) = text.split_once(after)?;
        text.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let all_well = text.contains(" 0 failed, 0 errored");
    let (Some(rate), Some(answers), true) = (before(" req/s"), before(" done,"), all_well) else {
        return Err(format!("h2load: {text}"));
    };
    let latency_us = from_log(&log)?;
    Ok(Seen {
        answers,
        rate,
        latency_us,
    })
}

/// h2load's log: start, status and microseconds of each request.
fn from_log(path: &Path) -> Result<[f64; 3], String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("h2load's log: {error}"))?;
    let micros = |line: &str| line.split_whitespace().nth(2)?.parse::<f64>().ok();
    let mut all: Vec<f64> = text.lines().filter_map(micros).collect();
    all.sort_by(f64::total_cmp);
    let at = |part: f64| {
        all.get((all.len() as f64 * part) as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    Ok([at(0.5), at(0.99), at(0.999)])
}

/// `tidegate-load`: 50 connections unless `more` says otherwise.
pub fn load(program: &Path, more: &[&str], seconds: f64) -> Result<Seen, String> {
    let mut command = pinned(&client_core(), &program.display().to_string());
    command.args(["--json", "--duration", &format!("{:.0}ms", seconds * 1e3)]);
    let text = said(command.args(more))?;
    let all = ["answered", "rate", "p50", "p99", "p99.9"].map(|name| number(&text, name));
    match all {
        [Some(answers), Some(rate), Some(p50), Some(p99), Some(p999)] => Ok(Seen {
            answers,
            rate,
            latency_us: [p50, p99, p999],
        }),
        _ => Err(format!("tidegate-load: {text}")),
    }
}

/// A number by its name, in JSON.
pub fn number(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(&format!("\"{name}\": "))?;
    let number = rest.split([',', '\n', '}']).next()?;
    number.trim().parse().ok()
}

fn said(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!(
            "{command:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}
