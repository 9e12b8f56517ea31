//! Why a store cannot be opened, and what an error of the server means.

use mysql_async::{DriverError, Error, UrlError};
use tidegate_store::StoreError;

/// The store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MysqlError {
    /// The address makes no sense. (It is not repeated: it may hold a password.)
    #[error(
        "the address of the MariaDB server cannot be used ({0}); write mysql://[user[:password]@]host[:port]/database"
    )]
    Address(&'static str),
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
    /// The server cannot be reached, or cannot be used.
    #[error("{0}")]
    Server(String),
}

/// What a failure is to who must decide whether to try again.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The transaction was lost to another: nothing was done, try again.
    Lost(String),
    /// Others held a lock for as long as it was waited for: nothing was done.
    Locked(String),
    /// The connection is gone. What was under way may have been done.
    Broken(String),
    /// The server takes no writes: nothing was done. After a failover another may be there
    /// by the same name, so the connection is left, too.
    ReadOnly(String),
    /// The answer to the command.
    Failed(StoreError),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// A row that another made meanwhile.
const DUPLICATE: u16 = 1062;
/// A deadlock; a row that has changed meanwhile.
const LOST: [u16; 3] = [DUPLICATE, 1213, 1020];
/// A lock was not granted in time.
const LOCKED: u16 = 1205;
/// A statement took longer than it may.
const TOO_LONG: u16 = 1969;
/// It is a replica, or is made one.
const READ_ONLY: [u16; 3] = [1290, 1792, 1836];
/// The server shuts down, or ended the connection: killed, idle for too long.
const GONE: [u16; 5] = [1053, 1152, 1159, 1317, 1927];

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        let words = words(&error);
        match &error {
            Error::Server(error) if LOST.contains(&error.code) => Self::Lost(words),
            Error::Server(error) if error.code == LOCKED => Self::Locked(words),
            Error::Server(error) if GONE.contains(&error.code) => Self::Broken(words),
            Error::Server(error) if READ_ONLY.contains(&error.code) => Self::ReadOnly(words),
            Error::Server(_) => Self::Failed(StoreError::Unavailable(words)),
            _ => Self::Broken(words),
        }
    }
}

impl Trouble {
    /// What the first load of an attempt ended with, which takes long only where it waits
    /// for a lock.
    pub(crate) fn of_a_lock(error: Error) -> Self {
        match &error {
            Error::Server(server) if server.code == TOO_LONG => Self::Locked(words(&error)),
            _ => error.into(),
        }
    }

    /// Whether this connection is not to be used again, nor those that are idle.
    pub(crate) const fn ends_connections(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::ReadOnly(_))
    }

    /// What is told of it when nothing more is tried.
    pub(crate) fn told(self) -> StoreError {
        match self {
            Self::Lost(words) | Self::Broken(words) | Self::ReadOnly(words) => {
                StoreError::Unavailable(words)
            }
            Self::Locked(words) => StoreError::Busy(words),
            Self::Failed(error) => error,
        }
    }
}

/// There is no set of the number that this process knows.
pub(crate) fn made_anew() -> Trouble {
    Trouble::Failed(StoreError::TableGone(
        "this set was cleared, or the tables were made anew since it was opened".to_owned(),
    ))
}

/// A result that none of our statements gives.
pub(crate) fn garbled(what: &str) -> Trouble {
    Trouble::Failed(StoreError::Unavailable(format!(
        "the answer of the MariaDB server cannot be read ({what})"
    )))
}

/// An error in words, with what to do about it. None holds a password.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::Server(error) => format!("{}: {}", advice(error.code), error.message),
        Error::Io(error) => format!("the MariaDB server cannot be reached: {error}"),
        Error::Driver(DriverError::ConnectionClosed) => {
            "the MariaDB server has closed the connection".to_owned()
        }
        Error::Driver(error) => format!("the MariaDB server cannot be understood: {error}"),
        Error::Url(error) => url_words(error).to_owned(),
        Error::Other(_) => "the MariaDB server cannot be used".to_owned(),
    }
}

const fn advice(code: u16) -> &'static str {
    match code {
        1040 | 1203 => {
            "the MariaDB server has too many connections; raise max_connections, or open fewer"
        }
        1045 => "the MariaDB server did not accept user and password; set them in the address",
        1044 | 1142 | 1143 | 1227 => {
            "the MariaDB user may not do this; grant it what docs/stores/mariadb.md says"
        }
        1046 | 1049 => "the database is not there; create it, and name it in the address",
        1114 | 1021 => "the MariaDB server is full; make room on its disk",
        1146 | 1054 => {
            "the tables are not as this version made them; restore them, or drop them with all servers stopped (docs/operating/upgrades.md)"
        }
        1205 | 1969 => {
            "timed out waiting for the row of this key's root, which other requests hold"
        }
        1213 | 1062 => "deadlocks on the row of this key's root, repeatedly",
        1290 | 1792 | 1836 => "the MariaDB server takes no writes; name the primary",
        1153 => "a row is too large for the MariaDB server; raise max_allowed_packet",
        _ => "the MariaDB server answered with an error",
    }
}

/// Why an address cannot be used, without a word of it.
pub(crate) const fn url_words(error: &UrlError) -> &'static str {
    match error {
        UrlError::FeatureRequired { .. } => "it needs the feature `tls`",
        UrlError::Invalid => "it is incomplete",
        UrlError::InvalidParamValue { .. } => "a parameter has a value that cannot be used",
        UrlError::UnknownParameter { .. } => "it has a parameter that is not known",
        UrlError::UnsupportedScheme { .. } => "it does not begin with mysql:// or mariadb://",
        _ => "it is no address",
    }
}
