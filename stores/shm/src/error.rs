//! Why a segment cannot be opened, what to do about it, and why a step cannot be done.

use std::io;
use std::path::PathBuf;

use tidegate_store::StoreError;
use tidegate_store::core::DecodeError;

/// The segment cannot be used; it is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmError {
    /// A segment has no such name.
    #[error(
        "`{0}` is no name of a segment; write 1 to 64 letters, digits, dots, dashes and underscores, and no dot first"
    )]
    Name(String),
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
    /// Somebody else owns the file.
    #[error(
        "{path} belongs to the user {owner}, and this process runs as {user}; choose another name or directory, or run both as one user"
    )]
    OtherOwner {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this process.
        user: u32,
    },
    /// Others than its owner may read or write the file.
    #[error(
        "{path} has the permissions {mode:o}; a segment is its owner's alone: chmod 600 {path}"
    )]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Its processes have their numbers from another namespace.
    #[error(
        "{path} is used by processes of another pid namespace, and this process cannot see when those end; run all of them in one (shareProcessNamespace, --pid), or choose another name"
    )]
    OtherNamespace {
        /// The file.
        path: PathBuf,
    },
    /// It is something else: a link, a directory, another program's file.
    #[error(
        "{path} is no segment of Tidegate ({what}); choose another name, or remove it if it is not needed"
    )]
    NotASegment {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        what: &'static str,
    },
    /// Another version of this program made it.
    #[error(
        "{path} has layout {found}, and this version has {known}; stop the processes that use it and remove it, or run their version"
    )]
    OtherLayout {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: u64,
        /// The only one that is read.
        known: u64,
    },
    /// It is not whole.
    #[error(
        "{path} is torn ({what}); stop the processes that use it and remove it: what was used is forgotten then"
    )]
    Torn {
        /// The file.
        path: PathBuf,
        /// What does not hold.
        what: String,
    },
    /// The operating system failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// How.
        source: io::Error,
    },
}

/// Why a step on a shard cannot be done: nothing of it was.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Fault {
    /// There is no room for it.
    Full,
    /// Something stands where it must not.
    Corrupt(&'static str),
    /// What the store answers.
    Told(StoreError),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Told(error.into())
    }
}

impl Fault {
    /// What the caller is told; `full` says what would make room.
    pub(crate) fn told(self, full: impl FnOnce() -> String) -> StoreError {
        match self {
            Self::Full => StoreError::Full(full()),
            Self::Corrupt(what) => DecodeError::Corrupt(what).into(),
            Self::Told(error) => error,
        }
    }
}
