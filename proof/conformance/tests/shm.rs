//! The store in shared memory against the suite, by the caller's clock, and two processes
//! that take turns on one table.

mod support;

use std::process::{Command, Stdio};

use support::open;
use tidegate_conformance::{OtherProcess, Players, Subject, differential, differential_by, suite};

/// Opened again, it maps its segment anew, as another process would.
fn shm() -> Subject {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let path = dir.path().display().to_string();
    Subject::opened_once(move || {
        let _stays = &dir;
        open::shm(&path)
    })
}

suite!(shm());

/// It is the script in which a key's limits are lowered, nobody asks for the key, and a listing comes
/// when those of before would have forgotten it: it was left out.
#[test]
fn a_key_is_listed_by_the_limits_of_now_though_nobody_has_asked_for_it_since() {
    assert!(differential(&shm(), 25_769_803_792, 1) > 0);
}

/// Where the segment of two processes is; it is there for the second of them.
const PLACE: &str = "TIDEGATE_TWO_PROCESSES_DIR";

/// So many commands do both ask together. `cargo xtask differential` asks more.
const COMMANDS: usize = 60_000;

fn take_turns(with: OtherProcess, dir: &str) -> usize {
    let (store, again) = (open::shm(dir), open::shm(dir));
    let subject = Subject::new(move || store.clone()).reopened(move || again.clone());
    differential_by(&mut Players::With(with), &subject, (1, COMMANDS))
}

/// Whatever one of them has loaded, decided or forgotten, the other answers by what is in
/// the segment.
#[test]
fn two_processes_that_take_turns_on_one_table_answer_as_the_reference() {
    let dir = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let place = dir.path().display().to_string();
    let mut second = Command::new(std::env::current_exe().expect("this test's path"));
    second.args(["the_second_of_two_processes", "--exact", "--nocapture"]);
    second.env(PLACE, &place).stdout(Stdio::null());
    let second = OtherProcess::start(&mut second).expect("a process");
    assert!(take_turns(second, &place) >= COMMANDS);
}

/// What the test above starts; by itself it does nothing.
#[test]
fn the_second_of_two_processes() {
    if let Ok(dir) = std::env::var(PLACE) {
        take_turns(OtherProcess::first().expect("a stream"), &dir);
    }
}
