//! Servers on the first core, clients on the last.

use std::fs;
use std::process::{Command, Stdio};

/// Clock ticks a second in `/proc`, on every Linux of today.
const TICKS: f64 = 100.0;

/// This process, and whomever it starts from here on, leaves the other cores alone.
pub fn keep_to_the_last_core() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    pin(std::process::id(), cores - 1);
}

/// A server that has been started, from here on on the first core.
#[derive(Clone, Copy, Debug)]
pub struct Host(u32);

impl Host {
    /// The server whose process, or whose first process, is `pid`.
    pub fn new(pid: u32) -> Self {
        for process in family(pid) {
            pin(process, 0);
        }
        Self(pid)
    }

    /// The CPU time in seconds that it has spent, with all that it has started.
    pub fn cpu_secs(self) -> f64 {
        let own = spent(self.0, 4);
        let others = family(self.0).into_iter().skip(1);
        own + others.map(|child| spent(child, 2)).sum::<f64>()
    }
}

/// All threads of a process on one core. Without `taskset` they stay where they are.
fn pin(process: u32, core: usize) {
    let mut taskset = Command::new("taskset");
    taskset.args(["-apc", &core.to_string(), &process.to_string()]);
    // A measurement on two cores is still one; the load on them is told anyway.
    let _ = taskset.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A process, and whom it has started.
fn family(first: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = all.filter_map(|entry| {
        let process: u32 = entry.file_name().to_str()?.parse().ok()?;
        let parent = stat(process)?.get(1)?.parse::<u32>().ok()?;
        (parent == first).then_some(process)
    });
    [first].into_iter().chain(children).collect()
}

/// The first fields of a process's CPU time: user, system, and those of its children
/// that have ended.
fn spent(process: u32, fields: usize) -> f64 {
    let stat = stat(process).unwrap_or_default();
    let ticks = stat.iter().skip(11).take(fields);
    ticks
        .filter_map(|field| field.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// The fields of `/proc/PID/stat` from the state on.
fn stat(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, behind) = stat.rsplit_once(')')?;
    Some(behind.split_whitespace().map(str::to_owned).collect())
}
