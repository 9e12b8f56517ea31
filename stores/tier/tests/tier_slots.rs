//! Leases of slots that a node holds at its store, and gives out.

mod support;

use support::leased::{HOUR, MINUTE, both, both_of, fleet, left, pass, pass_one, settled, tier};
use support::{Central, Node, SECOND, Wire, plan, slots, span, told, window};
use tidegate_store::core::{Align, Amount, Bounds, Rule, Timestamp, Verdict, Window};
use tidegate_store::{Detail, Ending, Reply, StoreError, Timer, Verb};
use tidegate_tier::{Tier, is_given, is_grant};

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
