//! The file: how it is made, found and checked.
//!
//! It is made whole without a name, and then given one: no process ever sees half of one.
//! Whoever comes second with the same name takes the first one's. A segment of before the
//! machine was booted has nobody in it and locks that nobody gives back: it gives way to a
//! new one, under a lock on the old one's file.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, Stat, fallocate, flock,
    fstat, ftruncate, linkat, open, stat, unlink,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::clock;
use crate::error::ShmError;
use crate::layout::{
    self, MAGIC, READY, SHAPE, SMALLEST, VERSION, WORD, chunk, header, shard, shard_at,
};
use crate::lock;
use crate::mapping::Mapping;
use crate::options::Options;
use crate::process;

/// The longest name.
const LONGEST_NAME: usize = 64;

/// The permissions of a segment's file.
const OWNERS_ALONE: u32 = 0o600;

/// A segment that this process has open.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    mapping: Mapping,
    file: File,
    chunks: usize,
    seed: u64,
}

/// What is at a path.
enum There {
    Segment(Segment),
    /// Of before the machine was booted.
    Left(File),
    Nothing,
}

/// The file of the segment called `name`.
pub(crate) fn path(name: &str, options: &Options) -> Result<PathBuf, ShmError> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    let is_name = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.bytes().all(is_fine);
    if !is_name {
        return Err(ShmError::Name(name.to_owned()));
    }
    let user = geteuid().as_raw();
    Ok(options.dir.join(format!("tidegate-{user}-{name}")))
}

impl Segment {
    /// The segment in the file at `path`, made if it is not there.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, ShmError> {
        let boot = boot(path)?;
        loop {
            match find(path, boot)? {
                There::Segment(segment) => return Ok(segment),
                There::Left(old) => remove_left(path, &old)?,
                There::Nothing => {
                    let (file, segment) = make(path, options.size, boot)?;
                    match name(&file, path) {
                        Ok(()) => return Ok(segment),
                        // Another process was quicker.
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(failed(path, error)),
                    }
                }
            }
        }
    }

    pub(crate) const fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Its file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has.
    pub(crate) fn size(&self) -> usize {
        self.mapping.words().len() * WORD
    }

    /// Whether a heap could take another chunk, if the system had memory for it.
    pub(crate) fn has_free_chunk(&self) -> bool {
        let owners = &self.mapping.words()[chunk::TABLE..chunk::TABLE + self.chunks];
        let mut owners = owners.iter().skip(chunk::JOURNALS);
        owners.any(|owner| owner.load(Ordering::Relaxed) == 0)
    }

    /// How many chunks there are.
    pub(crate) const fn chunks(&self) -> usize {
        self.chunks
    }

    /// What it hashes by.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// Takes the memory of a chunk from the system; `false`: there is none.
    pub(crate) fn provide(&self, chunk: usize) -> bool {
        let at = layout::chunk_at(self.chunks, chunk) * WORD;
        provide(&self.file, at, chunk::WORDS * WORD).is_ok()
    }
}

/// Memory is taken now, where there being none can be told.
fn provide(file: &File, at: usize, bytes: usize) -> Result<(), Errno> {
    loop {
        match fallocate(file, FallocateFlags::KEEP_SIZE, at as u64, bytes as u64) {
            Err(Errno::INTR) => {}
            // The file system cannot say; then it is as with any other memory.
            Err(Errno::OPNOTSUPP) => return Ok(()),
            told => return told,
        }
    }
}

fn failed(path: &Path, error: impl Into<io::Error>) -> ShmError {
    ShmError::Io {
        path: path.to_owned(),
        source: error.into(),
    }
}

/// Which boot of the machine this is.
fn boot(path: &Path) -> Result<[u64; 2], ShmError> {
    let source = Path::new("/proc/sys/kernel/random/boot_id");
    let said = fs::read_to_string(source).map_err(|error| failed(source, error))?;
    let digits: String = said.chars().filter(char::is_ascii_hexdigit).collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) => Ok([(number >> 64) as u64, number as u64]),
        Err(_) => Err(failed(path, io::Error::other("the system has no boot_id"))),
    }
}

fn find(path: &Path, boot: [u64; 2]) -> Result<There, ShmError> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let not = |what| {
        Err(ShmError::NotASegment {
            path: path.to_owned(),
            what,
        })
    };
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(There::Nothing),
        Err(Errno::LOOP) => return not("it is a symbolic link"),
        Err(Errno::ISDIR) => return not("it is a directory"),
        Err(error) => return Err(failed(path, error)),
    };
    let found = fstat(&file).map_err(|error| failed(path, error))?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return not("it is no file");
    }
    check_owner(path, &found)?;
    let torn = |what: &str| {
        Err(ShmError::Torn {
            path: path.to_owned(),
            what: what.to_owned(),
        })
    };
    let size = usize::try_from(found.st_size).unwrap_or(0);
    if size < header::WORDS * WORD {
        return not("it is too short");
    }
    let head = Mapping::new(&file, header::WORDS).map_err(|error| failed(path, error))?;
    if head.get(header::MAGIC) != MAGIC {
        return not("it begins otherwise");
    }
    let version = head.get(header::VERSION);
    if version != VERSION || head.get(header::SHAPE) != SHAPE {
        return Err(ShmError::OtherLayout {
            path: path.to_owned(),
            found: version,
            known: VERSION,
        });
    }
    if [head.get(header::BOOT), head.get(header::BOOT + 1)] != boot {
        return Ok(There::Left(file));
    }
    if head.get(header::NAMESPACE) != process::me().namespace {
        return Err(ShmError::OtherNamespace {
            path: path.to_owned(),
        });
    }
    if head.get(header::STATE) != READY {
        return torn("it was never finished");
    }
    if size < SMALLEST || head.get(header::SIZE) != size as u64 {
        return torn("it has another size than it says");
    }
    let chunks = layout::chunks(size / WORD);
    if head.get(header::CHUNKS) != chunks as u64 {
        return torn("it has another number of chunks than it says");
    }
    let seed = head.get(header::SEED);
    let mapping = Mapping::new(&file, size / WORD).map_err(|error| failed(path, error))?;
    Ok(There::Segment(Segment {
        path: path.to_owned(),
        mapping,
        file,
        chunks,
        seed,
    }))
}

fn check_owner(path: &Path, found: &Stat) -> Result<(), ShmError> {
    let user = geteuid().as_raw();
    if found.st_uid != user {
        return Err(ShmError::OtherOwner {
            path: path.to_owned(),
            owner: found.st_uid,
            user,
        });
    }
    let mode = found.st_mode & 0o777;
    if mode & !OWNERS_ALONE != 0 {
        return Err(ShmError::Permissions {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(())
}

/// Removes the file of before the machine was booted, unless another did.
fn remove_left(path: &Path, old: &File) -> Result<(), ShmError> {
    let fails = |error: Errno| failed(path, error);
    flock(old, FlockOperation::LockExclusive).map_err(fails)?;
    let ours = fstat(old).map_err(fails)?;
    let is_it = match stat(path) {
        Ok(found) => (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino),
        Err(_) => false,
    };
    match is_it {
        true => unlink(path).map_err(fails),
        false => Ok(()),
    }
}

/// A whole segment in a file that has no name yet.
fn make(path: &Path, size: usize, boot: [u64; 2]) -> Result<(File, Segment), ShmError> {
    let fails = |error: Errno| failed(path, error);
    let dir = path.parent().unwrap_or(Path::new("."));
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = open(dir, flags, Mode::from_raw_mode(OWNERS_ALONE)).map_err(fails)?;
    let file = File::from(file);
    ftruncate(&file, size as u64).map_err(fails)?;
    let words = size / WORD;
    let chunks = layout::chunks(words);
    let before_chunks = layout::chunk_at(chunks, 0);
    provide(&file, 0, before_chunks * WORD).map_err(fails)?;
    let mapping = Mapping::new(&file, words).map_err(|error| failed(path, error))?;
    for number in 0..shard::COUNT {
        let made = lock::make(&mapping, shard_at(number));
        made.map_err(|error| failed(path, error))?;
    }
    let seed = seed();
    let now = clock::now().as_micros();
    let said = [
        (header::MAGIC, MAGIC),
        (header::VERSION, VERSION),
        (header::SIZE, size as u64),
        (header::CREATED, now.unsigned_abs()),
        (header::BOOT, boot[0]),
        (header::BOOT + 1, boot[1]),
        (header::SHAPE, SHAPE),
        (header::CHUNKS, chunks as u64),
        (header::SEED, seed),
        (header::NAMESPACE, process::me().namespace),
        (header::STATE, READY),
    ];
    for (at, word) in said {
        mapping.set(at, word);
    }
    let own = file.try_clone().map_err(|error| failed(path, error))?;
    let segment = Segment {
        path: path.to_owned(),
        mapping,
        file: own,
        chunks,
        seed,
    };
    Ok((file, segment))
}

/// A number that nobody can guess: by it keys are spread.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(clock::since_1970())
}

/// Gives the file its name, if nobody has it.
fn name(file: &File, path: &Path) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let own = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    linkat(CWD, &*own, CWD, path, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use super::*;

    fn options(dir: &Path) -> Options {
        Options {
            dir: dir.to_owned(),
            size: SMALLEST,
            ..Options::default()
        }
    }

    fn opened(dir: &Path, name: &str) -> Result<Segment, ShmError> {
        let options = options(dir);
        Segment::open(&path(name, &options)?, &options)
    }

    #[test]
    fn who_opens_one_at_once_has_the_same() {
        let dir = tempfile::tempdir().expect("a directory");
        let seeds = thread::scope(|scope| {
            let open = || opened(dir.path(), "one").expect("it opens").seed();
            let threads = [(); 8].map(|()| scope.spawn(open));
            threads.map(|thread| thread.join().expect("it opens"))
        });
        assert!(seeds.iter().all(|seed| *seed == seeds[0]));
        let left = fs::read_dir(dir.path()).expect("it is there").count();
        assert_eq!(left, 1, "nothing else is left there");
    }

    #[test]
    fn a_file_that_is_no_segment_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| path(name, &options(dir.path())).expect("a name");
        let refused = |name: &str| opened(dir.path(), name).expect_err("it is none");
        let kept = |name: &str, bytes: &[u8]| {
            fs::write(at(name), bytes).expect("room");
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(at(name), mode).expect("it is ours");
        };
        kept("short", b"TIDEGATE");
        assert!(matches!(refused("short"), ShmError::NotASegment { .. }));
        kept("other", &[7; 8_192]);
        assert!(matches!(refused("other"), ShmError::NotASegment { .. }));
        assert_eq!(fs::read(at("other")).expect("it is there"), [7; 8_192]);
        symlink("/dev/null", at("link")).expect("room");
        assert!(matches!(refused("link"), ShmError::NotASegment { .. }));
        fs::create_dir(at("dir")).expect("room");
        assert!(matches!(refused("dir"), ShmError::NotASegment { .. }));
        drop(opened(dir.path(), "open").expect("it opens"));
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(at("open"), mode).expect("it is ours");
        assert!(matches!(
            refused("open"),
            ShmError::Permissions { mode: 0o644, .. }
        ));
        for name in ["", "a/b", "..", ".a", &"a".repeat(65)] {
            assert!(matches!(refused(name), ShmError::Name(_)));
        }
    }

    #[test]
    fn a_segment_of_another_user_is_refused_to_root_too() {
        if !geteuid().is_root() {
            eprintln!("not tried: only root gives a file to another user");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        drop(opened(dir.path(), "theirs").expect("it opens"));
        let file = path("theirs", &options(dir.path())).expect("a name");
        std::os::unix::fs::chown(&file, Some(65_534), None).expect("root may");
        let refused = opened(dir.path(), "theirs").expect_err("it is another's");
        assert!(matches!(
            &refused,
            ShmError::OtherOwner { path, owner: 65_534, user: 0 } if *path == file
        ));
        assert!(refused.to_string().contains("belongs to the user 65534"));
    }

    #[test]
    fn a_torn_a_newer_a_distant_and_an_unfinished_segment_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let spoil = |name: &str, word: usize, value: u64| {
            let segment = opened(dir.path(), name).expect("it opens");
            segment.mapping().set(word, value);
            drop(segment);
            opened(dir.path(), name).expect_err("it is spoilt")
        };
        let newer = spoil("newer", header::VERSION, VERSION + 1);
        assert!(matches!(
            newer,
            ShmError::OtherLayout { found, .. } if found == VERSION + 1
        ));
        let elsewhere = spoil("elsewhere", header::NAMESPACE, 7);
        assert!(matches!(elsewhere, ShmError::OtherNamespace { .. }));
        let torn = spoil("unfinished", header::STATE, 1);
        assert!(matches!(torn, ShmError::Torn { .. }));
        let name = "cut";
        drop(opened(dir.path(), name).expect("it opens"));
        let file = path(name, &options(dir.path())).expect("a name");
        let file = File::options().write(true).open(file).expect("it is ours");
        file.set_len(SMALLEST as u64 / 2).expect("it is ours");
        let torn = opened(dir.path(), name).expect_err("it is cut");
        assert!(matches!(torn, ShmError::Torn { .. }));
    }

    #[test]
    fn a_segment_of_before_the_machine_was_booted_gives_way_to_a_new_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let old = opened(dir.path(), "old").expect("it opens");
        old.mapping().set(header::BOOT, 7);
        let seeds = thread::scope(|scope| {
            let open = || opened(dir.path(), "old").expect("it opens").seed();
            let threads = [(); 4].map(|()| scope.spawn(open));
            threads.map(|thread| thread.join().expect("it opens"))
        });
        assert!(seeds.iter().all(|seed| *seed == seeds[0]));
        assert_ne!(seeds[0], old.seed());
    }
}
