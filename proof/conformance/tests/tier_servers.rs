//! Two nodes that count near the caller, on each of the servers that this machine has: what
//! both admit together, and what one gives back when it stops.

mod servers;

use std::time::Duration;

use servers::{Open, on_each};
use tidegate::{Limit, LimitSet, Tier};
use tidegate_conformance::Beyond;

/// No window ends while a test runs.
const LONG: Duration = Duration::from_secs(300 * 86_400);

on_each! {
    two_nodes_admit_the_capacity_of_a_window_together_and_all_of_it
    what_a_node_holds_is_there_for_others_once_it_has_stopped
    no_more_is_out_than_was_said_and_the_others_are_the_stores
}

/// A node: a set on a connection of its own.
fn node(server: &Beyond, open: Open, name: &str, tier: Option<Tier>) -> LimitSet {
    let mut builder = LimitSet::builder()
        .name(name)
        .store(open(&server.url))
        .limit(Limit::calls("calls", 1_000, LONG).algorithm(tidegate::Algorithm::FixedWindow));
    if let Some(tier) = tier {
        builder = builder.tier(tier);
    }
    builder.build().expect("a node")
}

fn admits(set: &LimitSet) -> bool {
    set.admit("k", 1).wait().expect("an answer").admitted()
}

fn remaining(set: &LimitSet) -> u64 {
    let told = set.peek("k", 1).wait().expect("an answer");
    told.remaining("calls").expect("a limit")
}

fn two_nodes_admit_the_capacity_of_a_window_together_and_all_of_it(server: &Beyond, open: Open) {
    // What is held is good for as long as the test may take.
    let tier = Tier::leased(100).hold(Duration::from_secs(60)).low_water(0);
    let tier = tier.idle(Duration::from_secs(60));
    let nodes = [0, 1].map(|_| node(server, open, "together", Some(tier.clone())));
    let mut admitted = 0;
    std::thread::scope(|scope| {
        let threads = nodes
            .each_ref()
            .map(|set| scope.spawn(|| (0..700).filter(|_| admits(set)).count()));
        admitted = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum();
    });
    assert!(admitted <= 1_000, "{admitted}");
    let held: u64 = 1_000 - admitted as u64;
    let grants = |set: &LimitSet| set.tier_statistics().expect("a tier").requested;
    let asked: u64 = nodes.iter().map(grants).sum();
    assert!(asked <= 10 + 2 * 2, "{asked} grants for {admitted}");
    // Neither has more than a batch left, and both together admit all of it.
    let rest = || nodes.iter().filter(|&set| admits(set)).count();
    let mut more = 0;
    for _ in 0..held {
        more += rest() as u64;
    }
    assert_eq!(more, held);
    assert_eq!(remaining(&nodes[0]), 0);
}

fn what_a_node_holds_is_there_for_others_once_it_has_stopped(server: &Beyond, open: Open) {
    let tier = Tier::leased(400).hold(Duration::from_secs(60));
    let stops = node(
        server,
        open,
        "stops",
        Some(tier.idle(Duration::from_secs(60))),
    );
    assert!(stops.admit("k", 1).wait().expect("an answer").admitted());
    let strict = node(server, open, "stops", None);
    assert_eq!(remaining(&strict), 600);
    drop(stops);
    // Its last word is on its way when it has gone.
    while remaining(&strict) == 600 {
        std::thread::park_timeout(Duration::from_millis(2));
    }
    assert_eq!(remaining(&strict), 999);
    let many = strict.check("k", ()).wait().expect("an answer");
    assert!(many.admitted());
}

fn no_more_is_out_than_was_said_and_the_others_are_the_stores(server: &Beyond, open: Open) {
    let tier = Tier::leased(100).outstanding(250).low_water(0);
    let tier = tier.hold(Duration::from_secs(60));
    let tier = tier.idle(Duration::from_secs(60));
    let node = || node(server, open, "few", Some(tier.clone()));
    let nodes = [(); 5].map(|()| node());
    assert!(nodes.iter().all(admits));
    let granted = |set: &LimitSet| set.tier_statistics().expect("a tier").granted;
    assert_eq!(nodes.each_ref().map(granted), [1, 1, 1, 0, 0]);
    // Three batches are charged, of which 50 nobody may spend, and what the store decided.
    assert_eq!(remaining(&nodes[4]), 1_000 - 302);
    assert!(admits(&nodes[3]) && admits(&nodes[2]));
    assert_eq!(remaining(&nodes[4]), 1_000 - 303);
    let names = nodes[0].peek("k", 1).wait().expect("an answer");
    assert_eq!(names.standings().count(), 1, "slots are nobody's limit");
    // What one gives back may go out to another.
    nodes[0].return_grants().wait();
    let next = node();
    assert!(admits(&next));
    assert_eq!(granted(&next), 1);
    assert_eq!(next.tier_statistics().expect("a tier").admitted, 1);
}
