//! A disk that is full, for a process that goes on: a bound on the length of its
//! files, which is lifted while it runs.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tidegate::StoreError;
use tidegate::{Admission, DecisionError, Limit, LimitSet, Request};
use tidegate_file::{FileStore, SyncMode};

use crate::support::{self, Place};

/// Where the disk ends, in the shell's blocks of 512 bytes (or 1,024).
const BLOCKS: u32 = 5_000;

#[test]
fn a_full_disk_refuses_and_recovers_and_what_was_acknowledged_is_there() {
    for sync in ["always", "interval=20ms"] {
        let place = Place::new();
        let mut child = start(place.path(), sync);
        let said = follow(&mut child);
        child.kill().expect("it is ours to kill");
        child.wait().expect("it ended");
        check(&place, &said, sync);
    }
}

/// Each ask in order, and whether it was granted.
type Said = Vec<bool>;

/// Reads until the disk was full, and again until it was not.
fn follow(child: &mut Child) -> Said {
    let mut said = Vec::new();
    let (mut refused, mut after) = (0, 0);
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        match line.expect("text").as_str() {
            "> granted" => said.push(true),
            "> unavailable" => said.push(false),
            _ => continue,
        }
        let full = !said.last().expect("it was just pushed");
        refused += usize::from(full);
        if full && refused == 100 {
            make_room(child.id());
        }
        after += usize::from(!full && refused > 0);
        if after == 100 {
            break;
        }
    }
    assert!(refused > 0, "the disk was never full");
    assert_eq!(after, 100, "the store did not recover");
    said
}

/// All that was granted is there (but for the last interval's). Of what was
/// refused, nothing is: but for what waited for the group that failed.
fn check(place: &Place, said: &[bool], sync: &str) {
    let set = set(support::open(&place.path(), SyncMode::Never).expect("a file that opens"));
    let found: Vec<bool> = (0..said.len())
        .map(|number| is_known(&set, number))
        .collect();
    let pairs = || said.iter().zip(&found);
    let lost = pairs().filter(|&(said, found)| *said && !found).count();
    let unasked = pairs().filter(|&(said, found)| !said && *found).count();
    let granted = said.iter().filter(|said| **said).count();
    println!("{sync}: {granted} granted, {lost} lost; {unasked} refused and counted");
    assert!(sync != "always" || lost == 0, "{lost} are lost");
    let last = said.len() - lost;
    let in_order = pairs().take(last).all(|(said, found)| !said || *found);
    assert!(in_order, "what is lost is not the last");
    assert!(unasked <= 1, "{unasked} were refused and counted");
}

fn is_known(set: &LimitSet, number: usize) -> bool {
    let asked = ask(set, number).expect("no error");
    let lease = asked.granted().expect("room");
    lease.is_repeated()
}

fn ask(set: &LimitSet, number: usize) -> Result<Admission, DecisionError> {
    let (key, name) = (format!("{number:0>400}"), number.to_string());
    set.try_acquire(&key, Request::from(1).idempotency(name.as_bytes()))
        .wait()
}

fn set(store: std::sync::Arc<FileStore>) -> LimitSet {
    let hour = std::time::Duration::from_secs(3_600);
    let limits = [
        Limit::budget("budget", 10, 24 * hour),
        Limit::concurrency("slots", 10).ttl(hour),
    ];
    let set = LimitSet::builder().name("full").store(store).limits(limits);
    set.build().expect("sensible limits")
}

/// Starts the child with files of bounded length; too long is an error to it,
/// and no signal.
fn start(path: PathBuf, sync: &str) -> Child {
    let bounded = format!("trap '' XFSZ; ulimit -S -f {BLOCKS}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh");
    child.args(["-c", &bounded]);
    child.arg(std::env::current_exe().expect("this test's path"));
    child.args([
        "full::runs_when_it_is_started_by_another_test",
        "--exact",
        "--nocapture",
    ]);
    child
        .env("TIDEGATE_FULL", path)
        .env("TIDEGATE_FULL_SYNC", sync);
    child.stdout(Stdio::piped()).stderr(Stdio::null());
    child.spawn().expect("a process")
}

fn make_room(id: u32) {
    let mut command = Command::new("prlimit");
    let lifted = command
        .args(["--fsize=unlimited", "--pid", &id.to_string()])
        .status();
    assert!(lifted.expect("prlimit of util-linux").success());
}

#[test]
fn runs_when_it_is_started_by_another_test() {
    let Some(path) = std::env::var_os("TIDEGATE_FULL") else {
        return;
    };
    let sync = std::env::var("TIDEGATE_FULL_SYNC").expect("it is given");
    let store = support::open(path.as_ref(), sync.parse().expect("a way to sync"));
    let set = set(store.expect("a new file"));
    for number in 0.. {
        let said = match ask(&set, number) {
            Ok(admission) => {
                admission.granted().expect("room").detach();
                "granted"
            }
            Err(DecisionError::Store(StoreError::Unavailable(_))) => {
                // However fast it is refused, it asks no more often than this.
                std::thread::sleep(std::time::Duration::from_millis(1));
                "unavailable"
            }
            Err(error) => panic!("{error}"),
        };
        let line = format!("\n> {said}\n");
        if std::io::stdout().write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}
