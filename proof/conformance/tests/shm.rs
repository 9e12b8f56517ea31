//! The store in shared memory against the suite, by the caller's clock.

mod support;

use support::open;
use tidegate_conformance::{Subject, suite};

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
