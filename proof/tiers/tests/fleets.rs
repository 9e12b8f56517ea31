//! A fleet under more demand than there is uses what there is, and no more.

use tidegate_tier_fleets::ledger::SECOND;
use tidegate_tier_fleets::limits::Shape;
use tidegate_tier_fleets::scale::Load;
use tidegate_tier_fleets::stranded;
use tidegate_tier_fleets::timeline::{self, AWAY_AT, BACK_AT, KILL_AT, STEP_AT};

#[test]
fn fleets_use_at_least_95_in_100_of_a_window_also_under_skewed_demand() {
    for nodes in [2, 10, 40] {
        for load in [Load::of(nodes), Load::of(nodes).skewed()] {
            let used = load.run();
            assert!(used.nearest.holds(), "{load:?}: {used:?}");
            assert!(used.utilisation >= 95.0, "{load:?}: {used:?}");
            assert!(used.decisions > 20.0, "{load:?}: {used:?}");
        }
    }
}

#[test]
fn fleets_use_at_least_95_in_100_of_limits_of_other_kinds() {
    for shape in [
        Shape::FirstUse(SECOND),
        Shape::Bucket(0),
        Shape::Sliding(SECOND),
        Shape::Log(SECOND),
    ] {
        let used = Load::of(10).counting(shape).run();
        assert!(used.nearest.holds(), "{shape:?}: {used:?}");
        assert!(used.utilisation >= 95.0, "{shape:?}: {used:?}");
    }
}

#[test]
fn a_fleet_uses_all_again_after_a_step_of_demand_dead_nodes_and_an_outage() {
    let course = timeline::run(12);
    assert!(course.nearest.holds(), "{:?}", course.nearest);
    for second in [0, STEP_AT, KILL_AT, BACK_AT] {
        let settles = course.settles(second);
        assert!(
            settles.is_some_and(|after| after <= 1_000),
            "{second}: {settles:?}"
        );
    }
    // Grants are spent to their end, and no further.
    assert!(course.lasts(AWAY_AT) <= 1_050, "{}", course.lasts(AWAY_AT));
    let away = (AWAY_AT * SECOND / timeline::BIN) as usize;
    assert!(course.bins[away..].iter().any(|bin| bin.failed > 0));
}

#[test]
fn nodes_that_die_strand_at_most_what_they_held_and_no_longer_than_their_window() {
    let of = stranded::run(20);
    assert!(of.stranded <= of.held, "{of:?}");
    assert_eq!(of.next, of.capacity, "{of:?}");
}
