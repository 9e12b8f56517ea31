//! Why a URL opens nothing.

use std::fmt::Display;

use thiserror::Error;

/// Why a URL opens no store. No message repeats a password.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum UrlError {
    /// No store is called so.
    #[error(
        "`{0}` is no store; {hint}", hint = hint(.0)
    )]
    Unknown(String),
    /// This build was made without the engine.
    #[error("this build has no {engine}; build it with the feature `{feature}`")]
    NotBuilt {
        /// What it is called.
        engine: &'static str,
        /// The feature that brings it.
        feature: &'static str,
    },
    /// What stands behind the `?` makes no sense.
    #[error("the option `{name}` of the store: {why}")]
    Option {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store cannot be opened or written, and says why.
    #[error("{0}")]
    Store(String),
}

/// What to write instead.
fn hint(url: &str) -> String {
    if url == "memory" {
        return "write memory:".to_owned();
    }
    if let Some(name) = url.strip_prefix("shm:") {
        return match name.trim_start_matches('/') {
            name if name.is_empty() || name.starts_with('?') => format!("write shm:NAME{name}"),
            name => format!("write shm:{name}"),
        };
    }
    let is_path = !url.contains(':') && (url.contains(['/', '.']) || url.ends_with("redb"));
    if is_path {
        return format!("for a file, write file:{url}");
    }
    "write memory:, file:PATH, shm:NAME, redis://HOST, redis+cluster://HOST, redis+sentinel://HOST/SERVICE, postgres://HOST/DATABASE, mysql://HOST/DATABASE, dynamodb://TABLE or tidegate://HOST".to_owned()
}

impl UrlError {
    pub(crate) fn option(name: &str, why: impl Display) -> Self {
        Self::Option {
            name: name.to_owned(),
            why: why.to_string(),
        }
    }

    #[cfg(any(
        feature = "file",
        feature = "redis",
        feature = "postgres",
        feature = "mysql",
        feature = "dynamodb",
        all(feature = "shm", target_os = "linux")
    ))]
    pub(crate) fn store(why: impl Display) -> Self {
        Self::Store(why.to_string())
    }
}
