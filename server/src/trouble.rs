//! What can go wrong, in two sorts: the command line, or what it names.

use std::fmt::{self, Display};
use std::path::Path;
use std::process::ExitCode;

/// Why a command stops.
#[derive(Debug)]
pub enum Trouble {
    /// The command line asks for something that makes no sense.
    Usage(String),
    /// A file is missing or faulty, or the machine failed.
    Failure(String),
}

/// What a command comes to.
pub type Outcome<T> = Result<T, Trouble>;

impl Trouble {
    /// The command line is at fault.
    pub fn usage(message: impl Display) -> Self {
        Self::Usage(message.to_string())
    }

    /// Something that the command line names is at fault.
    pub fn failure(message: impl Display) -> Self {
        Self::Failure(message.to_string())
    }

    /// A file could not be read or written.
    pub fn file(doing: &str, path: &Path, error: impl Display) -> Self {
        Self::Failure(format!("cannot {doing} {}: {error}", path.display()))
    }

    /// The exit code: 2 for the command line, 1 for everything else.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Failure(_) => 1,
        })
    }
}

impl Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => {
                write!(f, "{message}\n\nFor more, try `tidegate help`")
            }
            Self::Failure(message) => f.write_str(message),
        }
    }
}
