//! A store by its URL, for whoever lets its user choose where state is kept.
//!
//! | URL | the store | feature |
//! |---|---|---|
//! | `memory:` | this process's memory | |
//! | `file:PATH[?sync=always\|never\|interval=100ms]` | a file of this process | `file` |
//! | `shm:NAME` | memory that processes of this machine share | `shm` (Linux) |
//! | `redis://[user:password@]host[:port][/database]` | a Redis or Valkey server | `redis` |
//! | `redis+cluster://[user:password@]host[:port],...` | a cluster; any of its nodes | `redis` |
//! | `redis+sentinel://[user:password@]host[:port],.../service[/database]` | the master of a service | `redis` |
//! | `postgres://[user[:password]@]host[:port]/database` (or `postgresql`) | a PostgreSQL server | `postgres` |
//! | `mysql://[user[:password]@]host[:port]/database` (or `mariadb`) | a MariaDB server | `mysql` |
//! | `dynamodb://TABLE` | a table of DynamoDB's | `dynamodb` |
//! | `tidegate://[TOKEN@]host[:port]` | the store of a tidegate server | `remote` |
//!
//! With the feature `tls`, `rediss` for `redis` and `tidegates` for `tidegate` encrypt the way there, and so do
//! `?sslmode=require` to PostgreSQL and `?require_ssl=true` to MariaDB; the system's
//! authorities (or those in the file that `SSL_CERT_FILE` names) must vouch for the
//! server.
//!
//! Behind a `?` come options, `name=value`, parted by `&`. Ours are below; others go to
//! PostgreSQL and MariaDB as they are, and are an error elsewhere.
//!
//! | option | of | unless said |
//! |---|---|---|
//! | `deadline=200ms`: the longest that a command may take, with everything | beyond a network, `shm` | a second |
//! | `connections=16`: so many at most | `postgres`, `mysql`; requests under way of `dynamodb` | 8; 64 |
//! | `prefix=name`: what all names there begin with | `redis`, `mysql`; `tidegate` | `tidegate`; none |
//! | `tables=logged\|unlogged`: what survives a crash of the server | `postgres` | as they are; else logged |
//! | `synchronous_commit=off`: an answer does not wait for the server's disk | `postgres` | on |
//! | `migrate=off`: the schema is made and upgraded by somebody else | `postgres`, `dynamodb` | on |
//! | `region=eu-central-1`: the region | `dynamodb` | as the environment says |
//! | `endpoint=http://127.0.0.1:8000`: where it answers | `dynamodb` | AWS's of the region |
//! | `leases=session`: leases end with the process that made them | `postgres` | `ttl` |
//! | `leases=ttl`: leases do not end with the process that made them | `shm` | `process` |
//! | `size=64` (or `64MiB`, `1GiB`): how many MiB it has, if this makes it | `shm` | 64 |
//! | `dir=PATH`: the directory of its file, a whole path | `shm` | `/dev/shm` |
//!
//! ```
//! let opened = tidegate_url::open("memory:")?;
//! assert!(!opened.store.abilities().shared);
//! assert_eq!(
//!     tidegate_url::shown("redis://tide:secret@10.0.0.5/2"),
//!     "redis://***@10.0.0.5/2",
//! );
//! # Ok::<(), tidegate_url::UrlError>(())
//! ```

mod engine;
mod error;
mod opened;
// Which of it is used depends on the engines of this build.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod options;

pub use error::UrlError;
pub use opened::Opened;
use options::Options;

/// Opens the store that `url` names. A server is asked once, so that what is wrong
/// is told at once.
///
/// # Errors
/// [`UrlError`]; a password is in none of its messages.
pub fn open(url: &str) -> Result<Opened, UrlError> {
    opener(url)?()
}

/// Checks that `url` names a store and its options make sense, and opens nothing. Whether
/// its server is there, and takes the address, [`open`] tells.
///
/// # Errors
/// [`UrlError`], but for [`UrlError::Store`]; a password is in none of its messages.
pub fn check(url: &str) -> Result<(), UrlError> {
    opener(url).map(drop)
}

fn opener(url: &str) -> Result<engine::Opener, UrlError> {
    let unknown = || UrlError::Unknown(shown(url));
    let (scheme, _) = url.split_once(':').ok_or_else(unknown)?;
    if !names_all(scheme, url) {
        return Err(unknown());
    }
    let (address, mut options) = Options::split(url)?;
    let opener = match scheme {
        "memory" if address.split('?').next() == Some("memory:") => {
            engine::memory(&address, &options)?
        }
        "file" if address.len() > "file:".len() => engine::file(&address, &mut options)?,
        // A segment has a name, and no host.
        "shm" if url.starts_with("shm:/") || address.split('?').next() == Some("shm:") => {
            return Err(unknown());
        }
        "shm" => engine::shm(&address, &mut options)?,
        "postgres" | "postgresql" => engine::postgres(&address, &mut options)?,
        "mysql" | "mariadb" => engine::mysql(&address, &mut options)?,
        "tidegate" | "tidegates" => engine::remote(&address, &mut options)?,
        "dynamodb" if url.starts_with("dynamodb://") => engine::dynamodb(&address, &mut options)?,
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" | "redis+sentinel"
        | "rediss+sentinel" => engine::redis(&address, &mut options)?,
        _ => return Err(unknown()),
    };
    Ok(opener)
}

/// Whether the URL of a server says which, and of MariaDB which database: an engine says of the
/// others that they cannot be opened, once it is to open them. (PostgreSQL may be on a socket.)
fn names_all(scheme: &str, url: &str) -> bool {
    let engine = scheme.split('+').next().unwrap_or_default();
    let needs_database = matches!(engine, "mysql" | "mariadb");
    let needs_host = matches!(engine, "redis" | "rediss" | "tidegate" | "tidegates");
    if !needs_host && !needs_database {
        return true;
    }
    let Some((_, rest)) = url.split_once("://") else {
        return false;
    };
    let is_whole = |rest: &str| {
        let (place, _) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, path) = place.split_once('/').unwrap_or((place, ""));
        !host.is_empty() && (!needs_database || !path.is_empty())
    };
    // A password may have any of the letters that part an address, and an option an `@`.
    match rest.rsplit_once('@') {
        None => is_whole(rest),
        Some((before, behind)) => is_whole(behind) || before.contains('?') && is_whole(before),
    }
}

/// What is done to the table of a DynamoDB store but deciding by it.
#[cfg(feature = "dynamodb")]
pub mod dynamodb {
    pub use tidegate_dynamodb::{
        Administration, Done, DynamodbError, Language, Options, Rights, Status, Template,
    };
}

/// The table and the options that a URL `dynamodb://TABLE` names, for
/// [`Administration`](dynamodb::Administration).
///
/// # Errors
/// [`UrlError`], but for [`UrlError::Store`].
#[cfg(feature = "dynamodb")]
pub fn dynamodb_table(url: &str) -> Result<(String, dynamodb::Options), UrlError> {
    if !url.starts_with("dynamodb://") {
        return Err(UrlError::Unknown(shown(url)));
    }
    let (address, mut options) = Options::split(url)?;
    engine::dynamodb_table(&address, &mut options)
}

/// A URL as it may be shown: without user and password, and without what stands
/// behind the `?`, where PostgreSQL takes them, too.
#[must_use]
pub fn shown(url: &str) -> String {
    if url.starts_with("file:") || url.starts_with("shm:") {
        return url.to_owned();
    }
    let (begin, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (stars, host) = match rest.rsplit_once('@') {
        Some((_, host)) => ("***@", host),
        None => ("", rest),
    };
    let host = host.split('?').next().unwrap_or_default();
    format!("{begin}{stars}{host}")
}
