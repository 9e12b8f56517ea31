//! A file that was damaged is refused and left as it was, or holds exactly what
//! it held: it is never misread. 300 of each kind; `TIDEGATE_DAMAGES` for more.

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::{Place, limits, open, remaining, set};
use tidegate::{Limit, LimitSet, ManualClock};
use tidegate_file::{FileError, SyncMode};

const KEYS: u64 = 150;
/// Nothing is written but by a flush.
const BY_HAND: SyncMode = SyncMode::Interval(Duration::from_secs(3_600));

/// What is left for every key.
type Contents = Vec<(u64, u64)>;

fn contents(path: &Path, clock: &ManualClock) -> Result<Contents, FileError> {
    let set = set(open(path, BY_HAND)?, clock, limits());
    Ok(read(&set))
}

fn read(set: &LimitSet) -> Contents {
    let left = |key: u64, limit| remaining(set, &key.to_string(), limit);
    (0..KEYS)
        .map(|key| (left(key, "budget"), left(key, "slots")))
        .collect()
}

/// Something of every key, and a lease of every third.
fn use_some(set: &LimitSet) {
    for key in 0..KEYS {
        let name = key.to_string();
        let asked = set.try_acquire(&name, 1 + key % 4);
        let lease = asked.wait().expect("no error").granted().expect("room");
        match key % 3 {
            0 => drop(lease.detach()),
            _ => drop(lease),
        }
    }
}

/// A store's bytes, and what may be read from them.
struct Sample {
    bytes: Vec<u8>,
    allowed: Vec<Contents>,
}

/// A file that was closed: nothing in it can be torn.
fn closed(place: &Place, clock: &ManualClock) -> Sample {
    let set = set(
        open(&place.path(), BY_HAND).expect("a new file"),
        clock,
        limits(),
    );
    use_some(&set);
    let allowed = vec![read(&set)];
    drop(set);
    let bytes = fs::read(place.path()).expect("a file");
    Sample { bytes, allowed }
}

/// A file as a kill leaves it: its newest group may be torn, and then the one
/// before holds.
fn killed(place: &Place, clock: &ManualClock) -> Sample {
    let store = open(&place.path(), BY_HAND).expect("a new file");
    let set = set(store.clone(), clock, limits());
    let mut allowed = Vec::new();
    for _ in 0..2 {
        use_some(&set);
        store.flush().expect("room on the disk");
        allowed.push(read(&set));
    }
    let bytes = fs::read(place.path()).expect("a file");
    Sample { bytes, allowed }
}

fn flip_bytes(bytes: &mut [u8], random: &mut SmallRng) {
    for _ in 0..random.random_range(1..=8) {
        // Half of them in the head, which says where everything is.
        let most = if random.random() { 512 } else { bytes.len() };
        let at = random.random_range(0..most.min(bytes.len()));
        bytes[at] ^= random.random_range(1..=u8::MAX);
    }
}

fn cut_off(bytes: &mut Vec<u8>, random: &mut SmallRng) {
    bytes.truncate(random.random_range(0..bytes.len()));
}

fn zero_a_page(bytes: &mut [u8], random: &mut SmallRng) {
    let page = random.random_range(0..bytes.len() / 4_096) * 4_096;
    bytes[page..page + 4_096].fill(0);
}

fn is_never_misread(
    sample: impl Fn(&Place, &ManualClock) -> Sample,
    damage: impl Fn(&mut Vec<u8>, &mut SmallRng),
) {
    let given = std::env::var("TIDEGATE_DAMAGES").ok();
    let times = given.map_or(300, |given| given.parse().expect("a number"));
    let (place, clock) = (Place::new(), ManualClock::default());
    let sample = sample(&place, &clock);
    let mut refused = 0;
    for seed in 0..times {
        let mut bytes = sample.bytes.clone();
        damage(&mut bytes, &mut SmallRng::seed_from_u64(seed));
        let damaged = place.path().with_extension("damaged");
        fs::write(&damaged, &bytes).expect("room on the disk");
        match contents(&damaged, &clock) {
            Ok(contents) => assert!(sample.allowed.contains(&contents), "seed {seed}"),
            Err(_) => {
                refused += 1;
                let after = fs::read(&damaged).expect("a file");
                assert!(after == bytes, "seed {seed}: a refused file was changed");
            }
        }
    }
    println!("{refused} of {times} were refused");
    assert!(refused > 0);
}

#[test]
fn flipped_bytes_of_a_closed_file_are_never_misread() {
    is_never_misread(closed, |bytes, random| flip_bytes(bytes, random));
}

#[test]
fn flipped_bytes_of_a_file_left_by_a_kill_are_never_misread() {
    is_never_misread(killed, |bytes, random| flip_bytes(bytes, random));
}

#[test]
fn a_closed_file_that_was_cut_off_is_never_misread() {
    is_never_misread(closed, cut_off);
}

#[test]
fn a_file_left_by_a_kill_and_cut_off_is_never_misread() {
    is_never_misread(killed, cut_off);
}

#[test]
fn a_page_of_zeros_is_never_misread() {
    is_never_misread(closed, |bytes, random| zero_a_page(bytes, random));
    is_never_misread(killed, |bytes, random| zero_a_page(bytes, random));
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let place = Place::new();
    let text = b"[policy]\nthis is no store, but somebody's notes\n".as_slice();
    for content in [&b""[..], b"redb", text, &[0; 8_192]] {
        fs::write(place.path(), content).expect("room on the disk");
        assert!(matches!(place.error(), FileError::NotAStore { .. }));
        assert_eq!(fs::read(place.path()).expect("a file"), content);
    }
}

#[test]
fn another_programs_database_is_refused_and_left_alone() {
    let place = Place::new();
    let table = redb::TableDefinition::<u32, u32>::new("numbers");
    let database = redb::Database::create(place.path()).expect("a new file");
    let group = database.begin_write().expect("room on the disk");
    group
        .open_table(table)
        .expect("a table")
        .insert(1, 2)
        .expect("room on the disk");
    group.commit().expect("room on the disk");
    drop(database);
    let before = fs::read(place.path()).expect("a file");
    assert!(matches!(place.error(), FileError::NotAStore { .. }));
    assert!(fs::read(place.path()).expect("a file") == before);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Place::new();
    drop(place.open());
    let table = redb::TableDefinition::<&str, u32>::new("tidegate");
    let database = redb::Database::open(place.path()).expect("a store");
    let group = database.begin_write().expect("room on the disk");
    group
        .open_table(table)
        .expect("a table")
        .insert("format", 9)
        .expect("room on the disk");
    group.commit().expect("room on the disk");
    drop(database);
    let before = fs::read(place.path()).expect("a file");
    let error = place.error();
    assert!(
        matches!(
            error,
            FileError::Newer {
                found: 9,
                known: 2,
                ..
            }
        ),
        "{error}"
    );
    assert!(fs::read(place.path()).expect("a file") == before);
}

#[test]
fn a_file_in_use_is_refused() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let day = Duration::from_secs(86_400);
    let set = set(place.open(), &clock, vec![Limit::budget("b", 10, day)]);
    assert!(matches!(place.error(), FileError::InUse { .. }));
    assert!(redb::Database::open(place.path()).is_err());
    // The set holds the file, also when its store is gone.
    drop(set);
    place.open();
}

#[test]
fn a_folder_that_is_not_there_is_said_to_be_missing() {
    let place = Place::new();
    let error = open(&place.path().join("deeper"), SyncMode::Always).expect_err("no folder");
    assert!(matches!(error, FileError::Io { .. }), "{error}");
    assert!(error.to_string().contains("deeper"), "{error}");
}
