//! How a file comes to be: made whole under another name, synced, and only then
//! given its own. A crash on the way leaves no file, never half of one.
//!
//! A file is locked for as long as it is open. The lock is given back by name, not by
//! closing the file: a process that another thread is just starting has a copy of each
//! of our descriptors until it runs its own program, and with a copy it has the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Fault, FileError};
use crate::layout::{FORMAT_KEY, LEASES, META, PLAIN_FORMAT, PLANS, ROWS, TABLES};
use crate::medium::Medium;
use crate::open::builder;

/// A file that no other store has. Dropped, it is free, whoever has a copy of its
/// descriptor.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: File,
    /// The process that locked it: one forked from it gives nothing back.
    process: u32,
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Closing the file gives the lock back, too, where nobody has a copy.
            let _ = self.file.unlock();
        }
    }
}

impl Medium for LockedFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

/// The file at `path`, made if it is not there, and locked.
pub(crate) fn file(path: &Path) -> Result<Arc<LockedFile>, FileError> {
    let about = |error: Fault| error.of(path.to_owned());
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path).map_err(about)?,
        file => file.map_err(|error| about(error.into()))?,
    };
    lock(&file, path)?;
    let process = std::process::id();
    Ok(Arc::new(LockedFile { file, process }))
}

fn lock(file: &File, path: &Path) -> Result<(), FileError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(FileError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(Fault::from(error).of(path.to_owned())),
    }
}

/// Makes the file, unless somebody else just did.
fn make(path: &Path) -> Result<File, Fault> {
    let unborn = unborn(path);
    // Left by a process of the same number that was killed here.
    let _ = fs::remove_file(&unborn);
    let made = fill(&unborn).and_then(|()| name(&unborn, path));
    let _ = fs::remove_file(&unborn);
    made?;
    Ok(OpenOptions::new().read(true).write(true).open(path)?)
}

/// Gives the file its name, if nothing has it yet.
fn name(unborn: &Path, path: &Path) -> Result<(), Fault> {
    match fs::hard_link(unborn, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // Not every file system has links.
        Err(_) if !path.exists() => fs::rename(unborn, path)?,
        linked => linked?,
    }
    Ok(sync_folder(path)?)
}

fn unborn(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// An empty store.
fn fill(unborn: &Path) -> Result<(), Fault> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(unborn)?;
    let file = Arc::new(file);
    let database = builder().create_with_backend(Disk::open(Arc::clone(&file) as _, true))?;
    let group = database.begin_write()?;
    group.open_table(META)?.insert(FORMAT_KEY, PLAIN_FORMAT)?;
    group.open_table(TABLES)?;
    group.open_table(PLANS)?;
    group.open_table(ROWS)?;
    group.open_table(LEASES)?;
    group.commit()?;
    drop(database);
    Ok(file.sync_all()?)
}

/// A new name is on the disk once its folder is.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match cfg!(unix) {
        true => File::open(folder.unwrap_or(Path::new(".")))?.sync_all(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in_use(path: &Path) -> bool {
        matches!(file(path), Err(FileError::InUse { .. }))
    }

    #[test]
    fn a_closed_file_is_free_though_a_copy_of_its_descriptor_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let open = file(&path).expect("a file that opens");
        // What a process has that is just being started.
        let copy = open.file.try_clone().expect("a copy");
        assert!(is_in_use(&path));
        drop(open);
        assert!(!is_in_use(&path));
        drop(copy);
    }

    #[test]
    fn a_forked_process_does_not_give_back_what_its_parent_locked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let open = file(&path).expect("a file that opens");
        let forked = LockedFile {
            file: open.file.try_clone().expect("a copy"),
            process: open.process + 1,
        };
        drop(forked);
        assert!(is_in_use(&path));
    }
}
