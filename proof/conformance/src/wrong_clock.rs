//! A process whose clock is wrong: `libfaketime` tells it another time of day than the
//! machine has. How fast time goes by is left as it is.

use std::path::PathBuf;
use std::process::Command;

use crate::missing::skip;

/// If this is set, a test that cannot find it fails.
const REQUIRED: &str = "TIDEGATE_REQUIRE_TOOLS";

/// What makes clocks wrong, where this machine has it.
#[derive(Debug)]
pub struct WrongClock {
    library: PathBuf,
}

impl WrongClock {
    /// It, if this machine has it; else says that the test is skipped.
    ///
    /// # Panics
    /// If it must be there (`TIDEGATE_REQUIRE_TOOLS`).
    #[must_use]
    pub fn find() -> Option<Self> {
        // A folder for each architecture.
        let folders = std::fs::read_dir("/usr/lib")
            .into_iter()
            .flatten()
            .flatten();
        let library = |folder: PathBuf| folder.join("faketime/libfaketimeMT.so.1");
        let mut libraries = folders.map(|folder| library(folder.path()));
        let Some(library) = libraries.find(|library| library.exists()) else {
            skip(
                "libfaketime is not installed (Debian: libfaketime)",
                REQUIRED,
            );
            return None;
        };
        Some(Self { library })
    }

    /// The process that `command` starts has a clock that is `by` off, as in `+1h`.
    pub fn set(&self, command: &mut Command, by: &str) {
        command.env("LD_PRELOAD", &self.library);
        command.env("FAKETIME", by).env("DONT_FAKE_MONOTONIC", "1");
    }
}
