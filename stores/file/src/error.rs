//! Why a file cannot be opened, and what to do about it.

use std::io;
use std::path::PathBuf;

use tidegate_store::StoreError;
use tidegate_store::core::DecodeError;

/// The file cannot be used; it is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Another store, of this process or another, has it open.
    #[error(
        "{path} is in use already; stop the process that has it open, name another file, or, within one process, open it once and clone the store"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// It is something else.
    #[error(
        "{path} is no Tidegate store ({what}); name another file, or remove this one if it is not needed"
    )]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What gave it away.
        what: &'static str,
    },
    /// A newer version wrote it.
    #[error(
        "{path} has format {found}, and this version reads up to {known}; run the version that wrote it, or a newer one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is read.
        known: u32,
    },
    /// It has been damaged.
    #[error(
        "{path} is damaged ({what}); nothing was changed in it: restore it from a copy, or move it away to start with nothing used"
    )]
    Damaged {
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
    /// The journal cannot be written.
    #[error(
        "the journal cannot be written: {0}; make room on the disk, or restart if a sync failed"
    )]
    Journal(String),
}

/// Why reading or writing the file failed, before the file's name is added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("{0}")]
    NotAStore(&'static str),
    #[error("format {0}")]
    Newer(u32),
    #[error("{0}")]
    Damaged(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Fault {
    /// The error about the file at `path`.
    pub(crate) fn of(self, path: PathBuf) -> FileError {
        match self {
            Self::NotAStore(what) => FileError::NotAStore { path, what },
            Self::Newer(found) => {
                let known = crate::layout::FORMAT;
                FileError::Newer { path, found, known }
            }
            Self::Damaged(what) => FileError::Damaged { path, what },
            Self::Io(source) => FileError::Io { path, source },
        }
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Newer { version, .. } => Self::Newer(u32::from(version)),
            error => Self::Damaged(error.to_string()),
        }
    }
}

impl From<redb::StorageError> for Fault {
    fn from(error: redb::StorageError) -> Self {
        match error {
            redb::StorageError::Io(error) => error.into(),
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// redb's other errors: what is not about the disk is about what is on it.
macro_rules! from_redb {
    ($($error:ident),*) => {$(
        impl From<redb::$error> for Fault {
            fn from(error: redb::$error) -> Self {
                match error {
                    redb::$error::Storage(error) => error.into(),
                    error => Self::Damaged(error.to_string()),
                }
            }
        }
    )*};
}

from_redb!(
    DatabaseError,
    TransactionError,
    TableError,
    CommitError,
    CompactionError
);

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable(fault.to_string())
    }
}
