//! Which limit refused is counted, by its name alone.

use std::time::Duration;

use tidegate::{Limit, LimitPool, LimitSet, ManualClock};

const HOUR: Duration = Duration::from_secs(3_600);

fn counted(refusals: &[(String, u64)]) -> Vec<(&str, u64)> {
    let refusals = refusals.iter();
    refusals.map(|(name, count)| (&**name, *count)).collect()
}

#[test]
fn each_refusal_counts_for_the_limit_that_binds() {
    let limits = [
        Limit::budget("a", 5, HOUR),
        Limit::budget("b", 5, HOUR),
        Limit::concurrency("c", 1),
    ];
    let clock = ManualClock::default().clock();
    let set = LimitSet::builder().limits(limits).clock(clock);
    let set = set.build().expect("sound limits");
    assert_eq!(set.refusals(), []);
    let held = set.try_acquire("k", &[("a", 5), ("b", 0)]).wait();
    let held = held.expect("it fits").granted().expect("it fits");
    let check = |a, b| {
        let asked = [("a", a), ("b", b), ("c", 0)];
        set.check("k", &asked).wait().expect("an answer").admitted()
    };
    // A key's refusals are another's, too: what is counted has no keys.
    for key in ["k", "other"] {
        let asked = &[("a", 3), ("b", 0), ("c", 0)];
        let many = set.check_many([(key, asked), (key, asked)]);
        assert_eq!(many.wait().expect("sound").len(), 2);
    }
    assert!(check(0, 5));
    assert!(!check(0, 1));
    let slot = set.try_acquire("k", &[("a", 0), ("b", 0)]).wait();
    assert!(slot.expect("an answer").granted().is_none());
    assert_eq!(counted(&set.refusals()), [("a", 3), ("b", 1), ("c", 1)]);
    // What was given back refuses nobody, and what has refused is not forgotten.
    drop(held);
    assert_eq!(set.refusals().len(), 3);
}

#[test]
fn a_pool_counts_the_limit_and_no_member_that_cools_down() {
    let clock = ManualClock::default().clock();
    let member = |name: &str| {
        let set = LimitSet::builder()
            .name(name)
            .limit(Limit::budget("b", 1, HOUR));
        set.clock(clock.clone()).build().expect("a sound limit")
    };
    let pool = LimitPool::builder().member("eu", member("eu"));
    let pool = pool.member("us", member("us")).build().expect("a pool");
    for _ in 0..3 {
        let _ = pool.check("k", 1).wait().expect("an answer");
    }
    assert_eq!(counted(&pool.refusals()), [("b", 1)]);
    for name in ["eu", "us"] {
        pool.cool_down(name, 2 * HOUR).expect("a member");
    }
    assert!(!pool.check("k", 1).wait().expect("an answer").admitted());
    assert_eq!(counted(&pool.refusals()), [("b", 1)]);
}

#[test]
fn what_is_no_limit_any_more_leaves_its_place() {
    let clock = ManualClock::default().clock();
    let named = |at: u32| Limit::budget(format!("limit{at}"), 1, HOUR);
    let set = LimitSet::builder().limit(named(0)).clock(clock);
    let set = set.build().expect("a sound limit");
    for at in 0..1_000 {
        set.replace_limits(&[named(at)]).expect("sound limits");
        let cost = |set: &LimitSet| set.check("k", 1).wait().expect("an answer").admitted();
        assert_eq!((cost(&set), cost(&set)), (true, false));
    }
    let refusals = set.refusals();
    assert!(refusals.len() <= 256, "{}", refusals.len());
    assert!(refusals.contains(&("limit999".to_owned(), 1)));
}

/// As of when it was decided, whoever reads it when.
#[test]
fn a_decision_reads_as_a_sentence() {
    let time = ManualClock::default();
    let limits = [Limit::rate("tpm", 600, Duration::from_secs(60))];
    let set = LimitSet::builder().limits(limits).clock(time.clock());
    let set = set.build().expect("a sound limit");
    let said = |key, amount| set.check(key, amount).wait().expect("sound").to_string();
    let never = "never: tpm grants at most 600 at once";
    assert_eq!(said("k", 601), never);
    assert_eq!(said("k", 600), "admitted");
    assert_eq!(said("k", 12), "refused by tpm; retry after 1.2 s");
    assert_eq!(said("k", 20), "refused by tpm; retry after 2 s");
    assert_eq!(said("k", 1), "refused by tpm; retry after 100 ms");
    let refused = set.check("k", 12).wait().expect("sound");
    time.advance(Duration::from_secs(1));
    assert_eq!(refused.to_string(), "refused by tpm; retry after 1.2 s");
    assert_eq!(said("k", 12), "refused by tpm; retry after 200 ms");
    let handle = set.handle("k").expect("a key");
    let refused = handle.check(12).wait().expect("sound");
    assert_eq!(refused.to_string(), "refused by tpm; retry after 200 ms");
}

/// By the names of the levels, and not by where they stand.
#[test]
fn a_refusal_names_the_level_that_its_limit_is_about() {
    let set = LimitSet::builder().levels(["org", "user"]).limits([
        Limit::budget("all", 3, HOUR).at_level("org"),
        Limit::budget("each", 2, HOUR),
    ]);
    let set = set.build().expect("sound limits");
    let check = |key| set.check(key, 1).wait().expect("sound");
    assert_eq!(check("acme/alice").binding_level(), None);
    assert!(check("acme/alice").admitted());
    assert_eq!(check("acme/alice").binding_level(), Some("user"));
    assert!(check("acme/bob").admitted());
    let refused = check("acme/bob");
    assert_eq!(refused.binding(), Some("all"));
    assert_eq!(refused.binding_level(), Some("org"));
    let flat = LimitSet::new([Limit::budget("all", 1, HOUR)]).expect("a sound limit");
    let refused = flat.check("k", 2).wait().expect("sound");
    assert_eq!((refused.is_never(), refused.binding_level()), (true, None));
}
