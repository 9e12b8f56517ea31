//! When the file is synced, and what is lost if not.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidegate_memory::Bounds;

/// How a store is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// When the file is synced.
    pub sync: SyncMode,
    /// How much each table may hold.
    pub bounds: Bounds,
}

/// When the file is synced, and so what a crash may cost.
///
/// In every mode the file holds a prefix of what was decided: all of a command
/// or none of it. No lease id is given twice, no budget is reset, and fences go
/// on growing, also if the clock stands further back after the restart. The
/// plan of a table is synced whenever it changes, in every mode but
/// [`Never`](Self::Never).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SyncMode {
    /// A command that changed something is answered once it is on the disk.
    /// Nothing acknowledged is lost: by kill -9, or by a power cut (if the disk
    /// does what `fdatasync` asks of it).
    #[default]
    Always,
    /// Commands are answered at once, and synced in groups. A kill or a power cut
    /// loses at most what was acknowledged within one such span before it: when
    /// the disk is slower than that, commands wait for it.
    Interval(Duration),
    /// Commands are answered at once and handed to the operating system within
    /// some ten milliseconds (a second at most: then commands wait); it writes
    /// when it likes. A kill loses what was not handed over yet. A power cut
    /// may lose everything since the machine started, or leave a file that is
    /// refused.
    Never,
}

/// Words that are no [`SyncMode`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no way to sync; write `always`, `interval=100ms` (or `1s`), or `never`")]
pub struct SyncModeError(String);

impl FromStr for SyncMode {
    type Err = SyncModeError;

    fn from_str(words: &str) -> Result<Self, Self::Err> {
        let mode = match words.trim() {
            "always" => Some(Self::Always),
            "never" => Some(Self::Never),
            other => interval(other).map(Self::Interval),
        };
        mode.ok_or_else(|| SyncModeError(words.to_owned()))
    }
}

impl fmt::Display for SyncMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Interval(span) => write!(f, "interval={}ms", span.as_millis()),
            Self::Never => f.write_str("never"),
        }
    }
}

/// `interval=100ms`, `interval=2s`; from a millisecond to a day.
fn interval(words: &str) -> Option<Duration> {
    let span = words.strip_prefix("interval=")?;
    let (number, scale) = match span.strip_suffix("ms") {
        Some(number) => (number, 1),
        None => (span.strip_suffix('s')?, 1_000),
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(scale)?;
    let sensible = (1..=86_400_000).contains(&millis);
    sensible.then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_to_sync_is_read_as_it_is_written() {
        let cases = [
            ("always", SyncMode::Always),
            ("never", SyncMode::Never),
            (
                "interval=100ms",
                SyncMode::Interval(Duration::from_millis(100)),
            ),
            (
                "interval=2000ms",
                SyncMode::Interval(Duration::from_secs(2)),
            ),
        ];
        for (words, mode) in cases {
            assert_eq!(words.parse(), Ok(mode));
            assert_eq!(mode.to_string(), words);
        }
        let two = SyncMode::Interval(Duration::from_secs(2));
        assert_eq!("interval=2s".parse(), Ok(two));
        for words in [
            "",
            "interval",
            "interval=0ms",
            "interval=-1s",
            "interval 1s",
            "sometimes",
        ] {
            assert!(words.parse::<SyncMode>().is_err(), "{words}");
        }
    }
}
