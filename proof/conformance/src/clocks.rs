//! A store beyond a network decides by its server's clock, whatever its callers' say.
//!
//! Each function is one sentence about it; [`clock_suite`](crate::clock_suite) makes a
//! test of each.

use tidegate_core::{Bucket, Rule, Span, Timestamp, Verdict};
use tidegate_store::{Decision, Detail, Ending, Plan, Reply, Store, StoreError, Terms, Verb};

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

/// Whatever the caller's says, and however long it takes. A unit drains each microsecond.
pub fn a_batch_of_one_root_is_decided_at_one_instant_of_the_servers_clock(clocks: &Clocks<'_>) {
    let fast = Bucket::new(1_000, Span::MILLISECOND, 1_000).expect("a sound rate");
    let plan = plan(0, 2, &[(0, Rule::Bucket(fast))]);
    let fixture = Fixture::at(clocks.server, "t", plan, machine_time() - HOUR);
    let keys: Vec<_> = (0..600).map(|n| format!("a/{}", n % 20)).collect();
    let take = Verb::Take {
        amounts: &[10],
        lease: None,
        detail: Detail::Always,
    };
    let takes = keys.iter().map(|key| (key.as_bytes(), take));
    let verdicts: Vec<_> = decisions(&fixture, &takes.collect::<Vec<_>>())
        .into_iter()
        .map(|decision| decision.verdict)
        .collect();
    assert!(verdicts[..100].iter().all(|verdict| verdict.admitted()));
    assert!(matches!(verdicts[100], Verdict::NotUntil(_)));
    assert_eq!(verdicts[100..], vec![verdicts[100]; 500]);
}

/// Where a batch has leases in the same step.
pub fn leases_of_a_batch_are_granted_at_one_instant(clocks: &Clocks<'_>) {
    let fixture = Fixture::at(
        clocks.server,
        "t",
        plan(0, 2, &[(1, slots(9))]),
        machine_time(),
    );
    let keys: Vec<_> = (0..30).map(|n| format!("a/{}", n % 20)).collect();
    let take = |id| Verb::Take {
        amounts: &[1],
        lease: Some(Terms {
            id,
            expires_at: fixture.now() + Span::SECOND,
            idempotency: None,
            least: None,
        }),
        detail: Detail::Always,
    };
    let leases = keys.iter().zip(1_u128..);
    let leases = leases.map(|(key, id)| (key.as_bytes(), take(id)));
    let leases = decisions(&fixture, &leases.collect::<Vec<_>>());
    let granted = leases
        .iter()
        .map(|decision| decision.lease.expect("it fits"));
    let granted: Vec<_> = granted
        .map(|lease| (lease.granted_at, lease.expires_at))
        .collect();
    assert_eq!(granted, vec![granted[0]; 30]);
}

fn decisions(fixture: &Fixture, items: &[(&[u8], Verb<'_>)]) -> Vec<Decision> {
    let answers = fixture.batch(items).into_iter();
    let decision = |answer| match answer {
        Ok(Reply::Decision(decision)) => decision,
        answer => panic!("{answer:?} is no decision"),
    };
    answers.map(decision).collect()
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
            a_batch_of_one_root_is_decided_at_one_instant_of_the_servers_clock
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
