//! What it is told.

use std::path::PathBuf;
use std::time::Duration;

/// Put a paced load on every kind of policy, and see what is refused, late, or grows
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "soak")]
pub struct Options {
    /// Where the limits are kept: memory:, or file:PATH where no file is yet
    #[arg(long, value_name = "URL", default_value = "memory:")]
    pub store: String,

    /// For so long
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub seconds: u64,

    /// So many acquire and settle a second, in all
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub rate: u64,

    /// Draw memory, keys and rate over time into this file, as SVG
    #[arg(long, value_name = "PATH")]
    pub picture: Option<PathBuf>,
}

impl Options {
    /// The file that the store is in, if it is in one.
    #[must_use]
    pub fn file(&self) -> Option<PathBuf> {
        let address = self.store.strip_prefix("file:")?;
        let path = address.split('?').next().unwrap_or(address);
        Some(PathBuf::from(path))
    }

    /// How long the load goes on.
    #[must_use]
    pub const fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}
