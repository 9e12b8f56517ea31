//! Stores by their URL.

mod far;

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
        Some((scheme, _)) if scheme.starts_with("redis") => Ok(Opened {
            store: far::redis(url)?,
            file: None,
        }),
        _ => Err(Trouble::usage(format!(
            "`{}` is no store; write memory:, file:PATH or redis://HOST",
            shown(url)
        ))),
    }
}

/// A URL as it may be shown: without user and password.
pub fn shown(url: &str) -> String {
    let parts = url.split_once("://");
    match parts.and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, host)) => format!("{scheme}://***@{host}"),
        None => url.to_owned(),
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
    use super::{open, shown};

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

    #[test]
    fn a_password_is_in_no_error_and_on_no_screen() {
        for url in [
            "reddis://u:secret@127.0.0.1",
            "redis://u:secret@127.0.0.1:1",
            "redis://u:sec@ret:secret@127.0.0.1:port",
            "redis+ring://u:secret@127.0.0.1",
            "redis+cluster://u:secret@127.0.0.1:1",
            "redis+sentinel://u:secret@127.0.0.1:1/main",
            "postgres://u:secret@127.0.0.1",
        ] {
            let said = open(url).err().map(|trouble| trouble.to_string());
            let said = said.expect("nothing listens there");
            assert!(!said.contains("secret"), "{said}");
            assert!(!shown(url).contains("secret"), "{}", shown(url));
            assert!(shown(url).contains("***@"));
        }
        assert_eq!(shown("file:a@b"), "file:a@b");
        assert_eq!(shown("redis://h:1/2"), "redis://h:1/2");
    }
}
