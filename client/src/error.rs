//! Why there is no client, and why there is no answer.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// Why there is no client. No message holds a token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The URL is no server's.
    #[error("`{0}` is no server; write http://HOST:PORT")]
    Url(String),
    /// The URL holds a user or a password.
    #[error("the server's URL holds credentials; give the token by itself")]
    Credentials,
    /// The token cannot be sent.
    #[error(
        "a token is printable ASCII without spaces, on one line; `Bearer ` in front of it is left out"
    )]
    Token,
    /// The namespace cannot be one.
    #[error("a namespace's name has letters, digits, `.`, `_` and `-` alone")]
    Namespace,
    /// A file of certificates or keys.
    #[error("cannot use {}: {why}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// What this machine lacks.
    #[error("{0}")]
    System(String),
}

/// Why there is no answer. (A refusal is one.)
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense: an unknown limit, an amount that is none. Change it.
    #[error("{0}")]
    InvalidRequest(Problem),
    /// Not ever: it is more than a limit grants when it is full.
    #[error("{0}")]
    Never(Problem),
    /// The token is missing or unknown.
    #[error("{0}")]
    Unauthorized(Problem),
    /// The token is not for this policy or verb.
    #[error("{0}")]
    Forbidden(Problem),
    /// There is no such policy, or no such lease.
    #[error("{0}")]
    NotFound(Problem),
    /// The lease has ended.
    #[error("{0}")]
    LeaseEnded(Problem),
    /// The namespace is deleted.
    #[error("{0}")]
    NamespaceDeleted(Problem),
    /// Somebody else has changed first what was to be changed at another version, or others depend
    /// on it as it is.
    #[error("{0}")]
    Conflict(Problem),
    /// Too many requests, or too many that wait: try again after a pause.
    #[error("{0}")]
    Busy(Problem),
    /// The policy holds as many keys or leases as it may.
    #[error("{0}")]
    Full(Problem),
    /// The server cannot tell: its store is away, or it is closing. What was asked may have been
    /// done.
    #[error("{0}")]
    Unavailable(Problem),
    /// The server gave no answer in time. What was asked may have been done.
    #[error("no answer from {server} within {} ms; it may have been done: repeat it with the same idempotency key, or look first", longest.as_millis())]
    Timeout {
        /// Which server.
        server: String,
        /// How long was waited for it.
        longest: Duration,
    },
    /// The server cannot be reached, or the connection broke.
    #[error("no answer from {server}: {fault}", server = .0.server, fault = .0.fault)]
    Unreachable(Unreachable),
    /// What answered is no Tidegate server, or one of another version.
    #[error("the server answers {status}, and not as Tidegate does; is its URL right?")]
    NotTidegate {
        /// The HTTP status.
        status: u16,
    },
    /// What answered says more than any Tidegate server does.
    #[error(
        "the server answers more than {bytes} bytes, which is no answer of Tidegate's; is its URL right?"
    )]
    TooLong {
        /// So much is read.
        bytes: usize,
    },
}

impl Error {
    /// What the server says of what it did not do; nothing if none answered.
    #[must_use]
    pub const fn problem(&self) -> Option<&Problem> {
        match self {
            Self::InvalidRequest(problem)
            | Self::Never(problem)
            | Self::Unauthorized(problem)
            | Self::Forbidden(problem)
            | Self::NotFound(problem)
            | Self::LeaseEnded(problem)
            | Self::NamespaceDeleted(problem)
            | Self::Conflict(problem)
            | Self::Busy(problem)
            | Self::Full(problem)
            | Self::Unavailable(problem) => Some(problem),
            Self::Timeout { .. }
            | Self::Unreachable(_)
            | Self::NotTidegate { .. }
            | Self::TooLong { .. } => None,
        }
    }

    /// Whether what was asked may have been done, though nobody said so.
    pub(crate) const fn may_have_been_done(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::TooLong { .. } | Self::Unavailable(_) => true,
            Self::NotTidegate { status } => is_a_proxys(*status),
            Self::Unreachable(lost) => matches!(lost.why, Why::Broken),
            _ => false,
        }
    }

    /// Whether the same may be done a little later.
    pub(crate) const fn is_passing(&self) -> bool {
        match self {
            Self::Busy(_) | Self::Full(_) | Self::Unavailable(_) | Self::Timeout { .. } => true,
            Self::NotTidegate { status } => is_a_proxys(*status),
            Self::Unreachable(lost) => !matches!(lost.why, Why::Tls),
            _ => false,
        }
    }
}

/// Whether a proxy answers so for a server that is away, or whose answer it has lost.
const fn is_a_proxys(status: u16) -> bool {
    status >= 500
}

/// How a server was not reached.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unreachable {
    /// Which server.
    pub server: String,
    /// What failed, in the system's words.
    pub fault: String,
    /// At which point.
    pub why: Why,
}

/// At which point it failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// There was no connection: nothing was asked.
    NoConnection,
    /// TLS failed: nothing was asked.
    Tls,
    /// The connection broke: what was asked may have been done.
    Broken,
}

/// What a server says of what it did not do (RFC 9457).
#[derive(Clone, PartialEq, Debug, Deserialize, thiserror::Error)]
#[error("{detail}")]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, for programs: these words never change.
    pub code: String,
    /// What is wrong, for people.
    pub detail: String,
    /// The version that is there, where another was expected; nothing if there is none, and
    /// elsewhere.
    #[serde(default)]
    pub version: Option<u64>,
    /// Of a policy file or an override: what is wrong, place by place.
    #[serde(default)]
    pub faults: Vec<Value>,
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        match (problem.status, problem.code.as_str()) {
            (401, _) => Self::Unauthorized(problem),
            (403, _) => Self::Forbidden(problem),
            (404, _) => Self::NotFound(problem),
            (409, "lease_ended") => Self::LeaseEnded(problem),
            (410, _) => Self::NamespaceDeleted(problem),
            (409 | 412, _) => Self::Conflict(problem),
            (422, _) => Self::Never(problem),
            (_, "busy") => Self::Busy(problem),
            (_, "full") => Self::Full(problem),
            (408 | 500.., _) => Self::Unavailable(problem),
            _ => Self::InvalidRequest(problem),
        }
    }
}
