//! How a file comes to be: made whole under another name, synced, and only then
//! given its own. A crash on the way leaves no file, never half of one.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::Disk;
use crate::error::{Fault, FileError};
use crate::layout::{FORMAT_KEY, LEASES, META, PLAIN_FORMAT, PLANS, ROWS, TABLES};
use crate::open::builder;

/// The file at `path`, made if it is not there, and locked.
pub(crate) fn file(path: &Path) -> Result<Arc<File>, FileError> {
    let about = |error: Fault| error.of(path.to_owned());
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path).map_err(about)?,
        file => file.map_err(|error| about(error.into()))?,
    };
    lock(&file, path)?;
    Ok(Arc::new(file))
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
