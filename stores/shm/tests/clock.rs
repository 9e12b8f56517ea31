//! The machine's clock decides, whatever the caller's says.

mod support;

use support::Dir;
use tidegate_shm::{Clock, ShmStore};

fn start() -> Option<Dir> {
    Some(Dir::default())
}

fn open(dir: &Dir, clock: Clock) -> ShmStore {
    dir.open(clock)
}

tidegate_conformance::clock_suite!(start, open, Clock);
