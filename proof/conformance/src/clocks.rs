//! A store beyond a network decides by its server's clock, whatever its callers' say.
//!
//! Each function is one sentence about it; [`clock_suite`](crate::clock_suite) makes a
//! test of each.

use tidegate_core::{Rule, Span, Timestamp, Verdict};
use tidegate_store::{Ending, Plan, Store, StoreError, Verb};

use std::sync::Arc;

use crate::fixture::{Fixture, SECOND, hourly, machine_time, plan, rate, slots};

const HOUR: Span = Span::from_secs(3_600);

/// One server, used in two ways.
pub struct Clocks<'s> {
    /// The server's clock decides.
    pub server: &'s dyn Store,
    /// The caller's does: so the past and the future are written.
    pub caller: &'s dyn Store,
}

/// Each limit of a set of one, all of which is taken, is refused until about an hour
/// from now, by its caller's own clock.
pub fn a_caller_whose_clock_is_off_waits_as_long_as_one_whose_clock_is_right(clocks: &Clocks<'_>) {
    for (name, rule) in [("window", hourly(5)), ("bucket", rate(1, 3_600))] {
        let all = [rule.capacity()];
        let right = Fixture::at(clocks.server, name, single(rule), machine_time());
        assert!(right.admits(b"k", &all));
        for now in [machine_time(), machine_time() - HOUR, machine_time() + HOUR] {
            let off = Fixture::at(clocks.server, name, single(rule), now);
            let wait = refused_for(&off, b"k", &all);
            assert!(wait <= HOUR, "{wait:?}");
            assert!(wait >= Span::from_secs(3_400), "{wait:?}");
        }
    }
}

/// Also of one whose holder's clock is an hour behind.
pub fn a_lease_lasts_as_long_whatever_its_holders_clock_says(clocks: &Clocks<'_>) {
    let behind = machine_time() - HOUR;
    let fixture = Fixture::at(clocks.server, "t", single(slots(1)), behind);
    let granted = fixture
        .lease(b"k", &[1], 600 * SECOND)
        .lease
        .expect("it fits");
    assert_eq!(granted.expires_at, behind + Span::from_secs(600));
    let is_held = !fixture.admits(b"k", &[1]);
    assert!(is_held, "though it expired by the hour ago");
    let until = behind + Span::from_secs(900);
    fixture
        .execute(b"k", Verb::Renew { id: 1, until })
        .expect("held");
    let settlement = fixture.end(b"k", 1, Ending::Release).expect("held");
    assert!(!settlement.expired);
    assert!(fixture.admits(b"k", &[0]));
}

/// A row written by a server whose clock was ahead, as before a failover. All is used:
/// a hundred seconds from then, or from now, it is there again.
pub fn time_does_not_go_back_a_little_and_limits_follow_if_it_goes_back_far(clocks: &Clocks<'_>) {
    for by in [Span::from_secs(8), HOUR] {
        let writer = Fixture::at(
            clocks.caller,
            "t",
            single(rate(1, 100)),
            machine_time() + by,
        );
        let key = by.as_micros().to_string();
        assert!(writer.admits(key.as_bytes(), &[100]));
        let fixture = Fixture::at(clocks.server, "t", single(rate(1, 100)), machine_time());
        let wait = refused_for(&fixture, key.as_bytes(), &[100]);
        assert!(wait <= Span::from_secs(100), "{wait:?}");
        assert!(wait >= Span::from_secs(50), "{wait:?}");
    }
}

/// And nothing is done about it.
pub fn a_lease_that_was_never_given_is_unknown(clocks: &Clocks<'_>) {
    let fixture = Fixture::at(clocks.server, "t", single(slots(1)), machine_time());
    let unknown = fixture.end(b"k", 7, Ending::Release);
    assert_eq!(unknown, Err(StoreError::UnknownLease));
    assert!(fixture.now() > Timestamp::from_micros(0) && fixture.admits(b"k", &[1]));
}

fn single(rule: Rule) -> Arc<Plan> {
    plan(0, 1, &[(0, rule)])
}

/// How long it has to wait by its own clock.
fn refused_for(fixture: &Fixture, key: &[u8], amounts: &[u64]) -> Span {
    match fixture.take(key, amounts) {
        Ok(Verdict::NotUntil(at)) => at.since(fixture.now()),
        answer => panic!("all is used, and it says {answer:?}"),
    }
}

/// A test of each of [these sentences](crate::clocks): of the server that `$start`
/// starts, if there is one, on which `$open` opens a store by a `$clock`.
#[macro_export]
macro_rules! clock_suite {
    ($start:path, $open:path, $clock:ident) => {
        $crate::clock_suite! {
            $start, $open, $clock;
            a_caller_whose_clock_is_off_waits_as_long_as_one_whose_clock_is_right
            a_lease_lasts_as_long_whatever_its_holders_clock_says
            time_does_not_go_back_a_little_and_limits_follow_if_it_goes_back_far
            a_lease_that_was_never_given_is_unknown
        }
    };
    ($start:path, $open:path, $clock:ident; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let Some(server) = $start() else { return };
                let clocks = $crate::clocks::Clocks {
                    server: &$open(&server, $clock::Server),
                    caller: &$open(&server, $clock::Caller),
                };
                $crate::clocks::$name(&clocks);
            }
        )*
    };
}
