//! Leases of slots that a node holds at its store, and gives out.

mod support;

use std::sync::Arc;

use support::{Central, Node, SECOND, Wire, plan, slots, span, told, window};
use tidegate_store::core::{Align, Amount, Bounds, Rule, Timestamp, Verdict, Window};
use tidegate_store::{Detail, Ending, Plan, Reply, Settlement, StoreError, Timer, Verb};
use tidegate_tier::{Tier, is_given, is_grant};

const HOUR: u64 = 3_600 * SECOND;
const MINUTE: u64 = 60 * SECOND;

fn tier(batch: u64) -> Tier {
    Tier::leased(1)
        .batch_of("limit 0", batch)
        .low_water(0)
        .hold(std::time::Duration::from_secs(10))
}

/// So many slots, and nodes that hold some of them at a time.
fn fleet(capacity: u64, batch: u64, count: usize) -> (Arc<Central>, Vec<Node>) {
    let plan = plan(0, 1, &[(0, slots(capacity))]);
    let central = Central::new(&plan);
    let node = |_| Node::new(&central, &plan, tier(batch), 0);
    let nodes = (0..count).map(node).collect();
    (central, nodes)
}

fn pass(central: &Central, nodes: &[Node], micros: u64) {
    central.clock.pass(micros);
    nodes.iter().for_each(|node| node.clock.pass(micros));
}

fn left(central: &Central, plan: &Arc<Plan>) -> u64 {
    central.left(plan, b"k")[0]
}

fn settled(answer: Result<Reply, StoreError>) -> Settlement {
    answer.and_then(Reply::settled).expect("it has ended")
}

#[test]
fn one_trip_serves_a_batch_of_leases_which_have_no_fence() {
    let (central, nodes) = fleet(100, 10, 1);
    let node = &nodes[0];
    let leases: Vec<_> = (0..10)
        .filter_map(|_| node.lease(b"k", &[1], MINUTE))
        .collect();
    assert_eq!((leases.len(), node.trips()), (10, 1));
    assert_eq!(left(&central, &node.plan), 90);
    for lease in &leases {
        assert!(is_given(lease.id) && !is_grant(lease.id));
        assert_eq!((lease.fence, lease.repeated), (0, false));
        assert_eq!(lease.expires_at, node.clock.now() + span(MINUTE));
    }
    // What one holder gives back, the next has, without a trip.
    for lease in &leases {
        let settlement = settled(node.release(b"k", lease.id));
        assert!(!settlement.expired && !settlement.repeated);
        assert!(settled(node.release(b"k", lease.id)).repeated);
        assert!(node.lease(b"k", &[1], MINUTE).is_some());
    }
    assert_eq!(node.trips(), 1);
    assert!(node.lease(b"k", &[1], MINUTE).is_some());
    assert_eq!((node.trips(), left(&central, &node.plan)), (2, 80));
}

#[test]
fn slots_go_back_after_the_hold_as_they_come_free_and_at_once_where_none_is_held() {
    let (central, nodes) = fleet(100, 10, 1);
    let node = &nodes[0];
    let leases: Vec<_> = (0..3)
        .filter_map(|_| node.lease(b"k", &[1], MINUTE))
        .collect();
    pass(&central, &nodes, 11 * SECOND);
    assert_eq!(left(&central, &node.plan), 97);
    for (nth, lease) in leases.iter().enumerate() {
        settled(node.release(b"k", lease.id));
        assert_eq!(left(&central, &node.plan), 98 + nth as u64);
    }
}

#[test]
fn what_lies_idle_goes_back_and_what_is_held_stays() {
    let (central, nodes) = fleet(100, 10, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], MINUTE).expect("a slot");
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 99);
    settled(node.release(b"k", lease.id));
    assert_eq!(left(&central, &node.plan), 100);
}

#[test]
fn a_lease_expires_by_itself_and_is_told_so() {
    let (central, nodes) = fleet(100, 2, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], 2 * SECOND).expect("a slot");
    assert!(node.lease(b"k", &[1], MINUTE).is_some());
    pass(&central, &nodes, 2 * SECOND);
    // It is over: its slot is there for another.
    assert!(node.lease(b"k", &[1], 2 * SECOND).is_some());
    assert_eq!(
        node.renew(b"k", lease.id, MINUTE),
        Err(StoreError::LeaseEnded(lease.expires_at))
    );
    assert!(settled(node.release(b"k", lease.id)).expired);
}

#[test]
fn the_store_holds_its_lease_for_as_long_as_one_that_was_given_of_it() {
    let (central, nodes) = fleet(100, 4, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], MINUTE).expect("a slot");
    // Renewed every twenty seconds, that is a trip a minute.
    for _ in 0..60 {
        pass(&central, &nodes, 20 * SECOND);
        assert_eq!(node.renew(b"k", lease.id, MINUTE), Ok(Reply::Done));
        assert_eq!(left(&central, &node.plan), 99);
    }
    // One that was asked for the slots, one that gave back what was idle.
    assert!((20..=24).contains(&node.trips()), "{}", node.trips());
    // It is not renewed: it is over, and so is the store's.
    pass(&central, &nodes, 3 * MINUTE);
    assert_eq!(left(&central, &node.plan), 100);
    assert!(matches!(
        node.renew(b"k", lease.id, MINUTE),
        Err(StoreError::LeaseEnded(_) | StoreError::UnknownLease)
    ));
}

#[test]
fn while_the_store_is_away_no_lease_outlasts_the_stores() {
    let (central, nodes) = fleet(100, 4, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], 10 * SECOND).expect("a slot");
    node.link.set(Wire::Cut);
    pass(&central, &nodes, 5 * SECOND);
    assert_eq!(node.renew(b"k", lease.id, 10 * SECOND), Ok(Reply::Done));
    pass(&central, &nodes, 8 * SECOND);
    let away = node.renew(b"k", lease.id, 10 * SECOND);
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    node.link.set(Wire::Open);
    assert_eq!(node.renew(b"k", lease.id, 10 * SECOND), Ok(Reply::Done));
    settled(node.release(b"k", lease.id));
    pass(&central, &nodes, MINUTE);
    assert_eq!(left(&central, &node.plan), 100);
}

#[test]
fn a_lease_that_the_store_has_ended_is_over_for_those_who_hold_of_it() {
    let (central, nodes) = fleet(100, 4, 2);
    let lease = nodes[0].lease(b"k", &[1], 10 * SECOND).expect("a slot");
    // An operator ends all that is held, by what the listing shows.
    let held = nodes[1].listed(b"k");
    assert_eq!(held.len(), 1);
    settled(nodes[1].release(b"k", held[0].id));
    assert_eq!(left(&central, &nodes[0].plan), 100);
    pass(&central, &nodes, 9 * SECOND);
    // Until its next trip the holder believes for a ttl at most, as of any lease.
    let mut renewals = (0..4).map(|_| {
        pass(&central, &nodes, 3 * SECOND);
        nodes[0].renew(b"k", lease.id, 10 * SECOND)
    });
    assert!(renewals.any(|renewed| matches!(renewed, Err(StoreError::LeaseEnded(_)))));
    assert!(settled(nodes[0].release(b"k", lease.id)).expired);
    // It gives out others, of slots that it has.
    assert!(nodes[0].lease(b"k", &[1], 10 * SECOND).is_some());
    assert_eq!(left(&central, &nodes[0].plan), 96);
}

#[test]
fn a_lease_of_another_node_is_not_known() {
    let (_, nodes) = fleet(100, 4, 2);
    let lease = nodes[0].lease(b"k", &[1], 10 * SECOND).expect("a slot");
    let trips = nodes[1].trips();
    assert_eq!(
        nodes[1].release(b"k", lease.id),
        Err(StoreError::UnknownLease)
    );
    assert_eq!(
        nodes[1].renew(b"k", lease.id, SECOND),
        Err(StoreError::UnknownLease)
    );
    assert_eq!(nodes[1].trips(), trips);
    settled(nodes[0].release(b"k", lease.id));
}

#[test]
fn where_the_store_has_fewer_slots_what_comes_back_is_the_stores() {
    let (central, nodes) = fleet(10, 4, 3);
    let take = |node: &Node| node.lease(b"k", &[1], MINUTE);
    let first: Vec<_> = (0..4).filter_map(|_| take(&nodes[0])).collect();
    let second: Vec<_> = (0..4).filter_map(|_| take(&nodes[1])).collect();
    // There are two: this node is told, and gives none of them out twice.
    let third = take(&nodes[2]).expect("a slot");
    assert_eq!(left(&central, &nodes[0].plan), 1);
    settled(nodes[2].release(b"k", third.id));
    assert_eq!(left(&central, &nodes[0].plan), 2);
    assert!(take(&nodes[2]).is_some() && take(&nodes[2]).is_some());
    assert!(take(&nodes[2]).is_none());
    // So it is for the others, once they are refused.
    assert!(take(&nodes[0]).is_none());
    settled(nodes[0].release(b"k", first[0].id));
    assert_eq!(left(&central, &nodes[0].plan), 1);
    assert!(take(&nodes[2]).is_some());
    // The second one's go round within the hold, and not for longer.
    settled(nodes[1].release(b"k", second[0].id));
    assert_eq!(left(&central, &nodes[0].plan), 0);
    pass(&central, &nodes, 11 * SECOND);
    assert_eq!(left(&central, &nodes[0].plan), 1);
}

#[test]
fn a_node_that_is_gone_leaves_its_slots_until_the_stores_lease_ends() {
    let (central, mut nodes) = fleet(10, 4, 2);
    for _ in 0..4 {
        assert!(nodes[0].lease(b"k", &[1], 10 * SECOND).is_some());
    }
    let gone = nodes.remove(0);
    gone.link.set(Wire::Cut);
    drop(gone);
    pass(&central, &nodes, 10 * SECOND);
    assert_eq!(left(&central, &nodes[0].plan), 6);
    // Twice the ttl of its holders, and a five hundredth.
    pass(&central, &nodes, 10 * SECOND + SECOND / 50);
    assert_eq!(left(&central, &nodes[0].plan), 10);
}

/// The store held them for as long as the hold, and so nobody had them for a minute.
#[test]
fn slots_of_short_leases_are_held_no_longer_than_those_whatever_the_hold() {
    let plan = plan(0, 1, &[(0, slots(10))]);
    let central = Central::new(&plan);
    let tier = tier(4).hold(std::time::Duration::from_secs(60));
    let nodes = [0, 0].map(|ahead| Node::new(&central, &plan, tier.clone(), ahead));
    assert!(nodes[0].lease(b"k", &[1], 2 * SECOND).is_some());
    nodes[0].link.set(Wire::Cut);
    pass(&central, &nodes, 4 * SECOND + SECOND / 100);
    assert_eq!(left(&central, &plan), 10);
}

#[test]
fn a_grant_whose_answer_was_lost_is_given_back() {
    let (central, nodes) = fleet(10, 4, 1);
    nodes[0].link.set(Wire::LosesAnswers);
    let lost = told(&mut nodes[0].begin_lease(b"k", &[1], MINUTE)).expect("an answer");
    assert!(matches!(lost, Err(StoreError::Unavailable(_))));
    assert_eq!(left(&central, &nodes[0].plan), 6);
    nodes[0].link.set(Wire::Open);
    pass(&central, &nodes, 11 * SECOND);
    assert_eq!(left(&central, &nodes[0].plan), 10);
}

/// They lay here until the hold was over, and the other waited for them at the store.
#[test]
fn slots_that_come_while_others_wait_at_the_store_go_there() {
    let (central, nodes) = fleet(10, 8, 1);
    let node = &nodes[0];
    node.link.set(Wire::HoldsAnswers);
    let mut first = node.begin_lease(b"k", &[1], MINUTE);
    assert_eq!(left(&central, &node.plan), 2);
    node.link.set(Wire::HoldsCommands);
    let waits = node.begin_waiting(b"k", &[9], MINUTE);
    assert_eq!(node.link.held(), 2);
    node.link.set(Wire::Open);
    node.link.deliver_at(0);
    let first = told(&mut first).expect("it is answered").expect("a reply");
    assert!(first.new_lease().is_some_and(is_given));
    assert_eq!(left(&central, &node.plan), 9);
    drop(waits);
}

#[test]
fn whoever_goes_before_the_grant_comes_leaves_its_slot() {
    let (central, nodes) = fleet(10, 4, 1);
    nodes[0].link.set(Wire::HoldsAnswers);
    let gone = nodes[0].begin_lease(b"k", &[4], MINUTE);
    let mut stays = nodes[0].begin_lease(b"k", &[4], MINUTE);
    drop(gone);
    nodes[0].link.deliver();
    let stays = told(&mut stays)
        .expect("it is answered")
        .expect("a decision");
    assert!(stays.new_lease().is_some_and(is_given));
    assert_eq!(left(&central, &nodes[0].plan), 6);
}

/// Slots beside a window of an hour.
fn both(capacity: Amount) -> (Arc<Central>, Node) {
    both_of(capacity, 1_000)
}

fn both_of(capacity: Amount, units: Amount) -> (Arc<Central>, Node) {
    let plan = plan(0, 1, &[(0, slots(capacity)), (0, window(units, HOUR))]);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, tier(10).batch_of("limit 1", 100), 0);
    (central, node)
}

#[test]
fn slots_and_units_are_granted_together_and_settled_each_where_it_was_taken() {
    let (central, node) = both(50);
    let take = |units| {
        node.lease(b"k", &[1, units], MINUTE)
            .expect("there is room")
    };
    let (first, second) = (take(10), take(20));
    assert_eq!((node.grants(), node.trips()), (1, 1));
    assert_eq!(central.left(&node.plan, b"k"), [40, 900]);
    let used = |id, units| {
        let verb = Verb::End {
            id,
            ending: Ending::Settle(&[None, Some(units)]),
            remember: false,
        };
        settled(node.of_lease(b"k", verb))
    };
    // Less was used: it is there for the next. More was: that is debt at once.
    assert_eq!(used(first.id, 4).uses[1].used, 4);
    assert_eq!(node.trips(), 1);
    assert_eq!(used(second.id, 25).uses[1].used, 25);
    assert_eq!(central.left(&node.plan, b"k"), [40, 895]);
    for _ in 0..7 {
        take(10);
    }
    // A request without a slot is spent of the same.
    assert!(node.admits(b"k", &[0, 6]));
    assert_eq!(node.grants(), 1);
    central.clock.pass(2 * MINUTE);
    node.clock.pass(2 * MINUTE);
    assert_eq!(
        central.left(&node.plan, b"k"),
        [50, 1_000 - 4 - 25 - 70 - 6]
    );
}

#[test]
fn a_request_of_which_one_limit_is_full_takes_nothing_of_the_others() {
    let (central, node) = both(2);
    let first = node.lease(b"k", &[1, 10], MINUTE).expect("there is room");
    assert!(node.lease(b"k", &[1, 10], MINUTE).is_some());
    let refused = told(&mut node.begin_lease(b"k", &[1, 10], MINUTE));
    let refused = refused.expect("an answer").and_then(Reply::decision);
    let refused = refused.expect("a decision");
    assert_eq!(
        (refused.verdict.admitted(), refused.binding),
        (false, Some(0))
    );
    settled(node.release(b"k", first.id));
    pass_one(&central, &node, 3 * SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [1, 980]);
}

fn pass_one(central: &Central, node: &Node, micros: u64) {
    central.clock.pass(micros);
    node.clock.pass(micros);
}

#[test]
fn a_lease_is_adjusted_by_what_the_node_has_or_else_by_the_store() {
    let (central, node) = both(12);
    let lease = node.lease(b"k", &[1, 10], MINUTE).expect("there is room");
    let adjust = |to: &[Option<Amount>], overdraw| {
        let verb = Verb::Adjust {
            id: lease.id,
            to,
            overdraw,
            detail: Detail::OnRefusal,
        };
        let decision = node.of_lease(b"k", verb).and_then(Reply::decision);
        decision.expect("a decision").verdict
    };
    assert_eq!(adjust(&[Some(10), Some(100)], false), Verdict::Admit);
    assert_eq!(
        (node.trips(), central.left(&node.plan, b"k")),
        (1, vec![2, 900])
    );
    // The store has two more: twelve, and not thirteen.
    assert!(!adjust(&[Some(13), None], false).admitted());
    assert_eq!(adjust(&[Some(12), Some(300)], false), Verdict::Admit);
    assert_eq!(central.left(&node.plan, b"k"), [0, 700]);
    assert_eq!(adjust(&[Some(1), Some(40)], false), Verdict::Admit);
    assert_eq!(central.left(&node.plan, b"k"), [11, 960]);
    assert_eq!(adjust(&[None, Some(1_100)], true), Verdict::Admit);
    assert_eq!(central.left(&node.plan, b"k"), [11, 0]);
    settled(node.release(b"k", lease.id));
    pass_one(&central, &node, 3 * SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [12, 0]);
}

/// Both grants were taken first and closed one by one: what was given back in between found neither.
#[test]
fn what_comes_back_while_grants_are_closed_is_not_lost() {
    let (central, mut nodes) = fleet(100, 2, 1);
    let node = Arc::new(nodes.remove(0));
    let leases: Vec<_> = (0..4)
        .filter_map(|_| node.lease(b"k", &[1], MINUTE))
        .collect();
    assert_eq!((leases.len(), left(&central, &node.plan)), (4, 96));
    settled(node.release(b"k", leases[0].id));
    let (other, third) = (Arc::clone(&node), leases[2].id);
    node.link.meanwhile(move || {
        settled(other.release(b"k", third));
    });
    // They lie idle: the store is told of the first that one of two is held.
    pass_one(&central, &node, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 98);
}

/// What was charged after the month's end was in a day of UTC, and forgotten at midnight.
#[test]
fn what_is_used_beyond_is_charged_to_the_calendars_window() {
    let months = Window::new(1_000, Align::Calendar).expect("a window");
    let plan = plan(0, 1, &[(0, slots(50)), (0, Rule::Window(months))]);
    let central = Central::new(&plan);
    let mut node = Node::new(&central, &plan, tier(10).batch_of("limit 1", 100), 0);
    let now = central.clock.now();
    node.calendars = vec![
        None,
        Some(Bounds {
            start: now - span(500 * HOUR),
            end: now + span(5 * SECOND),
            next_end: now + span(700 * HOUR),
        }),
    ];
    let settle = |id, units| {
        let verb = Verb::End {
            id,
            ending: Ending::Settle(&[None, Some(units)]),
            remember: false,
        };
        settled(node.of_lease(b"k", verb))
    };
    let lease = node.lease(b"k", &[1, 100], MINUTE).expect("there is room");
    let other = node.lease(b"k", &[1, 10], MINUTE).expect("there is room");
    pass_one(&central, &node, 15 * SECOND);
    // Of one the store is told while others hold of it, of the last with its end.
    settle(lease.id, 150);
    settle(other.id, 17);
    pass_one(&central, &node, 3 * HOUR);
    assert_eq!(central.left(&plan, b"k"), [50, 1_000 - 50 - 7]);
}

/// It was tried eight times, and the slots were taken for an hour.
#[test]
fn slots_that_are_given_back_while_the_store_is_away_are_there_once_it_is_back() {
    let (central, nodes) = fleet(100, 4, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], HOUR).expect("a slot");
    pass(&central, &nodes, 11 * SECOND);
    node.link.set(Wire::Cut);
    settled(node.release(b"k", lease.id));
    // Of another key even the answer to the request was lost.
    node.link.set(Wire::LosesAnswers);
    assert!(told(&mut node.begin_lease(b"l", &[1], HOUR)).is_some());
    node.link.set(Wire::Cut);
    pass(&central, &nodes, 10 * MINUTE);
    assert_eq!(left(&central, &node.plan), 99);
    assert_eq!(central.left(&node.plan, b"l"), [96]);
    node.link.set(Wire::Open);
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 100);
    assert_eq!(central.left(&node.plan, b"l"), [100]);
}

#[test]
fn nobody_tries_to_end_a_lease_that_has_ended_by_itself() {
    let (central, nodes) = fleet(100, 4, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], HOUR).expect("a slot");
    pass(&central, &nodes, 11 * SECOND);
    node.link.set(Wire::Cut);
    settled(node.release(b"k", lease.id));
    pass(&central, &nodes, 2 * HOUR);
    let trips = node.trips();
    pass(&central, &nodes, HOUR);
    assert_eq!(node.trips(), trips);
    assert_eq!(left(&central, &node.plan), 100);
}

/// The key was in debt for the window: all of the overdraft was charged, used or not.
#[test]
fn what_was_overdrawn_and_not_used_comes_back() {
    let (central, node) = both_of(50, 10_000);
    let lease = node.lease(b"k", &[1, 40], MINUTE).expect("there is room");
    assert!((0..10).all(|_| node.admits(b"k", &[0, 6])));
    assert_eq!(node.grants(), 1);
    let verb = Verb::Adjust {
        id: lease.id,
        to: &[None, Some(1_040)],
        overdraw: true,
        detail: Detail::OnRefusal,
    };
    assert!(node.of_lease(b"k", verb).is_ok());
    assert_eq!(central.left(&node.plan, b"k"), [40, 8_900]);
    let verb = Verb::End {
        id: lease.id,
        ending: Ending::Settle(&[None, Some(50)]),
        remember: false,
    };
    assert_eq!(settled(node.of_lease(b"k", verb)).uses[1].used, 50);
    // Ten beyond what was taken; and nothing is left of the grant.
    assert_eq!(central.left(&node.plan, b"k"), [40, 9_890]);
    pass_one(&central, &node, 2 * MINUTE);
    assert_eq!(central.left(&node.plan, b"k"), [50, 10_000 - 50 - 60]);
}

/// Each grant that a check asked for took a batch of slots, which lay here until the hold was over.
#[test]
fn only_those_who_take_slots_ask_for_some() {
    let (central, node) = both_of(50, 1_000);
    let lease = node.lease(b"k", &[1, 10], MINUTE).expect("there is room");
    assert_eq!(central.left(&node.plan, b"k"), [40, 900]);
    assert!((0..30).all(|_| node.admits(b"k", &[0, 10])));
    assert_eq!(
        (node.grants(), central.left(&node.plan, b"k")),
        (4, vec![40, 600])
    );
    settled(node.release(b"k", lease.id));
}

/// Four batches of slots were held, of which the requests used one slot after the other.
#[test]
fn with_the_units_of_a_grant_its_idle_slots_go() {
    let (central, node) = both_of(50, 10_000);
    for _ in 0..60 {
        let lease = node.lease(b"k", &[1, 10], MINUTE).expect("there is room");
        settled(node.release(b"k", lease.id));
        let left = central.left(&node.plan, b"k")[0];
        assert!(left >= 30, "{left} of 50 slots are left for others");
    }
    // Also where something is left of the units, and no lease takes so little.
    for _ in 0..60 {
        let lease = node.lease(b"k", &[1, 30], MINUTE).expect("there is room");
        settled(node.release(b"k", lease.id));
        let left = central.left(&node.plan, b"k")[0];
        assert!(left >= 30, "{left} of 50 slots are left for others");
    }
}

/// The grant that the check asked for had one slot for the lease, of a batch of ten: for this node that
/// was all that there were, and it gave none out for a while.
#[test]
fn a_lease_that_waits_behind_a_check_gets_a_batch() {
    let (central, node) = both_of(50, 1_000);
    node.link.set(Wire::HoldsAnswers);
    let mut checks = [node.begin(b"k", &[0, 60]), node.begin(b"k", &[0, 60])];
    let mut lease = node.begin_lease(b"k", &[1, 10], MINUTE);
    node.link.set(Wire::Open);
    node.link.deliver();
    for check in &mut checks {
        let decision = told(check).expect("an answer").and_then(Reply::decision);
        assert!(decision.expect("a decision").verdict.admitted());
    }
    let lease = told(&mut lease).expect("an answer").expect("a reply");
    assert!(lease.new_lease().is_some_and(is_given));
    assert_eq!(central.left(&node.plan, b"k")[0], 40);
    let trips = node.trips();
    assert!(node.lease(b"k", &[1, 10], MINUTE).is_some());
    assert_eq!(node.trips(), trips);
}

/// The grant was thrown away, since it had no slots, which nobody had asked for with it; so each
/// request of both was a trip.
#[test]
fn a_refusal_leaves_the_units_that_smaller_requests_take() {
    let (_, node) = both_of(50, 30);
    let lease = node.lease(b"k", &[1, 10], MINUTE).expect("there is room");
    settled(node.release(b"k", lease.id));
    assert!(node.admits(b"k", &[0, 5]));
    assert!(!node.admits(b"k", &[0, 30]));
    let trips = node.trips();
    for _ in 0..10 {
        assert!(node.admits(b"k", &[0, 1]));
        assert!(!node.admits(b"k", &[0, 30]));
    }
    assert_eq!(node.trips(), trips);
}

/// They took the units beside the slots, so that each lease was a trip.
#[test]
fn checks_leave_the_units_that_are_beside_slots() {
    let plan = plan(0, 1, &[(0, slots(50)), (0, window(100_000, HOUR))]);
    let central = Central::new(&plan);
    let tier = tier(8).batch_of("limit 1", 50).low_water(20);
    let node = Node::new(&central, &plan, tier, 0);
    let (mut of_checks, mut of_leases) = (0, 0);
    for _ in 0..40 {
        let before = node.trips();
        assert!((0..120).all(|_| node.admits(b"k", &[0, 1])));
        of_checks += node.trips() - before;
        let before = node.trips();
        let lease = node.lease(b"k", &[1, 1], MINUTE).expect("there is room");
        settled(node.release(b"k", lease.id));
        of_leases += node.trips() - before;
    }
    assert!(of_checks <= 120 * 40 / 50 * 3, "{of_checks}");
    assert!(of_leases <= 10, "{of_leases}");
}

/// The late renewal was for less, and its slot went to another while the holder was sure of it.
#[test]
fn a_renewal_that_the_store_executes_late_takes_no_time_back() {
    let (central, nodes) = fleet(2, 2, 2);
    let lease = nodes[0].lease(b"k", &[1], 4 * SECOND).expect("a slot");
    pass(&central, &nodes, 3 * SECOND);
    nodes[0].link.set(Wire::Late);
    let renewed = nodes[0].renew(b"k", lease.id, 6 * SECOND);
    assert!(matches!(renewed, Err(StoreError::Unavailable(_))));
    nodes[0].link.set(Wire::Open);
    assert_eq!(nodes[0].renew(b"k", lease.id, MINUTE), Ok(Reply::Done));
    nodes[0].link.deliver();
    for _ in 0..50 {
        pass(&central, &nodes, SECOND);
        assert!(nodes[1].lease(b"k", &[2], SECOND).is_none());
    }
    settled(nodes[0].release(b"k", lease.id));
    pass(&central, &nodes, 3 * SECOND);
    assert!(nodes[1].lease(b"k", &[2], SECOND).is_some());
}

/// Four slots were taken until the lease ended, for as long as it was renewed.
#[test]
fn what_the_store_executes_late_it_is_told_again() {
    let (central, nodes) = fleet(10, 2, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[2], HOUR).expect("slots");
    node.link.set(Wire::Late);
    let grown = told(&mut node.begin_adjustment(b"k", lease.id, &[Some(6)]));
    assert!(matches!(grown, Some(Err(StoreError::Unavailable(_)))));
    node.link.set(Wire::Open);
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 8);
    node.link.deliver();
    assert_eq!(left(&central, &node.plan), 4);
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 8);
    // Not for ever.
    pass(&central, &nodes, 5 * MINUTE);
    let trips = node.trips();
    pass(&central, &nodes, 5 * MINUTE);
    assert_eq!(node.trips(), trips);
}

/// The late command left the store with three of four slots that were held.
#[test]
fn a_lease_does_not_grow_beyond_what_the_store_may_execute_late() {
    let (central, nodes) = fleet(4, 2, 1);
    let node = &nodes[0];
    let grown = |id, to: u64| {
        let answer = told(&mut node.begin_adjustment(b"k", id, &[Some(to)])).expect("an answer");
        answer.map(|reply| reply.decision().expect("a decision").verdict.admitted())
    };
    let first = node.lease(b"k", &[1], HOUR).expect("a slot");
    let second = node.lease(b"k", &[1], HOUR).expect("a slot");
    pass(&central, &nodes, 11 * SECOND);
    node.link.set(Wire::Late);
    settled(node.release(b"k", second.id));
    node.link.set(Wire::Open);
    // The store had two of this lease, and is to have one: no more is sure.
    assert!(matches!(grown(first.id, 3), Err(StoreError::Busy(_))));
    assert_eq!(node.link.deliver(), 1);
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 3);
    settled(node.release(b"k", first.id));
    assert_eq!(left(&central, &node.plan), 4);
}

/// The growth was added to what the second had left, so that one was held that the store did not have.
#[test]
fn a_lease_is_adjusted_once_at_a_time() {
    let (central, nodes) = fleet(10, 2, 1);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[2], HOUR).expect("slots");
    node.link.set(Wire::HoldsCommands);
    let mut more = node.begin_adjustment(b"k", lease.id, &[Some(4)]);
    let less = told(&mut node.begin_adjustment(b"k", lease.id, &[Some(1)]));
    assert!(matches!(less, Some(Err(StoreError::Busy(_)))), "{less:?}");
    node.link.set(Wire::Open);
    node.link.deliver();
    let more = told(&mut more)
        .expect("an answer")
        .and_then(Reply::decision);
    assert!(more.expect("a decision").verdict.admitted());
    assert_eq!(left(&central, &node.plan), 6);
    settled(node.release(b"k", lease.id));
    assert_eq!(left(&central, &node.plan), 10);
}

/// It was remembered as settled, and what it had used beyond was charged to nobody.
#[test]
fn a_late_settlement_that_the_store_refuses_is_asked_for_again() {
    for remember in [true, false] {
        let (central, node) = both_of(50, 1_000);
        let lease = node.lease(b"k", &[1, 10], 2 * SECOND).expect("room");
        (0..12).for_each(|_| pass_one(&central, &node, SECOND));
        let settle = || {
            let verb = Verb::End {
                id: lease.id,
                ending: Ending::Settle(&[None, Some(25)]),
                remember,
            };
            node.begin_verb(b"k", verb)
        };
        let settled_now = || told(&mut settle()).expect("an answer");
        let left = || central.left(&node.plan, b"k");
        assert_eq!(left(), [50, 990]);
        node.link.set(Wire::Busy);
        assert!(matches!(settled_now(), Err(StoreError::Busy(_))));
        // While it is under way there is no second; and whoever asked may go away.
        node.link.set(Wire::HoldsCommands);
        let goes = settle();
        assert!(matches!(settled_now(), Err(StoreError::Busy(_))));
        drop(goes);
        node.link.set(Wire::Open);
        node.link.deliver();
        assert_eq!(left(), [50, 975]);
        match remember {
            true => assert!(settled(settled_now()).repeated),
            false => assert_eq!(settled_now(), Err(StoreError::UnknownLease)),
        }
        assert_eq!(left(), [50, 975]);
    }
}

#[test]
fn slots_without_a_batch_of_their_own_and_larger_requests_are_the_stores() {
    let plan = plan(0, 1, &[(0, slots(10))]);
    let central = Central::new(&plan);
    for tier in [Tier::leased(100), Tier::leased(1).batch_of("limit 0", 1)] {
        let node = Node::new(&central, &plan, tier, 0);
        let lease = node.lease(b"k", &[1], MINUTE).expect("a slot");
        assert!(!is_given(lease.id) && lease.fence > 0);
        settled(node.release(b"k", lease.id));
    }
    let node = Node::new(&central, &plan, tier(4), 0);
    let lease = node.lease(b"k", &[5], MINUTE).expect("slots");
    assert!(!is_given(lease.id) && lease.fence > 0);
}

#[test]
fn a_node_that_is_told_to_stop_gives_back_all_that_nobody_holds() {
    let (central, nodes) = fleet(10, 4, 1);
    let lease = nodes[0].lease(b"k", &[1], MINUTE).expect("a slot");
    drop(nodes[0].table.give_back());
    assert_eq!(left(&central, &nodes[0].plan), 9);
    settled(nodes[0].release(b"k", lease.id));
    assert_eq!(left(&central, &nodes[0].plan), 10);
}

/// What somebody holds, and is sure of until then, by the store's clock.
struct Holder {
    node: usize,
    id: u128,
    slots: u64,
    sure_until: Timestamp,
}

/// One to eight nodes, clocks apart, of which some are behind by all that is assumed; answers lost,
/// late, nodes gone: whatever happens, those who are sure hold no more than there is.
#[test]
fn in_any_history_those_who_are_sure_hold_no_more_than_there_is() {
    let count = std::env::var("TIDEGATE_TIER_HISTORIES").ok();
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(300);
    let mut reached = 0;
    for seed in 0..count {
        reached += u64::from(history(seed));
    }
    assert!(
        reached * 2 > count,
        "all slots were held in {reached} of {count}"
    );
}

/// Whether all slots were held at an instant.
fn history(seed: u64) -> bool {
    let mut dice = fastrand::Rng::with_seed(seed);
    let capacity = dice.u64(2..=12);
    let plan = plan(0, 1, &[(0, slots(capacity))]);
    let central = Central::new(&plan);
    let count = dice.usize(1..=8);
    let batch = dice.u64(2..=capacity);
    let tier = tier(batch).low_water(dice.u8(0..=100));
    let mut nodes: Vec<_> = (0..count)
        .map(|_| {
            Some(Node::new(
                &central,
                &plan,
                tier.clone(),
                dice.i64(-9_000_000..9_000_000),
            ))
        })
        .collect();
    let (mut holders, mut waiting) = (Vec::<Holder>::new(), Vec::new());
    let mut growing = Vec::new();
    let mut was_full = false;
    for step in 0..400 {
        let at = dice.usize(0..count);
        let Some(node) = &nodes[at] else { continue };
        let now = central.clock.now();
        holders.retain(|holder| now < holder.sure_until);
        match dice.u32(0..100) {
            0..35 => {
                let (amount, ttl) = (dice.u64(1..=2), dice.u64(1..=20) * SECOND);
                waiting.push((
                    at,
                    amount,
                    (now, ttl),
                    node.begin_lease(b"k", &[amount], ttl),
                ));
            }
            35..60 => {
                let mut own = holders.iter().enumerate().filter(|(_, one)| one.node == at);
                let own = own.next().map(|(position, _)| position);
                if let Some(holder) = own.map(|position| holders.swap_remove(position)) {
                    drop(node.end(b"k", holder.id));
                }
            }
            60..65 => {
                let own = holders.iter_mut().filter(|one| one.node == at);
                let Some(holder) = own.last() else { continue };
                let to = dice.u64(1..=4);
                // One who asks for less has it from then on.
                holder.slots = holder.slots.min(to);
                growing.push((
                    at,
                    (holder.id, to),
                    node.begin_adjustment(b"k", holder.id, &[Some(to)]),
                ));
            }
            65..72 => {
                let ttl = dice.u64(1..=20) * SECOND;
                for holder in holders.iter_mut().filter(|one| one.node == at) {
                    let renewed = told(&mut node.begin_renewal(b"k", holder.id, ttl));
                    match renewed {
                        // One who asks to expire sooner believes that from then on.
                        Some(Ok(_)) => holder.sure_until = sure(now, ttl),
                        Some(Err(StoreError::LeaseEnded(_) | StoreError::UnknownLease)) => {
                            holder.sure_until = now;
                        }
                        _ => holder.sure_until = holder.sure_until.min(sure(now, ttl)),
                    }
                }
            }
            72..76 => node.link.set(
                dice.choice([
                    Wire::Open,
                    Wire::Open,
                    Wire::HoldsAnswers,
                    Wire::HoldsCommands,
                    Wire::LosesAnswers,
                    Wire::Late,
                    Wire::Cut,
                ])
                .expect("one of them"),
            ),
            76..86 => drop(node.link.deliver()),
            86..87 if step > 100 => {
                // Nobody hears of it any more: those who hold of it are sure all the same.
                node.link.set(Wire::Cut);
                nodes[at] = None;
            }
            _ => {
                let micros = dice.u64(1..3 * SECOND);
                central.clock.pass(micros);
                for node in nodes.iter().flatten() {
                    // Behind by a thousandth at most.
                    node.clock.pass(micros - dice.u64(0..=micros / 1_001));
                }
            }
        }
        let now = central.clock.now();
        growing.retain_mut(|(node, (id, to), later)| {
            if nodes[*node].is_none() {
                return false;
            }
            let Some(answer) = told(later) else {
                return true;
            };
            let holder = holders.iter_mut().find(|holder| holder.id == *id);
            let decision = answer.and_then(Reply::decision);
            if let (Some(holder), Ok(decision)) = (holder, decision)
                && decision.verdict.admitted()
            {
                holder.slots = *to;
            }
            false
        });
        waiting.retain_mut(|(node, slots, (asked, ttl), later)| {
            if nodes[*node].is_none() {
                return false;
            }
            let Some(answer) = told(later) else {
                return true;
            };
            if let Some(lease) = answer.ok().as_ref().and_then(Reply::new_lease) {
                let sure_until = sure(*asked, *ttl);
                holders.push(Holder {
                    node: *node,
                    id: lease,
                    slots: *slots,
                    sure_until,
                });
            }
            false
        });
        let held = holders.iter().filter(|holder| now < holder.sure_until);
        let held: u64 = held.map(|holder| holder.slots).sum();
        assert!(
            held <= capacity,
            "seed {seed}, step {step}: {held} of {capacity}"
        );
        was_full |= held == capacity;
    }
    was_full
}

/// Until when one is sure who asked at `asked` for `ttl`, by the store's clock: a thousandth less.
fn sure(asked: Timestamp, ttl: u64) -> Timestamp {
    asked + span(ttl - ttl / 1_000 - 1)
}
