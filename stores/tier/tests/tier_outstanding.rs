//! No more is out at nodes than was said, however many there are: beyond that the store decides.

mod support;

use std::sync::Arc;

use support::{Central, Node, SECOND, Wire, bucket, plan_in, told, window};
use tidegate_store::Plan;
use tidegate_store::core::{Amount, Rule};
use tidegate_tier::{Tier, TierError};

const HOUR: u64 = 3_600 * SECOND;

/// Batches of 100, of which 250 units may be out.
fn tier() -> Tier {
    Tier::leased(100).low_water(0).outstanding(250)
}

fn fleet(rules: &[(usize, Rule)], count: usize) -> (Arc<Central>, Arc<Plan>, Vec<Node>) {
    let limits = plan_in(&tier(), 0, 1, rules);
    let central = Central::new(&limits);
    let nodes = (0..count).map(|_| Node::new(&central, &limits, tier(), 0));
    let nodes = nodes.collect();
    (central, limits, nodes)
}

fn pass(central: &Central, nodes: &[Node], micros: u64) {
    central.clock.pass(micros);
    nodes.iter().for_each(|node| node.clock.pass(micros));
}

/// What the store has left of the limit, and how much may go out still.
fn left(central: &Central, limits: &Arc<Plan>) -> [Amount; 2] {
    let left = central.left(limits, b"k");
    left.try_into().expect("a limit and its slots")
}

#[test]
fn nodes_hold_no_more_than_was_said_and_beyond_that_the_store_decides() {
    let (central, limits, nodes) = fleet(&[(0, window(10_000, HOUR))], 5);
    assert_eq!(left(&central, &limits), [10_000, 250]);
    for node in &nodes {
        assert!(node.admits(b"k", &[1]));
    }
    // 100, 100 and 50 are out; of the third's batch the rest comes back with it.
    assert_eq!(left(&central, &limits), [9_698, 0]);
    let counted = nodes.iter().map(|node| node.table.statistics().granted);
    assert_eq!(counted.collect::<Vec<_>>(), [1, 1, 1, 0, 0]);
    // Those that hold nothing ask the store for each request, and for no grant, until `idle`.
    let trips = nodes[4].trips();
    for _ in 0..10 {
        assert!(nodes[4].admits(b"k", &[1]));
    }
    assert_eq!((nodes[4].trips(), nodes[4].grants()), (trips + 10, 1));
    for _ in 1..50 {
        assert!(nodes[2].admits(b"k", &[1]));
    }
    // What the third has used up may go out again, once it asks for more.
    assert!(nodes[2].admits(b"k", &[1]));
    assert_eq!(left(&central, &limits), [9_638, 0]);
    pass(&central, &nodes, 3 * SECOND);
    let admitted = 5 + 10 + 49 + 1;
    assert_eq!(left(&central, &limits), [10_000 - admitted, 250]);
}

#[test]
fn a_killed_node_counts_as_holding_until_its_hold_is_over() {
    let (central, limits, nodes) = fleet(&[(0, window(10_000, HOUR))], 3);
    for node in &nodes {
        assert!(node.admits(b"k", &[1]));
        node.link.set(Wire::Cut);
    }
    assert_eq!(left(&central, &limits)[1], 0);
    pass(&central, &nodes, SECOND - 1);
    assert_eq!(left(&central, &limits)[1], 0);
    central.clock.pass(1);
    assert_eq!(left(&central, &limits)[1], 250);
    let next = Node::new(&central, &limits, tier(), 0);
    assert!(next.admits(b"k", &[1]));
    assert_eq!(next.table.statistics().granted, 1);
}

#[test]
fn requests_that_wait_for_a_grant_when_too_much_is_out_are_the_stores() {
    let (central, limits, nodes) = fleet(&[(0, window(301, HOUR))], 4);
    for node in &nodes[..3] {
        assert!(node.admits(b"k", &[1]));
    }
    // 250 are out, 50 come back with the third's lease, and one is there.
    assert_eq!(left(&central, &limits), [1, 0]);
    let last = &nodes[3];
    last.link.set(Wire::HoldsAnswers);
    let mut waiting: Vec<_> = (0..3).map(|_| last.begin(b"k", &[1])).collect();
    assert_eq!(last.link.held(), 1, "one grant is asked for");
    last.link.deliver();
    assert_eq!(last.link.held(), 3, "each is the store's");
    last.link.deliver();
    let mut answers = waiting.iter_mut().map(|later| {
        let answer = told(later).expect("it is told").expect("an answer");
        answer.verdict().expect("a verdict").admitted()
    });
    assert!(answers.next().expect("the first"));
    assert!(answers.all(|admitted| !admitted));
    assert_eq!((last.grants(), last.link.held()), (1, 0));
}

#[test]
fn requests_that_wait_charge_no_more_than_may_go_out() {
    let (_, _, nodes) = fleet(&[(0, window(1_000, HOUR))], 1);
    nodes[0].link.set(Wire::HoldsAnswers);
    let mut waiting: Vec<_> = (0..9).map(|_| nodes[0].begin(b"k", &[100])).collect();
    while nodes[0].link.deliver() > 0 {}
    let answers = waiting
        .iter_mut()
        .map(|later| told(later).expect("it is told").expect("an answer"));
    let admitted = answers.filter(|answer| answer.verdict().expect("a verdict").admitted());
    assert_eq!(admitted.count(), 9);
}

/// What stands where a limit stood is the slots of the other: they are used by nobody.
#[test]
fn after_a_limit_is_gone_the_next_grant_is_asked_for_in_time_still() {
    let (tier, rules) = (
        Tier::leased(100).outstanding(250),
        [(0, window(10_000, HOUR)); 2],
    );
    let central = Central::new(&plan_in(&tier, 0, 1, &rules));
    let mut node = Node::new(&central, &plan_in(&tier, 0, 1, &rules), tier.clone(), 0);
    assert!(node.admits(b"k", &[1, 1]));
    node.plan = plan_in(&tier, 1, 1, &rules[..1]);
    for _ in 0..82 {
        assert!(node.admits(b"k", &[1]));
    }
    assert_eq!(node.grants(), 3);
}

#[test]
fn what_may_be_out_is_of_each_limit_and_each_row_by_itself() {
    let tier = Tier::leased(10).low_water(0).outstanding_of("limit 1", 15);
    let rules = [(0, window(1_000, HOUR)), (1, bucket(100, 500))];
    let limits = plan_in(&tier, 0, 2, &rules);
    let central = Central::new(&limits);
    let nodes: Vec<_> = (0..3)
        .map(|_| Node::new(&central, &limits, tier.clone(), 0))
        .collect();
    for key in [b"a/x".as_slice(), b"a/y"] {
        for node in &nodes {
            assert!(node.admits(key, &[1, 1]));
        }
        // 10 and 5 are out of the row's own limit, and one was the store's; no more is said of
        // the ancestor's.
        assert_eq!(central.left(&limits, key)[1..], [500 - 21, 0]);
    }
}

#[test]
fn numbers_that_make_no_sense_are_errors_and_change_nothing() {
    assert_eq!(
        Tier::leased(1).outstanding(0).check(),
        Err(TierError::Outstanding(0))
    );
    assert_eq!(
        Tier::refusals().exact().check(),
        Err(TierError::OfLeased("exact"))
    );
    assert_eq!(
        Tier::refusals().outstanding(5).check(),
        Err(TierError::OfLeased("outstanding"))
    );
    let limits = plan_in(&Tier::leased(1), 0, 1, &[(0, window(10, HOUR))]);
    assert_eq!(
        Tier::leased(1)
            .outstanding_of("other", 5)
            .check_for(&limits),
        Err(TierError::UnknownLimit("other".to_owned()))
    );
    // 20 a second for a second of hold, or what may be out.
    let exact = |tier: Tier, burst| tier.exact().store_rule("b", bucket(20, burst));
    assert_eq!(exact(Tier::leased(1), 21), Ok(bucket(20, 1)));
    assert_eq!(
        exact(Tier::leased(1), 20),
        Err(TierError::NoBurst {
            limit: "b".to_owned(),
            burst: 20,
            out: 20
        })
    );
    assert_eq!(
        exact(Tier::leased(1).outstanding(5), 20),
        Ok(bucket(20, 15))
    );
    assert_eq!(
        exact(Tier::leased(1).outstanding(50), 30),
        Ok(bucket(20, 10))
    );
}
