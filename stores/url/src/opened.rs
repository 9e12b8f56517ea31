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
    pub(crate) far: bool,
    #[cfg(feature = "file")]
    pub(crate) file: Option<Arc<tidegate_file::FileStore>>,
}

impl Opened {
    /// Whether it lies beyond a network, and so may be away.
    #[must_use]
    pub const fn is_far(&self) -> bool {
        self.far
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

    /// Of this process, with nothing to write.
    pub(crate) fn near(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            far: false,
            #[cfg(feature = "file")]
            file: None,
        }
    }

    /// Beyond a network.
    #[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
    pub(crate) fn far(store: Arc<dyn Store>) -> Self {
        Self {
            far: true,
            ..Self::near(store)
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("far", &self.far)
            .finish_non_exhaustive()
    }
}
