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
    #[cfg(feature = "file")]
    pub(crate) file: Option<Arc<tidegate_file::FileStore>>,
}

impl Opened {
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

    /// With nothing to write here.
    pub(crate) fn without_file(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            #[cfg(feature = "file")]
            file: None,
        }
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}
