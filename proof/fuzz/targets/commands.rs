//! Any sequence of verbs upon a limit set: no panic, errors and refusals change
//! nothing, and no slot is lost or made.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::{LimitSet, ManualClock};
use tidegate_fuzz::{Feed, Play, limits};

fuzz_target!(|bytes: &[u8]| {
    let mut feed = Feed::new(bytes);
    let levels = feed.choose(2) == 1;
    let time = ManualClock::default();
    let mut builder = LimitSet::builder()
        .limits(limits(&mut feed))
        .max_keys(8)
        .max_keys_per_root(8)
        .max_waiting(3)
        .clock(time.clock());
    if levels {
        builder = builder.levels(["org", "user"]).partial_keys();
    }
    let Ok(set) = builder.build() else { return };
    let mut play = Play::new(&set, &time, levels);
    while !feed.is_empty() {
        play.step(&mut feed);
    }
});
