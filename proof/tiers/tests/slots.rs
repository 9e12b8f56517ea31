//! Slots that nodes give out are conserved in seeded histories. `TIDEGATE_TIER_HISTORIES=100000`
//! looks harder.

use tidegate_tier_fleets::slots;

/// So many histories fit into some seconds of a build for tests.
const HISTORIES: u64 = 100;

#[test]
fn in_no_history_are_more_slots_held_for_sure_than_there_are_and_all_are_free_at_last() {
    let count = std::env::var("TIDEGATE_TIER_HISTORIES").ok();
    let count = count.and_then(|count| count.parse().ok());
    let count = count.unwrap_or(HISTORIES);
    let (mut reached, mut by_nodes, mut by_store, mut kills) = (0, 0, 0, 0);
    for seed in 0..count {
        let told = slots::run(seed);
        assert!(told.holds(), "seed {seed}: {told:?}");
        reached += u64::from(told.most == told.capacity);
        by_nodes += told.by_nodes;
        by_store += told.by_store;
        kills += told.kills;
    }
    println!(
        "{count} histories, {reached} in which all slots were held; {by_nodes} leases given by \
         nodes and {by_store} by the store; {kills} nodes killed"
    );
    assert!(reached * 2 > count && kills > 0 && by_nodes > by_store);
}
