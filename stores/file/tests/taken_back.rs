//! What was granted in memory and told to nobody, since the disk was not done or the
//! request waited: it is given back, whatever became of the limits meanwhile.

mod support;

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use support::{Place, set};
use tidegate::{Limit, ManualClock};

#[test]
fn what_a_request_was_granted_comes_back_though_the_limits_have_changed_since() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let slots = Limit::concurrency("slots", 1);
    let set = set(place.open(), &clock, vec![slots]);
    {
        let mut waits_for_the_disk = pin!(set.try_acquire("k", ()));
        // Where the disk was quick, it is told, and gives back what it has.
        let _told = waits_for_the_disk
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()));
        let calls = Limit::calls("calls", 9, Duration::from_secs(1));
        set.put_limit(calls).expect("a sound limit");
    }
    let next = set.try_acquire("k", ()).wait().expect("an answer");
    assert!(next.granted().is_some(), "nobody holds it");
}
