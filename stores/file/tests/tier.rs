//! A tier over a store that answers later, on a clock that stands still.

mod support;

use std::time::Duration;

use support::Place;
use tidegate::{Limit, LimitSet, ManualClock, Tier};

/// Nobody rang: the first check never ended.
#[test]
fn a_tier_goes_on_though_its_clock_stands_still() {
    let (place, clock) = (Place::new(), ManualClock::default());
    let limit = Limit::budget("calls", 30, Duration::from_secs(3_600));
    let set = LimitSet::builder().limit(limit).clock(clock.clock());
    let set = set.store(place.open()).tier(Tier::leased(20)).name("set");
    let set = set.build().expect("sound");
    let admits = || set.check("k", 1).wait().expect("no error").admitted();
    assert_eq!((0..40).filter(|_| admits()).count(), 30);
    set.return_grants().wait();
    assert!(set.tier_statistics().expect("it has one").granted >= 2);
}
