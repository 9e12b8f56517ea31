//! Leased slots whose commands, or the answers to them, are lost or late.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::leased::{
    HOUR, MINUTE, both_of, fleet, fleet_of, left, pass, pass_one, settled, tier,
};
use support::{Central, Node, SECOND, Wire, told};
use tidegate_store::{Ending, Reply, StoreError, Verb};
use tidegate_tier::{Tier, is_given};

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

/// A slot is released at the first node, from which the store is cut off then.
fn released_while_cut(central: &Central, nodes: &[Node]) {
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], HOUR).expect("a slot");
    pass(central, nodes, 11 * SECOND);
    node.link.set(Wire::Cut);
    settled(node.release(b"k", lease.id));
}

/// It was tried eight times, and the slots were taken for an hour.
#[test]
fn slots_that_are_given_back_while_the_store_is_away_are_there_once_it_is_back() {
    let (central, nodes) = fleet(100, 4, 1);
    let node = &nodes[0];
    released_while_cut(&central, &nodes);
    // Of another key even the answer to the request was lost.
    node.link.set(Wire::LosesAnswers);
    assert!(told(&mut node.begin_lease(b"l", &[1], HOUR)).is_some());
    node.link.set(Wire::Cut);
    pass(&central, &nodes, 10 * MINUTE);
    assert_eq!(left(&central, &node.plan), 99);
    assert_eq!(central.left(&node.plan, b"l"), [96]);
    let counted = node.table.statistics();
    assert_eq!((counted.keys, counted.returning), (0, 2));
    node.link.set(Wire::Open);
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 100);
    assert_eq!(central.left(&node.plan, b"l"), [100]);
    pass(&central, &nodes, 2 * MINUTE);
    assert_eq!(node.table.statistics().returning, 0);
}

/// More grants than are kept in doubt put the one that was given back out of the list.
#[test]
fn grants_that_are_lost_do_not_stop_what_is_given_back() {
    for wire in [Wire::Cut, Wire::LosesAnswers] {
        let (central, nodes) = fleet(100, 4, 1);
        let node = &nodes[0];
        released_while_cut(&central, &nodes);
        node.link.set(wire);
        for _ in 0..16_400 {
            assert!(told(&mut node.begin_lease(b"m", &[1], HOUR)).is_some());
        }
        node.link.set(Wire::Open);
        pass(&central, &nodes, 10 * SECOND);
        assert_eq!(left(&central, &node.plan), 100);
        // The first were granted what there was.
        pass(&central, &nodes, MINUTE);
        assert_eq!(central.left(&node.plan, b"m"), [100]);
    }
}

#[test]
fn nobody_tries_to_end_a_lease_that_has_ended_by_itself() {
    let (central, nodes) = fleet(100, 4, 1);
    let node = &nodes[0];
    released_while_cut(&central, &nodes);
    pass(&central, &nodes, 2 * HOUR);
    let trips = node.trips();
    pass(&central, &nodes, HOUR);
    assert_eq!(node.trips(), trips);
    assert_eq!(left(&central, &node.plan), 100);
}

/// The late renewal was for less, and its slot went to another while the holder was sure of it; with
/// grants that are held for a minute until half a minute later.
#[test]
fn a_renewal_that_the_store_executes_late_takes_no_time_back() {
    let long = Duration::from_secs(60);
    let few_seconds = (4 * SECOND, 6 * SECOND);
    takes_no_time_back(tier(2), few_seconds, 3 * SECOND);
    takes_no_time_back(tier(2).hold(long).idle(long), few_seconds, 2 * MINUTE);
    takes_no_time_back(tier(2), (SECOND / 2, SECOND * 4 / 5), 3 * SECOND);
}

/// Nodes of this tier, which give back within `idle` what nobody holds; a lease for so long, renewed
/// for so long.
fn takes_no_time_back(tier: Tier, (ttl, renewed): (u64, u64), idle: u64) {
    let (central, nodes) = fleet_of(2, tier, 2);
    let lease = nodes[0].lease(b"k", &[1], ttl).expect("a slot");
    pass(&central, &nodes, ttl * 3 / 4);
    nodes[0].link.set(Wire::Late);
    let renewed = nodes[0].renew(b"k", lease.id, renewed);
    assert!(matches!(renewed, Err(StoreError::Unavailable(_))));
    nodes[0].link.set(Wire::Open);
    assert_eq!(nodes[0].renew(b"k", lease.id, MINUTE), Ok(Reply::Done));
    nodes[0].link.deliver();
    for _ in 0..50 {
        pass(&central, &nodes, SECOND);
        assert!(nodes[1].lease(b"k", &[2], SECOND).is_none());
    }
    settled(nodes[0].release(b"k", lease.id));
    pass(&central, &nodes, idle);
    assert!(nodes[1].lease(b"k", &[2], SECOND).is_some());
}

/// What was told again in the last second of the store's lease was for less than that: executed late,
/// it ended it before it was told once more, and the slot was another's.
#[test]
fn what_is_told_again_late_takes_no_time_back_either() {
    let (central, nodes) = fleet_of(2, tier(2), 2);
    let node = &nodes[0];
    let mut tenths = 0;
    let mut until = |tenth: u64| {
        for _ in tenths..tenth {
            pass(&central, &nodes, SECOND / 10);
        }
        tenths = tenth;
    };
    let lease = node.lease(b"k", &[1], SECOND / 2).expect("a slot");
    let renew = || node.renew(b"k", lease.id, SECOND * 9 / 10);
    until(2);
    node.link.set(Wire::Late);
    assert!(matches!(renew(), Err(StoreError::Unavailable(_))));
    node.link.set(Wire::Open);
    assert_eq!(renew(), Ok(Reply::Done));
    for tenth in (9..75).step_by(7) {
        until(tenth);
        assert_eq!(renew(), Ok(Reply::Done));
    }
    node.link.set(Wire::Late);
    let mut tenths = 73..81;
    let is_told = |tenth: &u64| {
        until(*tenth);
        node.link.held() == 2
    };
    let told = tenths.find(is_told).expect("it is told again");
    node.link.set(Wire::Open);
    until(told + 1);
    assert_eq!(renew(), Ok(Reply::Done));
    // Once more it is told again, and then the late one is there.
    let trips = node.trips();
    let mut tenths = told + 2..told + 20;
    let is_told = |tenth: &u64| {
        until(*tenth);
        assert_eq!(renew(), Ok(Reply::Done));
        node.trips() > trips
    };
    let told = tenths.find(is_told).expect("it is told again");
    node.link.deliver_at(1);
    for tenth in told + 1..300 {
        assert_eq!(renew(), Ok(Reply::Done));
        until(tenth);
        assert!(nodes[1].lease(b"k", &[2], SECOND).is_none());
    }
}

/// It was given up a minute after it had been asked for, and taken until long after.
#[test]
fn a_lost_grant_is_given_back_however_late_it_was_executed() {
    let (central, nodes) = fleet(10, 4, 1);
    let node = &nodes[0];
    node.link.set(Wire::Late);
    let lost = told(&mut node.begin_lease(b"k", &[1], MINUTE / 2)).expect("an answer");
    assert!(matches!(lost, Err(StoreError::Unavailable(_))));
    node.link.set(Wire::Cut);
    pass(&central, &nodes, 59 * SECOND);
    node.link.deliver();
    pass(&central, &nodes, 10 * SECOND);
    assert_eq!(left(&central, &node.plan), 6);
    node.link.set(Wire::Open);
    pass(&central, &nodes, 20 * SECOND);
    assert_eq!(left(&central, &node.plan), 10);
}

/// The last time that it was told, as the minute ended, did not reach the store, and was all.
#[test]
fn until_when_a_lease_lasts_is_told_until_the_store_has_heard() {
    let (central, nodes) = fleet(2, 2, 2);
    let node = &nodes[0];
    let lease = node.lease(b"k", &[1], MINUTE / 2).expect("a slot");
    pass(&central, &nodes, 25 * SECOND);
    node.link.set(Wire::Late);
    let renewed = node.renew(b"k", lease.id, 40 * SECOND);
    assert!(matches!(renewed, Err(StoreError::Unavailable(_))));
    node.link.set(Wire::Open);
    assert_eq!(node.renew(b"k", lease.id, HOUR), Ok(Reply::Done));
    node.link.set(Wire::Cut);
    pass(&central, &nodes, 50 * SECOND);
    node.link.deliver();
    pass(&central, &nodes, 15 * SECOND);
    node.link.set(Wire::Open);
    for _ in 0..300 {
        pass(&central, &nodes, SECOND);
        assert!(nodes[1].lease(b"k", &[2], SECOND).is_none());
    }
}

/// It was told once that nobody wants them, before it had heard of them: four slots were taken for an
/// hour.
#[test]
fn slots_that_the_store_grants_late_are_given_back() {
    let (central, nodes) = fleet(10, 4, 1);
    let node = &nodes[0];
    node.link.set(Wire::Late);
    let lost = told(&mut node.begin_lease(b"k", &[1], HOUR)).expect("an answer");
    assert!(matches!(lost, Err(StoreError::Unavailable(_))));
    node.link.set(Wire::Open);
    pass(&central, &nodes, 20 * SECOND);
    node.link.deliver();
    assert_eq!(left(&central, &node.plan), 6);
    pass(&central, &nodes, MINUTE / 2);
    assert_eq!(left(&central, &node.plan), 10);
    // Not for ever.
    pass(&central, &nodes, 2 * MINUTE);
    let trips = node.trips();
    pass(&central, &nodes, 5 * MINUTE);
    assert_eq!(node.trips(), trips);
}

/// The renewal waited for the next look after a settlement that failed, and its lease ended before.
#[test]
fn a_renewal_does_not_wait_with_what_the_store_is_told() {
    let (central, nodes) = fleet(10, 2, 1);
    let node = &nodes[0];
    let first = node.lease(b"k", &[1], 10 * SECOND).expect("a slot");
    let second = node.lease(b"k", &[1], 10 * SECOND).expect("a slot");
    settled(node.release(b"k", second.id));
    node.link.set(Wire::HoldsCommands);
    // The grant lies idle: the store is to hear that one slot is held.
    pass(&central, &nodes, 15 * SECOND / 2);
    assert_eq!(node.link.held(), 1);
    let mut renewed = node.begin_renewal(b"k", first.id, HOUR);
    node.link.set(Wire::Open);
    node.link.lose();
    assert_eq!(told(&mut renewed), Some(Ok(Reply::Done)));
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
    pass(&central, &nodes, 5 * SECOND);
    assert_eq!(left(&central, &node.plan), 8);
    // Not for ever.
    pass(&central, &nodes, 5 * MINUTE);
    let trips = node.trips();
    pass(&central, &nodes, 5 * MINUTE);
    assert_eq!(node.trips(), trips);
}

/// The first of two leases of a grant that is closed, once the second was released over this wire,
/// which is open again.
fn after_a_release(over: Wire, (central, nodes): (&Central, &[Node])) -> u128 {
    let node = &nodes[0];
    let first = node.lease(b"k", &[1], HOUR).expect("a slot");
    let second = node.lease(b"k", &[1], HOUR).expect("a slot");
    pass(central, nodes, 11 * SECOND);
    node.link.set(over);
    settled(node.release(b"k", second.id));
    node.link.set(Wire::Open);
    first.id
}

/// Whether a lease has so many slots from now on.
fn grown(node: &Node, id: u128, to: u64) -> Result<bool, StoreError> {
    let answer = told(&mut node.begin_adjustment(b"k", id, &[Some(to)])).expect("an answer");
    answer.map(|reply| reply.decision().expect("a decision").verdict.admitted())
}

/// The late command left the store with three of four slots that were held.
#[test]
fn a_lease_does_not_grow_beyond_what_the_store_may_execute_late() {
    let (central, nodes) = fleet(4, 2, 1);
    let node = &nodes[0];
    let first = after_a_release(Wire::Late, (&central, &nodes));
    // The store had two of this lease, and is to have one: no more is sure.
    assert!(matches!(grown(node, first, 3), Err(StoreError::Busy(_))));
    assert_eq!(node.link.deliver(), 1);
    pass(&central, &nodes, 3 * SECOND);
    assert_eq!(left(&central, &node.plan), 3);
    settled(node.release(b"k", first));
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

/// A circuit that was open for a moment left a lease without growth until its end, and its late use
/// charged to nobody.
#[test]
fn what_was_not_sent_is_in_no_doubt() {
    let (central, nodes) = fleet(10, 2, 1);
    let first = after_a_release(Wire::Cut, (&central, &nodes));
    assert_eq!(grown(&nodes[0], first, 3), Ok(true));
    assert_eq!(left(&central, &nodes[0].plan), 7);
}

/// Until then the store may execute that it has less.
#[test]
fn after_a_minute_without_another_loss_a_lease_grows_again() {
    let (central, nodes) = fleet(10, 2, 1);
    let node = &nodes[0];
    let first = after_a_release(Wire::LosesAnswers, (&central, &nodes));
    assert!(matches!(grown(node, first, 3), Err(StoreError::Busy(_))));
    pass(&central, &nodes, 62 * SECOND);
    assert_eq!(grown(node, first, 3), Ok(true));
    assert_eq!(left(&central, &node.plan), 7);
}
