//! Which threads a file has. One test alone: all threads of the process are counted.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::time::Duration;

use support::{Place, set};
use tidegate::{Limit, ManualClock};

/// The names that the system has of ours, of 15 letters.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("the system says");
    let names = tasks.flatten().filter_map(|task| {
        // One that ends meanwhile has none.
        fs::read_to_string(task.path().join("comm")).ok()
    });
    let ours = names.filter(|name| name.starts_with("tidegate-"));
    let mut ours: Vec<_> = ours.map(|name| name.trim().to_owned()).collect();
    ours.sort();
    ours
}

#[test]
fn the_thread_that_writes_changes_of_limits_starts_with_the_first_of_them() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let limit = Limit::rate("tokens", 10, Duration::from_secs(3_600));
    let set = set(place.open(), &clock, vec![limit.clone()]);
    assert!(set.debit("acme", &[("tokens", 1)]).wait().is_ok());
    assert!(set.overrides(None, 9).is_empty());
    assert_eq!(threads(), ["tidegate-journa"]);
    for key in ["acme", "other"] {
        let changed = set.set_override(key, std::slice::from_ref(&limit));
        changed.wait().expect("room");
        assert_eq!(threads(), ["tidegate-defini", "tidegate-journa"]);
    }
}
