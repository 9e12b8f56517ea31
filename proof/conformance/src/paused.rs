//! A process that stands still: it neither answers nor hangs up.

use std::fs;
use std::process::Command;

/// SIGSTOP to a process and all that it has started; SIGCONT when this is dropped,
/// as no paused server may be left.
#[derive(Debug)]
pub struct Paused(Vec<u32>);

impl Paused {
    /// Stops the process, and waits until each of its threads stands still.
    ///
    /// # Panics
    /// If there is no such process.
    #[must_use]
    pub fn new(process: u32) -> Self {
        let mut paused = Self(Vec::new());
        assert!(paused.stop(process), "no process {process}");
        // Who stands still starts nobody more.
        for child in children(process) {
            paused.stop(child);
        }
        paused
    }

    /// `false` if there is none, or no more.
    fn stop(&mut self, process: u32) -> bool {
        if !signal("STOP", process) {
            return false;
        }
        self.0.push(process);
        // The signal is sent; until a thread takes it, others go on.
        while !stands_still(process) {}
        true
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        for process in &self.0 {
            signal("CONT", *process);
        }
    }
}

fn signal(name: &str, process: u32) -> bool {
    let mut kill = Command::new("kill");
    let sent = kill.args(["-s", name, &process.to_string()]).status();
    sent.expect("kill runs").success()
}

/// Whether all its threads are stopped.
fn stands_still(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return true;
    };
    let mut states = threads.flatten().map(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok();
        stat.and_then(|stat| stat_field(&stat, 0).map(is_still))
    });
    states.all(|is_stopped| is_stopped.unwrap_or(true))
}

/// Stopped, or at its end: nobody has asked yet how that was.
fn is_still(state: &str) -> bool {
    matches!(state, "T" | "t" | "Z" | "X")
}

/// Whom it has started.
fn children(process: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("the machine's processes");
    let numbers = all.flatten().filter_map(|entry| {
        let number: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        (stat_field(&stat, 1)? == process.to_string()).then_some(number)
    });
    numbers.collect()
}

/// A field of `/proc/PID/stat` behind the name: the state is 0, the parent 1.
fn stat_field(stat: &str, number: usize) -> Option<&str> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(number)
}
