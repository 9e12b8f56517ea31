//! What a command comes to, in one table for all of them.

use std::fmt::{self, Display};
use std::process::ExitCode;

use tidegate_client::Error;

use tidegate_server::trouble::Trouble;

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Admitted, or done.
    Done = 0,
    /// Not now.
    Refused = 1,
    /// The command line, or the request, is invalid.
    Usage = 2,
    /// Not ever: more than the limit could grant.
    Never = 3,
    /// The token is missing, wrong, or not for this.
    NotAllowed = 4,
    /// The server is not there, is busy or full, or its store did not answer.
    Failed = 5,
    /// No such policy, entity or namespace, or a deleted one; no such lease, or one that has ended.
    Gone = 6,
    /// Somebody else has changed it first, or depends on it.
    Conflict = 7,
}

/// How a command ends that looks for changes, and finds some.
pub const CHANGES: u8 = 3;

/// What the help of a command says of each code that it can end with.
macro_rules! codes {
    ($done:literal $(, $code:ident)*) => {
        concat!("Exit codes:\n  0  ", $done $(, "\n  ", codes!(@ $code))*)
    };
    (@ refused) => { "1  refused: not now" };
    (@ would_be_refused) => { "1  would be refused now" };
    (@ usage) => { "2  the command line or the request is invalid" };
    (@ never) => { "3  never: more than the limit could grant" };
    (@ not_allowed) => { "4  not allowed: no token, a wrong one, or one that is not for this" };
    (@ failed) => { "5  failed: the server cannot be reached, is busy or full, or its store did not answer" };
    (@ gone) => { "6  gone: no such policy, entity or namespace, or a deleted one" };
    (@ ended) => {
        "6  gone: no such policy, entity or namespace, or a deleted one; no such lease, or it has ended"
    };
    (@ other_version) => {
        "7  conflict: another version is there than --if-version or --if-absent says"
    };
    (@ depended_on) => {
        "7  conflict: another version is there than --if-version says, or others depend on it"
    };
    (@ there_already) => { "7  conflict: it is there already" };
    (@ in_use) => { "7  conflict: it is there already, or is in use" };
}

/// Of `check`, `acquire` and `grant`.
pub const ADMITS: &str = codes!("admitted", refused, usage, never, not_allowed, failed, gone);
/// Of `adjust`.
pub const ADJUSTS: &str = codes!(
    "adjusted",
    refused,
    usage,
    never,
    not_allowed,
    failed,
    ended
);
/// Of `debit`.
pub const DEBITS: &str = codes!(
    "charged, whether it fits or not",
    usage,
    never,
    not_allowed,
    failed,
    gone
);
/// Of `forecast`.
pub const FORECASTS: &str = codes!("done", usage, not_allowed, failed, gone);
/// Of `peek`.
pub const PEEKS: &str = codes!(
    "would be admitted",
    would_be_refused,
    usage,
    never,
    not_allowed,
    failed,
    gone
);
/// Of what ends or renews a lease.
pub const OF_A_LEASE: &str = codes!("done", usage, not_allowed, failed, ended);
/// Of what shows, lists or forgets.
pub const DOES: &str = codes!("done", usage, not_allowed, failed, gone);
/// Of what creates an entity.
pub const CREATES: &str = codes!("done", usage, not_allowed, failed, gone, there_already);
/// Of what changes or deletes an entity, or removes an override.
pub const CHANGES_A_VERSION: &str = codes!("done", usage, not_allowed, failed, gone, depended_on);
/// Of what sets an override.
pub const SETS_AN_OVERRIDE: &str = codes!("done", usage, not_allowed, failed, gone, other_version);
/// Of what changes a namespace.
pub const OF_A_NAMESPACE: &str = codes!("done", usage, not_allowed, failed, gone, in_use);

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

    /// The command line is invalid.
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
