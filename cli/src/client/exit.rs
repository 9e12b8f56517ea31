//! What a command comes to, in one table for all of them.

use std::fmt::{self, Display};
use std::process::ExitCode;

use tidegate_client::Error;

use crate::trouble::Trouble;

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Admitted, or done.
    Done = 0,
    /// Not now.
    Refused = 1,
    /// The command line, or the request, makes no sense.
    Usage = 2,
    /// Not ever: more than the limit could grant.
    Never = 3,
    /// The token is missing, wrong, or not for this.
    NotAllowed = 4,
    /// The server is not there, or cannot tell.
    Failed = 5,
    /// No such policy, entity or namespace, or a deleted one; no such lease, or one that has ended.
    Gone = 6,
    /// Somebody else has changed it first, or depends on it.
    Conflict = 7,
}

/// How a command ends that looks for changes, and finds some.
pub const CHANGES: u8 = 3;

/// The table, for the help of every command.
pub const TABLE: &str = "\
Exit codes:
  0  admitted, or done
  1  refused: not now
  2  the command line or the request makes no sense
  3  never: more than the limit could grant
  4  not allowed: no token, a wrong one, or one that is not for this
  5  failed: the server cannot be reached, or its store cannot tell
  6  gone: no such policy, entity or namespace, or a deleted one; no such lease, or it has ended
  7  conflict: another version is there than --if-version or --if-absent says, or others
     depend on it";

impl From<&Error> for Exit {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidRequest(_) => Self::Usage,
            Error::Never(_) => Self::Never,
            Error::Unauthorized(_) | Error::Forbidden(_) => Self::NotAllowed,
            Error::NotFound(_) | Error::LeaseEnded(_) | Error::NamespaceDeleted(_) => Self::Gone,
            Error::Conflict(_) => Self::Conflict,
            _ => Self::Failed,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command stops: how it ends, and what to change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// How it ends.
    pub exit: Exit,
    /// What went wrong, and what to change.
    pub message: String,
}

/// What a command comes to.
pub type Outcome<T> = Result<T, Stop>;

impl Stop {
    /// Ends so, for this reason.
    pub fn new(exit: Exit, message: impl Display) -> Self {
        let message = message.to_string();
        Self { exit, message }
    }

    /// The command line makes no sense.
    pub fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something failed.
    pub fn failed(message: impl Display) -> Self {
        Self::new(Exit::Failed, message)
    }
}

impl Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Usage(message) => Self::usage(message),
            Trouble::Failure(message) => Self::failed(message),
        }
    }
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        match stop.exit {
            Exit::Usage => Self::Usage(stop.message),
            _ => Self::Failure(stop.message),
        }
    }
}
