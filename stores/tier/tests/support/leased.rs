//! Leased slots: a fleet of nodes that hold some, beside limits of other kinds.

use std::sync::Arc;

use tidegate_store::core::Amount;
use tidegate_store::{Plan, Reply, Settlement, StoreError};
use tidegate_tier::Tier;

use super::{Central, Node, SECOND, plan, slots, window};

pub const HOUR: u64 = 3_600 * SECOND;
pub const MINUTE: u64 = 60 * SECOND;

pub fn tier(batch: u64) -> Tier {
    Tier::leased(1)
        .batch_of("limit 0", batch)
        .low_water(0)
        .hold(std::time::Duration::from_secs(10))
}

/// So many slots, and nodes that hold some of them at a time.
pub fn fleet(capacity: u64, batch: u64, count: usize) -> (Arc<Central>, Vec<Node>) {
    fleet_of(capacity, tier(batch), count)
}

/// The same, of nodes that hold them so.
pub fn fleet_of(capacity: u64, tier: Tier, count: usize) -> (Arc<Central>, Vec<Node>) {
    let plan = plan(0, 1, &[(0, slots(capacity))]);
    let central = Central::new(&plan);
    let node = |_| Node::new(&central, &plan, tier.clone(), 0);
    let nodes = (0..count).map(node).collect();
    (central, nodes)
}

pub fn pass(central: &Central, nodes: &[Node], micros: u64) {
    central.clock.pass(micros);
    nodes.iter().for_each(|node| node.clock.pass(micros));
}

pub fn left(central: &Central, plan: &Arc<Plan>) -> u64 {
    central.left(plan, b"k")[0]
}

pub fn settled(answer: Result<Reply, StoreError>) -> Settlement {
    answer.and_then(Reply::settled).expect("it has ended")
}

/// Slots beside a window of an hour.
pub fn both(capacity: Amount) -> (Arc<Central>, Node) {
    both_of(capacity, 1_000)
}

pub fn both_of(capacity: Amount, units: Amount) -> (Arc<Central>, Node) {
    let plan = plan(0, 1, &[(0, slots(capacity)), (0, window(units, HOUR))]);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, tier(10).batch_of("limit 1", 100), 0);
    (central, node)
}

pub fn pass_one(central: &Central, node: &Node, micros: u64) {
    central.clock.pass(micros);
    node.clock.pass(micros);
}
