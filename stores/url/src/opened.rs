//! A store that was named by a URL.

use std::fmt;
use std::sync::Arc;

use tidegate_store::Store;

use crate::error::UrlError;

/// A store that was named by a URL.
#[derive(Clone)]
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Store>,
    pub(crate) remote: bool,
    #[cfg(feature = "file")]
    pub(crate) file: Option<Arc<tidegate_file::FileStore>>,
}

impl Opened {
    /// Whether it lies beyond a network, and so may be away.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        self.remote
    }

    /// Waits until everything decided so far is in the store's file, if it has one.
    ///
    /// # Errors
    /// [`UrlError::Store`]: the disk is full or broken.
    pub fn flush(&self) -> Result<(), UrlError> {
        #[cfg(feature = "file")]
        if let Some(file) = &self.file {
            return file.flush().map_err(UrlError::store);
        }
        Ok(())
    }

    /// Of this machine, with nothing to write.
    pub(crate) fn near(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            remote: false,
            #[cfg(feature = "file")]
            file: None,
        }
    }

    /// Beyond a network.
    #[cfg(any(
        feature = "redis",
        feature = "postgres",
        feature = "mysql",
        feature = "dynamodb"
    ))]
    pub(crate) fn remote(store: Arc<dyn Store>) -> Self {
        Self {
            remote: true,
            ..Self::near(store)
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("remote", &self.remote)
            .finish_non_exhaustive()
    }
}
