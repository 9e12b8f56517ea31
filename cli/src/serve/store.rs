//! Stores by their URL.

use std::sync::Arc;

use tidegate::contract::Store;
use tidegate_memory::MemoryStore;

use crate::trouble::{Outcome, Trouble};
use tidegate_file::{FileStore, Options, SyncMode};

/// What a server opens if nothing is said: a kill loses a tenth of a second.
pub const USUAL: &str = "file:tidegate.redb?sync=interval=100ms";

/// A store, and how to have all of it written.
pub struct Opened {
    pub store: Arc<dyn Store>,
    file: Option<Arc<FileStore>>,
}

impl Opened {
    /// Waits until everything decided so far is in the file, if there is one.
    pub fn flush(&self) -> Outcome<()> {
        match &self.file {
            Some(file) => file.flush().map_err(Trouble::failure),
            None => Ok(()),
        }
    }
}

/// Opens the store that `url` names.
pub fn open(url: &str) -> Outcome<Opened> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Opened {
            store: Arc::new(MemoryStore::default()),
            file: None,
        }),
        Some(("file", path)) if !path.is_empty() => {
            let file = file(path)?;
            Ok(Opened {
                store: Arc::<FileStore>::clone(&file),
                file: Some(file),
            })
        }
        _ => Err(Trouble::usage(format!(
            "`{url}` is no store; write memory: or file:PATH"
        ))),
    }
}

/// `PATH`, `PATH?sync=always`, `PATH?sync=interval=100ms`, `PATH?sync=never`.
fn file(named: &str) -> Outcome<Arc<FileStore>> {
    let (path, mode) = match named.split_once("?sync=") {
        Some((path, mode)) => (path, mode.replace('=', " ").parse()),
        None => (named, Ok(SyncMode::default())),
    };
    let options = Options {
        sync: mode.map_err(Trouble::usage)?,
        ..Options::default()
    };
    let store = FileStore::open(path, options).map_err(Trouble::failure)?;
    Ok(Arc::new(store))
}

#[cfg(test)]
mod tests {
    use super::open;

    #[test]
    fn a_store_is_named_by_its_url() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        assert!(open("memory:").is_ok());
        for mode in ["", "?sync=always", "?sync=never", "?sync=interval=100ms"] {
            let url = format!("file:{}{mode}", path.display());
            assert!(open(&url).is_ok(), "{url}");
        }
        for url in ["memory:x", "file:", "disk:/x", "file:/x?sync=perhaps"] {
            assert!(open(url).is_err(), "{url}");
        }
    }
}
