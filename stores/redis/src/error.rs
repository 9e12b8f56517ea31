//! Why a store cannot be opened, and what an error of the server means.

use redis::{ErrorKind, ServerErrorKind};
use tidegate_store::StoreError;

/// The store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The address makes no sense. (It is not repeated: it may hold a password.)
    #[error(
        "the address of the Redis server cannot be used ({0}); write redis://[user:password@]host[:port][/database], redis+cluster://host[:port],... or redis+sentinel://host[:port],.../service"
    )]
    Address(String),
    /// An option makes no sense.
    #[error("{0}")]
    Option(&'static str),
    /// The server cannot be reached, or cannot be used.
    #[error("{0}")]
    Server(String),
}

/// The slot of the keys is being moved: nothing was done.
pub(crate) fn is_moving(error: &redis::RedisError) -> bool {
    let moving = [
        ErrorKind::Server(ServerErrorKind::TryAgain),
        ErrorKind::Server(ServerErrorKind::Ask),
    ];
    moving.contains(&error.kind())
}

/// What to tell about a failed command to the servers at `place`.
pub(crate) fn unavailable(error: &redis::RedisError, place: &str) -> StoreError {
    match is_moving(error) {
        true => StoreError::Busy(words(error)),
        // It answers, and has done nothing: that is no outage.
        false if error.code() == Some("OOM") => StoreError::Full(words(error)),
        false if error.kind() == ErrorKind::Io => StoreError::Unavailable(silent(error, place)),
        false => StoreError::Unavailable(words(error)),
    }
}

/// What to tell when a server that was never heard of does not say who it is: something may be
/// there that is no Redis.
pub(crate) fn not_greeted(error: &redis::RedisError, place: &str) -> StoreError {
    let hung_up = error.is_connection_dropped() && !error.is_connection_refusal();
    let help = match hung_up || error.kind() == ErrorKind::Parse {
        true => "; is it Redis, and does it expect TLS (rediss://)?",
        false => "",
    };
    match unavailable(error, place) {
        StoreError::Unavailable(words) => StoreError::Unavailable(format!("{words}{help}")),
        error => error,
    }
}

/// An answer that no version of the script gives.
pub(crate) fn garbled(what: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "the answer of the Redis server cannot be read ({what})"
    ))
}

/// Why an address cannot be used, without a word of it.
pub(crate) fn reason(error: &redis::RedisError) -> String {
    match error.kind() {
        ErrorKind::InvalidClientConfig => error.category().to_owned(),
        _ => words(error),
    }
}

/// It was not reached, or said nothing.
fn silent(error: &redis::RedisError, place: &str) -> String {
    let what = match error.is_timeout() {
        true => "does not answer",
        false => "cannot be reached",
    };
    let why = std::error::Error::source(error);
    let why = why.map_or_else(|| error.category().to_owned(), ToString::to_string);
    format!("the Redis server at {place} {what}: {why}")
}

fn words(error: &redis::RedisError) -> String {
    let advice = match (error.kind(), error.code()) {
        (_, Some("OOM")) => {
            "the Redis server has no memory left and may drop nothing; raise its maxmemory"
        }
        (_, Some("NOAUTH" | "WRONGPASS")) | (ErrorKind::AuthenticationFailed, _) => {
            "the Redis server did not accept the password; set it in the address"
        }
        (_, Some("NOPERM")) => {
            "the Redis user may not do this; allow it what docs/stores/redis.md lists: FCALL and FUNCTION LOAD, or EVAL and EVALSHA; PING, TIME and SCAN; and the keys of the prefix"
        }
        (_, Some("MISCONF")) => {
            "the Redis server cannot save, and takes no writes; make room on its disk, and see its log"
        }
        (_, Some("NOREPLICAS")) => {
            "the Redis server has too few replicas, and takes no writes; start them, or lower min-replicas-to-write"
        }
        (ErrorKind::Server(kind), _) => by_kind(kind),
        _ => "the Redis server answered with an error",
    };
    match (error.detail(), std::error::Error::source(error)) {
        (Some(detail), _) => format!("{advice}: {detail}"),
        (None, Some(source)) => format!("{advice}: {source}"),
        (None, None) => format!("{advice}: {}", error.category()),
    }
}

const fn by_kind(kind: ServerErrorKind) -> &'static str {
    match kind {
        ServerErrorKind::ReadOnly => {
            "the Redis server is a replica and takes no writes; name the master"
        }
        ServerErrorKind::BusyLoading => "the Redis server is loading its data; try again soon",
        ServerErrorKind::TryAgain | ServerErrorKind::Ask => {
            "the Redis cluster is moving the slot of this key to another node; try again soon"
        }
        ServerErrorKind::Moved | ServerErrorKind::CrossSlot => {
            "the Redis server is part of a cluster; write redis+cluster:// in place of redis://"
        }
        ServerErrorKind::MasterDown | ServerErrorKind::ClusterDown => {
            "the Redis server has no master now"
        }
        _ => "the Redis server answered with an error",
    }
}
