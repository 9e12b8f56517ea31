//! Permits of a file: whoever opens it next knows who holds, and fences go on
//! growing, whatever the clock says by then.

mod support;

use std::time::Duration;

use support::Place;
use tidegate::ManualClock;
use tidegate::Timestamp;
use tidegate::lock::{LeasedPermit, LeasedSemaphore};

const TTL: Duration = Duration::from_secs(60);

fn gpus(place: &Place, clock: &ManualClock) -> LeasedSemaphore {
    let builder = LeasedSemaphore::builder("gpu", 1)
        .ttl(TTL)
        .clock(clock.clock());
    builder.store(place.open()).build().expect("sound")
}

fn take(gpus: &LeasedSemaphore) -> LeasedPermit {
    let permit = gpus.try_acquire().wait().expect("an answer");
    permit.expect("it is free")
}

fn is_full(gpus: &LeasedSemaphore) -> bool {
    gpus.try_acquire().wait().expect("an answer").is_none()
}

#[test]
fn a_fence_grows_when_a_file_is_opened_again_and_what_was_held_is_held() {
    let (place, clock) = (Place::new(), clock_at(1_800_000_000));
    let mut last = 0;
    for _ in 0..3 {
        let open = gpus(&place, &clock);
        let permit = take(&open);
        assert!(permit.fence() > last);
        last = permit.fence();
        let id = permit.detach();
        drop(open);
        let open = gpus(&place, &clock);
        assert!(is_full(&open), "what was held is held");
        open.release(id).wait().expect("held");
        let permit = take(&open);
        assert!(permit.fence() > last);
        last = permit.fence();
        permit.release().wait().expect("held to the end");
    }
}

#[test]
fn a_fence_grows_though_the_clock_was_set_back_before_the_file_was_opened() {
    let place = Place::new();
    let fence = take(&gpus(&place, &clock_at(1_800_000_000))).fence();
    let an_hour_behind = clock_at(1_800_000_000 - 3_600);
    assert!(take(&gpus(&place, &an_hour_behind)).fence() > fence);
}

#[test]
fn the_slot_of_a_holder_that_is_gone_is_back_when_its_ttl_has_run() {
    let (place, clock) = (Place::new(), clock_at(1_800_000_000));
    take(&gpus(&place, &clock)).detach();
    clock.advance(TTL - Duration::from_micros(1));
    let open = gpus(&place, &clock);
    assert!(is_full(&open));
    clock.advance(Duration::from_micros(1));
    take(&open).release().wait().expect("held to the end");
}

fn clock_at(secs: i64) -> ManualClock {
    ManualClock::starting_at(Timestamp::from_micros(secs * 1_000_000))
}
