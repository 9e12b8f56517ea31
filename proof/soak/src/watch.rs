//! Memory, keys, leases and the file, each second; and whether they are flat.

use std::path::Path;
use std::time::Duration;

use crate::lane::Lane;
use crate::tally::read;

/// What there was at an instant.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// Asks that were begun so far.
    pub asked: u64,
    /// Bytes of memory that the process has resident.
    pub memory: u64,
    /// Keys that have a row, of all policies.
    pub keys: u64,
    /// Leases that are held.
    pub held: u64,
    /// Leases that are remembered after their end.
    pub remembered: u64,
    /// Bytes of the store's file.
    pub file: u64,
    /// Asks that wait in a queue.
    pub waiting: u64,
}

impl Sample {
    /// What there is now.
    ///
    /// # Errors
    /// A store that cannot count.
    pub async fn take(lanes: &[Lane], at: Duration, file: Option<&Path>) -> Result<Self, String> {
        let mut sample = Self {
            at,
            memory: resident()?,
            file: file.map_or(0, length),
            ..Self::default()
        };
        let told = |error: tidegate::StoreError| error.to_string();
        for lane in lanes {
            sample.asked += read(&lane.tally.asked);
            let count = lane.set.count().await.map_err(told)?;
            sample.keys += count.keys as u64;
            sample.held += count.leases.unwrap_or(0) as u64;
            sample.remembered += count.remembered.unwrap_or(0) as u64;
            sample.waiting += lane.set.statistics().waiting;
        }
        Ok(sample)
    }
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |about| about.len())
}

/// The process's resident memory, in bytes.
///
/// # Errors
/// A system that does not tell.
fn resident() -> Result<u64, String> {
    let path = "/proc/self/status";
    let status = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let bytes = kib.map(|kib| kib * 1_024);
    bytes.ok_or_else(|| format!("{path} does not say how much memory is resident (VmRSS)"))
}

/// Something that must not grow: its median in the second fifth of the time, when
/// everything that comes and goes has come once, beside that in the last fifth.
#[derive(Clone, Debug)]
pub struct Flat {
    /// What.
    pub name: &'static str,
    /// At the beginning.
    pub first: u64,
    /// The median of the second fifth.
    pub early: u64,
    /// The median of the last fifth.
    pub late: u64,
    /// The most.
    pub most: u64,
    /// It may be so large at last: larger by a twentieth, and some more for what is small.
    pub bound: u64,
}

const MIB: u64 = 1 << 20;

/// What is watched: its name, what a sample has of it, and how much more is nothing: such a
/// part of it, and so much.
type Watched = (&'static str, fn(&Sample) -> u64, u64, u64);

const WATCHED: &[Watched] = &[
    ("memory", |sample| sample.memory, 20, 8 * MIB),
    // A spent row goes when new ones come to its shard, sooner or later: of thirty policies
    // with 64 shards each, one more in each is chance. Thousands of keys come each second.
    ("keys", |sample| sample.keys, 20, 2_000),
    ("leases held", |sample| sample.held, 20, 200),
    ("leases remembered", |sample| sample.remembered, 20, 200),
    ("file", |sample| sample.file, 20, 4 * MIB),
    ("asks that wait", |sample| sample.waiting, 20, 200),
];

impl Flat {
    /// Everything that is watched.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Vec<Self> {
        let flat = |&(name, of, part, more): &Watched| {
            let series: Vec<_> = samples.iter().map(of).collect();
            let fifth = |nth: usize| nth * series.len() / 5;
            let early = median(&series[fifth(1)..fifth(2)]);
            Self {
                name,
                first: series.first().copied().unwrap_or(0),
                early,
                late: median(&series[fifth(4)..]),
                most: series.iter().copied().max().unwrap_or(0),
                bound: early + early / part + more,
            }
        };
        WATCHED.iter().map(flat).collect()
    }

    /// It goes on growing.
    #[must_use]
    pub const fn grows(&self) -> bool {
        self.late > self.bound
    }
}

/// The one in the middle, or the lower of two.
fn median(numbers: &[u64]) -> u64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len().saturating_sub(1) / 2;
    sorted.get(middle).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minute in which memory is so large each second.
    fn minute(memory: impl Fn(u64) -> u64) -> Flat {
        let sample = |at| Sample {
            at: Duration::from_secs(at),
            memory: memory(at),
            ..Sample::default()
        };
        let samples: Vec<_> = (0..60).map(sample).collect();
        Flat::of(&samples).swap_remove(0)
    }

    #[test]
    fn what_rises_and_stays_is_flat_and_what_goes_on_rising_grows() {
        assert!(!minute(|_| 50 * MIB).grows());
        assert!(!minute(|at| 50 * MIB.min(at * MIB / 8)).grows());
        let peak = minute(|at| if at == 50 { 900 * MIB } else { 50 * MIB });
        assert!(!peak.grows() && peak.most == 900 * MIB);
        assert!(minute(|at| 50 * MIB + at * MIB / 2).grows());
    }

    #[test]
    fn the_memory_of_this_process_is_known() {
        assert!(resident().is_ok_and(|bytes| bytes > MIB / 4));
    }
}
