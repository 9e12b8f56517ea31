//! Why a store cannot be opened, and what an error of the server means.

use deadpool_postgres::{PoolError, TimeoutType};
use tidegate_store::StoreError;
use tokio_postgres::error::SqlState;

/// The store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The address makes no sense. (It is not repeated: it may hold a password.)
    #[error(
        "the address of the PostgreSQL server cannot be used; write postgres://[user[:password]@]host[:port]/database"
    )]
    Address,
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
    /// The server cannot be reached, or cannot be used.
    #[error("{0}")]
    Server(String),
    /// A pooler stands before the server and lends its sessions for single transactions:
    /// settings, prepared statements, notifications and locks do not go with them.
    #[error(
        "a pooler before the PostgreSQL server lends its sessions for single transactions, and the store needs one for as long as it is connected; use session pooling (PgBouncer: pool_mode = session), or name the server itself"
    )]
    Pooler,
    /// The schema was made by a later version of this crate.
    #[error("the schema is of version {found}, this program knows {known}; use a newer program")]
    Newer {
        /// The newest migration that was applied.
        found: i32,
        /// The newest that is known.
        known: i32,
    },
    /// The schema is missing or older, and may not be changed.
    #[error(
        "the schema is of version {found}, not {known}; open the store once as its owner, without `migrate=off`"
    )]
    Older {
        /// The newest migration that was applied; 0 if there is no schema.
        found: i32,
        /// The newest that is known.
        known: i32,
    },
    /// The schema has this program's version, and was made by a build in which that version, not
    /// released yet, was another.
    #[error(
        "the schema of version {version} was made by another build, before that version was released; stop all servers, `DROP SCHEMA tidegate CASCADE` (limits begin anew; overrides, entities and applied policies are gone), and start again"
    )]
    Unreleased {
        /// The version of both.
        version: i32,
    },
}

/// What the functions of the schema raise where there is no set of a number (`sql/adopt.sql`).
const GONE: &str = "TG002";

/// What to tell about a failed command.
pub(crate) fn unavailable(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => StoreError::Busy(words(error)),
        Some(code) if code.code() == GONE => StoreError::TableGone(
            "this set was cleared, or the schema `tidegate` was made anew since it was opened"
                .into(),
        ),
        _ => StoreError::Unavailable(words(error)),
    }
}

/// What to tell when no connection could be had.
pub(crate) fn no_connection(error: &PoolError) -> StoreError {
    let words = match error {
        PoolError::Backend(error) => words(error),
        PoolError::Timeout(TimeoutType::Wait) => {
            let words = "all connections to the PostgreSQL server are busy; raise `connections`";
            return StoreError::Busy(words.to_owned());
        }
        PoolError::Timeout(_) => "the PostgreSQL server does not answer".to_owned(),
        _ => "the store is closed".to_owned(),
    };
    StoreError::Unavailable(words)
}

/// An answer that no version of the functions gives.
pub(crate) fn garbled(what: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "the answer of the PostgreSQL server cannot be read ({what})"
    ))
}

pub(crate) fn words(error: &tokio_postgres::Error) -> String {
    let Some(told) = error.as_db_error() else {
        let what = match error.is_closed() {
            true => "the connection to the PostgreSQL server was lost",
            false => "the PostgreSQL server cannot be reached",
        };
        return match std::error::Error::source(error) {
            Some(source) => format!("{what}: {source}"),
            None => what.to_owned(),
        };
    };
    let advice = advice(told.code());
    let hint = told.hint().map(|hint| format!("; {hint}"));
    format!("{advice}: {}{}", told.message(), hint.unwrap_or_default())
}

fn advice(code: &SqlState) -> &'static str {
    match *code {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "the PostgreSQL server did not accept user or password; set them in the address"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "the PostgreSQL role may not do this; docs/stores/postgres.md lists what it needs"
        }
        SqlState::LOCK_NOT_AVAILABLE => {
            "others hold the lock of the key's root, and are not done in time"
        }
        SqlState::QUERY_CANCELED => "the PostgreSQL server took longer than the deadline",
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the PostgreSQL server is a standby and takes no writes; name the primary"
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            "the PostgreSQL server has no connection left; lower `connections` or raise max_connections"
        }
        SqlState::DISK_FULL => "the PostgreSQL server's disk is full; make room on it",
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN | SqlState::CANNOT_CONNECT_NOW => {
            "the PostgreSQL server is starting or stopping; try again soon"
        }
        SqlState::UNDEFINED_FUNCTION
        | SqlState::UNDEFINED_TABLE
        | SqlState::INVALID_SCHEMA_NAME => {
            "the schema `tidegate` of the PostgreSQL database has changed; open the store again"
        }
        _ => "the PostgreSQL server answered with an error",
    }
}
