//! A store that is cut off before, within and behind a grant: what was granted is debited once and
//! given back, all who wait are told, and nobody runs at it when it is back.

mod support;

use std::sync::Arc;

use support::{Central, Node, SECOND, Wire, plan_in, told, window};
use tidegate_store::core::Amount;
use tidegate_store::{Plan, StoreError, StoreFuture};
use tidegate_tier::Tier;

const CAPACITY: Amount = 10_000;

fn tier() -> Tier {
    Tier::leased(100).low_water(0).outstanding(500)
}

fn node() -> (Arc<Central>, Arc<Plan>, Node) {
    let limits = plan_in(&tier(), 0, 1, &[(0, window(CAPACITY, 3_600 * SECOND))]);
    let central = Central::new(&limits);
    let node = Node::new(&central, &limits, tier(), 0);
    (central, limits, node)
}

fn pass(central: &Central, node: &Node, micros: u64) {
    central.clock.pass(micros);
    node.clock.pass(micros);
}

/// How many of these were admitted, and how many were told that the store is away; all were told.
fn told_all(waiting: Vec<StoreFuture>) -> (Amount, usize) {
    let (mut admitted, mut away) = (0, 0);
    for mut later in waiting {
        match told(&mut later).expect("nobody is forgotten") {
            Ok(reply) => {
                admitted += u64::from(reply.verdict().expect("a verdict").admitted());
            }
            Err(StoreError::Unavailable(_)) => away += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (admitted, away)
}

/// So many requests at once at a store that is back: one grant at a time is under way.
fn come_back(node: &Node, count: usize) -> Amount {
    let before = node.grants();
    node.link.set(Wire::HoldsAnswers);
    let waiting: Vec<_> = (0..count).map(|_| node.begin(b"k", &[1])).collect();
    while node.link.held() > 0 {
        // A spent grant, or one whose answer was lost, is ended beside it.
        assert!(node.link.held() <= 3, "{} are under way", node.link.held());
        node.link.deliver();
    }
    node.link.set(Wire::Open);
    let grants = node.grants() - before;
    assert!(grants <= count.div_ceil(100) + 1, "{grants} grants");
    let (admitted, away) = told_all(waiting);
    assert_eq!((admitted, away), (count as u64, 0));
    admitted
}

/// After all that was out has come back, the store has what was not admitted, and all slots.
fn settles(central: &Central, limits: &Arc<Plan>, node: &Node, admitted: Amount) {
    for _ in 0..4 {
        pass(central, node, SECOND);
    }
    assert_eq!(central.left(limits, b"k"), [CAPACITY - admitted, 500]);
}

#[test]
fn a_store_that_is_cut_before_a_grant_is_asked_for_has_debited_nothing() {
    let (central, limits, node) = node();
    node.link.set(Wire::Cut);
    let waiting: Vec<_> = (0..200).map(|_| node.begin(b"k", &[1])).collect();
    assert_eq!(told_all(waiting), (0, 200));
    assert_eq!(central.left(&limits, b"k"), [CAPACITY, 500]);
    let admitted = come_back(&node, 250);
    settles(&central, &limits, &node, admitted);
}

#[test]
fn a_grant_whose_answer_is_cut_off_is_debited_once_and_given_back() {
    let (central, limits, node) = node();
    node.link.set(Wire::LosesAnswers);
    assert_eq!(told_all(vec![node.begin(b"k", &[1])]), (0, 1));
    // It is out, and this node will not spend it.
    assert_eq!(central.left(&limits, b"k"), [CAPACITY - 100, 400]);
    let admitted = come_back(&node, 250);
    settles(&central, &limits, &node, admitted);
}

#[test]
fn a_store_that_is_cut_behind_a_grant_leaves_it_to_be_spent_to_its_end() {
    let (central, limits, node) = node();
    assert!(node.admits(b"k", &[1]));
    node.link.set(Wire::Cut);
    let waiting: Vec<_> = (0..99).map(|_| node.begin(b"k", &[1])).collect();
    assert_eq!(told_all(waiting), (99, 0));
    let waiting: Vec<_> = (0..50).map(|_| node.begin(b"k", &[1])).collect();
    assert_eq!(told_all(waiting), (0, 50));
    let admitted = 100 + come_back(&node, 250);
    settles(&central, &limits, &node, admitted);
}

#[test]
fn nothing_of_a_grant_is_spent_after_its_end_however_long_the_store_is_away() {
    let (central, limits, node) = node();
    assert!(node.admits(b"k", &[1]));
    node.link.set(Wire::Cut);
    node.clock.pass(998_000);
    assert!(node.admits(b"k", &[1]));
    node.clock.pass(1_100);
    assert_eq!(told_all(vec![node.begin(b"k", &[1])]), (0, 1));
    central.clock.pass(999_100);
    // What was left of it comes back, though the node could not say so before its lease expired.
    let admitted = 2 + come_back(&node, 250);
    settles(&central, &limits, &node, admitted);
}

/// After eight tries, of which most were not even sent, what was left of a grant was given up: for the
/// rest of its window nobody had it.
#[test]
fn what_is_left_comes_back_however_often_that_was_tried_while_the_store_was_away() {
    let (central, limits, node) = node();
    assert!(node.admits(b"k", &[1]));
    node.link.set(Wire::LosesAnswers);
    let lost = node.begin(b"other", &[1]);
    assert_eq!(told_all(vec![lost]), (0, 1));
    node.link.set(Wire::Cut);
    for _ in 0..60 {
        pass(&central, &node, SECOND);
    }
    node.link.set(Wire::Open);
    for _ in 0..20 {
        pass(&central, &node, SECOND);
    }
    assert_eq!(central.left(&limits, b"k"), [CAPACITY - 1, 500]);
    assert_eq!(central.left(&limits, b"other"), [CAPACITY, 500]);
}
