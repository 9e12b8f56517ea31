//! What a set in a tier promises beside its limits, and shows of it.
#![cfg(feature = "memory")]

use std::time::Duration;

use tidegate::{
    Admission, Algorithm, BuildError, LeaseId, Limit, LimitSet, ManualClock, Tier, TierError,
};

/// No window ends, and no bucket drains, while a test runs.
const LONG: Duration = Duration::from_secs(300 * 86_400);

fn names(set: &LimitSet) -> Vec<String> {
    let limits = set.limits();
    limits.iter().map(|limit| limit.name().to_owned()).collect()
}

fn window(name: &str) -> Limit {
    Limit::calls(name, 100, LONG).algorithm(Algorithm::FixedWindow)
}

#[test]
fn the_slots_that_bound_what_is_out_are_nobodys_limit() {
    let tier = Tier::leased(10).outstanding(15).low_water(0);
    let set = LimitSet::builder().limit(window("calls")).tier(tier);
    let set = set.build().expect("a set");
    let shown = || {
        let peek = set.peek("k", ()).wait().expect("an answer");
        let shown = peek.standings().map(|(name, standing)| {
            assert!(standing.limit == 100, "{standing:?}");
            name.to_owned()
        });
        shown.collect::<Vec<_>>()
    };
    assert!(set.check("k", ()).wait().expect("an answer").admitted());
    assert_eq!(
        (names(&set), shown()),
        (vec!["calls".to_owned()], names(&set))
    );
    // A lease of a caller takes none.
    let lease = set.try_acquire("k", ()).wait().expect("an answer");
    let mut lease = lease.granted().expect("there is room");
    lease.settle(()).wait().expect("it is held");
    // Limits that come have them, too, and a key's own.
    set.put_limit(window("more")).expect("a sound limit");
    set.set_override("k", &[window("calls")])
        .wait()
        .expect("an override");
    assert!(set.check("k", ()).wait().expect("an answer").admitted());
    assert_eq!((names(&set).len(), shown()), (2, names(&set)));
    set.return_grants().wait();
    let peek = set.peek("k", ()).wait().expect("an answer");
    assert_eq!(peek.remaining("calls"), Some(97));
}

#[test]
fn an_exact_bucket_is_less_by_what_may_be_out_also_where_a_key_has_its_own() {
    let bucket = |burst| Limit::rate("units", 10, LONG).burst(burst);
    let tier = || Tier::leased(2).outstanding(5).exact();
    let none = LimitSet::builder()
        .limit(bucket(1))
        .tier(tier().hold(Duration::from_secs(60)));
    assert_eq!(
        none.build().err(),
        Some(BuildError::Tier(TierError::NoBurst {
            limit: "units".to_owned(),
            burst: 1,
            out: 1
        }))
    );
    let set = LimitSet::builder().limit(Limit::rate("units", 10, Duration::from_secs(1)).burst(20));
    let set = set.tier(tier()).build().expect("a set");
    let most = |key: &str| {
        let peek = set.peek(key, 1).wait().expect("an answer");
        peek.standing("units").expect("a limit").limit
    };
    assert_eq!(most("k"), 15);
    let own = |burst| Limit::rate("units", 10, Duration::from_secs(1)).burst(burst);
    set.set_override("k", &[own(8)])
        .wait()
        .expect("an override");
    assert_eq!(most("k"), 3);
    let nothing = set.set_override("k", &[own(5)]).wait();
    assert!(nothing.is_err(), "{nothing:?}");
    assert_eq!(most("k"), 3);
}

fn lease(last: char) -> LeaseId {
    let id = format!("00112233445566778899aabbccddeef{last}");
    id.parse().expect("an id")
}

/// How much a client is granted that would like `units` of them.
fn granted(set: &LimitSet, id: LeaseId, units: u64, hold: Duration) -> Option<(u64, Duration)> {
    let granted = set.grant("k", id, &[("units", units)], (), hold).wait();
    match granted.expect("an answer") {
        Admission::Granted(grant) => {
            let amounts = grant.amounts().collect::<Vec<_>>();
            assert_eq!((amounts.len(), amounts[0].0), (1, "units"));
            Some((amounts[0].1, grant.good_for()))
        }
        Admission::Refused(refusal) => {
            assert_eq!(refusal.binding(), None, "as much is out as may be");
            None
        }
    }
}

#[test]
fn what_clients_are_granted_is_out_and_held_no_longer_than_the_tiers_own() {
    let (time, second) = (ManualClock::default(), Duration::from_secs(1));
    let tier = Tier::leased(2).outstanding(5).exact();
    let set = LimitSet::builder()
        .limit(Limit::rate("units", 10, second).burst(20))
        .tier(tier.hold(second))
        .clock(time.clock())
        .build()
        .expect("a set");
    let (one, other) = (lease('0'), lease('1'));
    assert_eq!(granted(&set, one, 15, second * 60), Some((5, second)));
    assert_eq!(granted(&set, other, 15, second), None);
    // The store has what is not out.
    let check = set.check("k", &[("units", 10)]).wait();
    assert!(check.expect("an answer").admitted());
    let ended = set.return_grant("k", one, &[("units", 2)]).wait();
    ended.expect("it is there");
    let peek = set.peek("k", 1).wait().expect("an answer");
    assert_eq!(peek.remaining("units"), Some(3));
    assert_eq!(granted(&set, other, 3, second), Some((3, second)));
}
