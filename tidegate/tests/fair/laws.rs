//! Laws of the order alone.

use std::collections::{BTreeMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::Timestamp;
use tidegate::fair::{
    Bounds, FairError, FairRequest, MAX_WEIGHT, PRIORITIES, Popped, Priorities, Schedule, WaiterId,
};

const NOW: Timestamp = Timestamp::from_micros(0);
const LARGEST: u64 = 1_000;
const FLOWS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn schedule<T>() -> Schedule<T> {
    Schedule::new(Bounds::default(), Priorities::default()).expect("the usual terms")
}

fn push<T>(schedule: &mut Schedule<T>, entry: FairRequest<'_>, item: T) -> WaiterId {
    let pushed = schedule.push(&entry, Timestamp::MAX, item);
    pushed.expect("there is room")
}

/// The next one, which is admitted and costs what it was thought to.
fn serve<T>(schedule: &mut Schedule<T>) -> Option<(u64, T)> {
    match schedule.pop(NOW)? {
        Popped::Head(head, item) => {
            let started = schedule.admit(head);
            let cost = started.cost();
            schedule.settle(started, cost);
            Some((cost, item))
        }
        Popped::Late(_) => panic!("nothing is late"),
    }
}

/// What is done to a schedule.
#[derive(Clone, Debug)]
enum Deed {
    Push {
        flow: usize,
        cost: u64,
        priority: u8,
    },
    /// It costs so many percent of what it was thought to, or is given back.
    Serve {
        percent: u64,
    },
    GiveBack,
    Cancel(prop::sample::Index),
}

fn deed() -> impl Strategy<Value = Deed> {
    let push = (0..FLOWS.len(), 1..=LARGEST, 0..PRIORITIES as u8);
    prop_oneof![
        4 => push.prop_map(|(flow, cost, priority)| Deed::Push { flow, cost, priority }),
        3 => (0..400_u64).prop_map(|percent| Deed::Serve { percent }),
        1 => Just(Deed::GiveBack),
        1 => any::<prop::sample::Index>().prop_map(Deed::Cancel),
    ]
}

fn priorities() -> impl Strategy<Value = Priorities> {
    let weights = proptest::array::uniform8(1..=MAX_WEIGHT);
    prop_oneof![
        weights.prop_map(Priorities::Weighted),
        (0..5_000_u64).prop_map(|starve_for| Priorities::Strict { starve_for }),
    ]
}

proptest! {
    /// Whoever waits is served as soon as somebody asks who is next, whatever was done before;
    /// each request comes out once, in its flow's order, and in the end nothing is left.
    #[test]
    fn it_is_work_conserving_and_keeps_the_order_of_each_flow(
        priorities in priorities(),
        deeds in vec(deed(), 1..200),
    ) {
        let mut schedule = Schedule::new(Bounds::default(), priorities).unwrap();
        let mut model: BTreeMap<(usize, u8), VecDeque<usize>> = BTreeMap::new();
        let mut tickets = Vec::new();
        let mut waiting = 0;
        let drain = std::iter::repeat_n(Deed::Serve { percent: 100 }, deeds.len());
        for (number, deed) in deeds.into_iter().chain(drain).enumerate() {
            match deed {
                Deed::Push { flow, cost, priority } => {
                    let entry = FairRequest::of(FLOWS[flow]).cost(cost).priority(priority);
                    let ticket = push(&mut schedule, entry, (flow, priority, number));
                    tickets.push((ticket, flow, priority, number));
                    model.entry((flow, priority)).or_default().push_back(number);
                    waiting += 1;
                }
                Deed::Cancel(index) if !tickets.is_empty() => {
                    let (ticket, flow, priority, number) = tickets.swap_remove(index.index(tickets.len()));
                    let queue = model.entry((flow, priority)).or_default();
                    let waits = queue.contains(&number);
                    queue.retain(|one| *one != number);
                    prop_assert_eq!(schedule.cancel(ticket).is_some(), waits);
                    waiting -= usize::from(waits);
                }
                Deed::Cancel(_) => {}
                Deed::Serve { .. } | Deed::GiveBack => match schedule.pop(NOW) {
                    Some(Popped::Head(head, (flow, priority, number))) => {
                        let first = model.entry((flow, priority)).or_default().pop_front();
                        prop_assert_eq!(first, Some(number));
                        waiting -= 1;
                        match deed {
                            Deed::Serve { percent } => {
                                let cost = head.cost();
                                let started = schedule.admit(head);
                                schedule.settle(started, cost * percent / 100);
                            }
                            _ => schedule.give_back(head),
                        }
                    }
                    Some(Popped::Late(_)) => prop_assert!(false, "nothing is late"),
                    None => prop_assert_eq!(waiting, 0, "somebody waits, and nobody is next"),
                },
            }
            prop_assert_eq!(schedule.waiting(), waiting);
            prop_assert_eq!(schedule.heads(), 0);
        }
        prop_assert_eq!(waiting, 0);
    }

    /// Of flows that have requests all the time, none gets more than another, by weight, than
    /// the largest request of each: the bound of start-time fair queueing. With so many
    /// requests that are not settled, each of them may be one such request more.
    #[test]
    fn shares_are_by_weight_within_the_largest_requests(
        weights in vec(1..=20_u32, 2..5),
        costs in vec((1..=LARGEST, 0..=LARGEST), 200),
        most_unsettled in 0..6_usize,
    ) {
        let mut schedule = schedule();
        let mut charged = vec![0_u64; weights.len()];
        let mut unsettled = VecDeque::new();
        for (turn, &(cost, used)) in costs.iter().cycle().take(600).enumerate() {
            // Each flow has requests all the time: its own, of different costs.
            let rounds = if turn == 0 { 2 } else { 1 };
            for (flow, weight) in weights.iter().enumerate().cycle().take(weights.len() * rounds) {
                let entry = FairRequest::of(FLOWS[flow]).cost(cost).weight(*weight);
                push(&mut schedule, entry, (flow, used));
            }
            let Some(Popped::Head(head, (flow, used))) = schedule.pop(NOW) else {
                panic!("all wait");
            };
            charged[flow] += head.cost();
            unsettled.push_back((flow, schedule.admit(head), used));
            while unsettled.len() > most_unsettled {
                let (flow, started, used) = unsettled.pop_front().unwrap();
                charged[flow] = charged[flow] - started.cost() + used;
                schedule.settle(started, used);
            }
            let largest = (1 + most_unsettled as u64) * LARGEST;
            for (one, other) in (0..weights.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                let share = |flow: usize| charged[flow] as f64 / f64::from(weights[flow]);
                let bound = |flow: usize| largest as f64 / f64::from(weights[flow]);
                let apart = (share(one) - share(other)).abs();
                prop_assert!(apart <= bound(one) + bound(other) + 1.0, "{apart}: {charged:?} {weights:?}");
            }
        }
    }

    /// A flow that comes anew waits for no more of each other flow than that one's share of what
    /// it brings, and one largest request: whatever backlog they have, and whatever they send.
    #[test]
    fn nobody_waits_longer_than_the_stated_bound(
        before in vec((0..4_usize, 1..=LARGEST), 0..300),
        served in 0..300_usize,
        weights in vec(1..=20_u32, 5),
        own in vec(1..=LARGEST, 1..6),
        after in vec((0..4_usize, 1..=LARGEST), 1..200),
    ) {
        let mut schedule = schedule();
        let entry = |flow: usize, cost| FairRequest::of(FLOWS[flow]).cost(cost).weight(weights[flow]);
        for (flow, cost) in before {
            push(&mut schedule, entry(flow, cost), flow);
        }
        for _ in 0..served {
            serve(&mut schedule);
        }
        for cost in &own {
            push(&mut schedule, entry(4, *cost), 4);
        }
        let (mut others, mut mine) = (0_u64, VecDeque::from(own));
        let mut ahead = 0_u64;
        let mut after = after.into_iter().cycle();
        while !mine.is_empty() {
            let (flow, cost) = after.next().unwrap();
            push(&mut schedule, entry(flow, cost), flow);
            match serve(&mut schedule).expect("somebody waits") {
                (_, 4) => {
                    let shares = (0..4).map(|flow| f64::from(weights[flow]) / f64::from(weights[4]));
                    let bound: f64 = shares.map(|share| share * ahead as f64 + LARGEST as f64).sum();
                    prop_assert!(others as f64 <= bound + 1.0, "{others} passed, {bound} may");
                    ahead += mine.pop_front().unwrap();
                }
                (cost, _) => others += cost,
            }
        }
    }

    /// Of strict priorities, one that waits is passed over by so much as is stated, and one
    /// largest request of each priority, whatever the limits refuse meanwhile.
    #[test]
    fn no_priority_starves(
        starve_for in 0..20_000_u64,
        traffic in vec((0..PRIORITIES as u8, 1..=LARGEST, prop::bool::weighted(0.2)), 1..100),
    ) {
        let strict = Priorities::Strict { starve_for };
        let mut schedule = Schedule::new(Bounds::default(), strict).unwrap();
        let mut passed = [0_u64; PRIORITIES];
        for priority in 0..PRIORITIES as u8 {
            let entry = FairRequest::of("a").cost(LARGEST).priority(priority);
            for _ in 0..2 {
                push(&mut schedule, entry, priority);
            }
        }
        for (priority, cost, is_refused) in traffic.into_iter().cycle().take(600) {
            // The most urgent would always be served.
            let urgent = PRIORITIES as u8 - 1;
            push(&mut schedule, FairRequest::of("flood").cost(cost).priority(urgent), urgent);
            push(&mut schedule, FairRequest::of("b").cost(cost).priority(priority), priority);
            if is_refused && let Some(Popped::Head(head, priority)) = schedule.pop(NOW) {
                // The limits refuse it: nothing has started, and nobody was served.
                schedule.give_back(head);
                push(&mut schedule, FairRequest::of("a").cost(LARGEST).priority(priority), priority);
            }
            let (cost, served) = serve(&mut schedule).expect("all wait");
            push(&mut schedule, FairRequest::of("a").cost(LARGEST).priority(served), served);
            for (priority, passed) in passed.iter_mut().enumerate() {
                *passed = if priority == usize::from(served) { 0 } else { *passed + cost };
                prop_assert!(*passed <= starve_for + PRIORITIES as u64 * LARGEST);
            }
        }
    }

    /// Weighted priorities share as flows do: of those that have requests all the time, none gets
    /// more than another, by weight, than the largest request of each.
    #[test]
    fn priorities_share_by_weight_within_the_largest_requests(
        weights in proptest::array::uniform8(1..=50_u32),
        traffic in vec((1..=LARGEST, 0..FLOWS.len()), 1..100),
    ) {
        let weighted = Priorities::Weighted(weights);
        let mut schedule = Schedule::new(Bounds::default(), weighted).unwrap();
        let mut served = [0_u64; PRIORITIES];
        for (cost, flow) in traffic.into_iter().cycle().take(400) {
            for priority in 0..PRIORITIES as u8 {
                let entry = FairRequest::of(FLOWS[flow]).cost(cost).priority(priority);
                push(&mut schedule, entry, usize::from(priority));
            }
            let (cost, priority) = serve(&mut schedule).expect("all wait");
            served[priority] += cost;
            let share = |priority: usize| served[priority] as f64 / f64::from(weights[priority]);
            let largest = |priority: usize| LARGEST as f64 / f64::from(weights[priority]);
            for one in 0..PRIORITIES {
                let apart = (share(one) - share(priority)).abs();
                prop_assert!(apart <= largest(one) + largest(priority) + 1.0, "{served:?} {weights:?}");
            }
        }
    }

    /// When one leaves, the others keep their order among themselves, and so does its flow.
    #[test]
    fn a_request_that_leaves_changes_nobodys_order(
        pushes in vec((0..FLOWS.len(), 1..=LARGEST, 0..3_u8), 2..60),
        leaves in any::<prop::sample::Index>(),
        served_before in 0..10_usize,
    ) {
        let leaver = leaves.index(pushes.len());
        let run = |leaver: Option<usize>| {
            let mut schedule = schedule();
            let pushed: Vec<WaiterId> = pushes.iter().enumerate().map(|(number, (flow, cost, priority))| {
                push(&mut schedule, FairRequest::of(FLOWS[*flow]).cost(*cost).priority(*priority), number)
            }).collect();
            let mut order: Vec<usize> = (0..served_before)
                .filter_map(|_| serve(&mut schedule)).map(|(_, number)| number).collect();
            let left = leaver.and_then(|leaver| schedule.cancel(pushed[leaver]));
            order.extend(std::iter::from_fn(|| serve(&mut schedule)).map(|(_, number)| number));
            (order, left)
        };
        let (without, _) = run(None);
        let (with, left) = run(Some(leaver));
        prop_assert_eq!(left.is_some(), !with.contains(&leaver));
        let of = |number: &usize| (pushes[*number].0, pushes[*number].2);
        let others = |order: &[usize]| -> Vec<usize> {
            order.iter().copied().filter(|one| of(one).1 == of(&leaver).1 && of(one) != of(&leaver)).collect()
        };
        prop_assert_eq!(others(&with), others(&without), "the order of the others");
        for flow in 0..FLOWS.len() {
            let of_flow = |order: &[usize]| -> Vec<usize> {
                order.iter().copied().filter(|one| of(one).0 == flow && Some(*one) != left).collect()
            };
            for priority in 0..3 {
                let alone = |order: &[usize]| -> Vec<usize> {
                    of_flow(order).into_iter().filter(|one| of(one).1 == priority).collect()
                };
                prop_assert_eq!(alone(&with), alone(&without), "the order within a flow");
            }
        }
    }

    /// What was given back is as if it had never been charged.
    #[test]
    fn a_request_that_the_limits_refuse_costs_its_flow_nothing(
        refused in 1..50_usize, cost in 1..=LARGEST,
    ) {
        let mut schedule = schedule();
        for _ in 0..refused {
            push(&mut schedule, FairRequest::of("a").cost(cost), "a");
        }
        push(&mut schedule, FairRequest::of("b").cost(cost), "b");
        for _ in 0..2 {
            push(&mut schedule, FairRequest::of("a").cost(cost), "a");
        }
        let mut given_back = 0;
        while given_back < refused {
            match schedule.pop(NOW) {
                Some(Popped::Head(head, "a")) => {
                    schedule.give_back(head);
                    given_back += 1;
                }
                Some(Popped::Head(head, _)) => prop_assert!(false, "before one that has had nothing: {head:?}"),
                _ => prop_assert!(false),
            }
            prop_assert_eq!(schedule.heads(), 0);
        }
        let order: Vec<&str> = std::iter::from_fn(|| serve(&mut schedule)).map(|(_, flow)| flow).collect();
        prop_assert_eq!(order, ["b", "a", "a"]);
    }
}

#[test]
fn a_flow_that_waits_for_something_of_its_own_is_in_nobodys_way() {
    let mut schedule = schedule();
    for flow in ["a", "a", "b", "b"] {
        push(&mut schedule, FairRequest::of(flow).cost(10), flow);
    }
    let Some(Popped::Head(mut head, "a")) = schedule.pop(NOW) else {
        panic!("a came first");
    };
    schedule.step_aside(&mut head);
    assert_eq!(schedule.heads(), 0);
    assert_eq!(serve(&mut schedule), Some((10, "b")));
    assert_eq!(serve(&mut schedule), Some((10, "b")));
    assert_eq!(
        schedule.pop(NOW),
        None,
        "the rest of its flow waits behind it"
    );
    let started = schedule.admit(head);
    assert_eq!(serve(&mut schedule), Some((10, "a")));
    schedule.settle(started, 10);
    assert_eq!((schedule.waiting(), schedule.flows()), (0, 0));
}

#[test]
fn what_is_late_is_told_so_and_costs_nothing() {
    let mut schedule = schedule();
    let at = Timestamp::from_micros;
    let early = schedule.push(&FairRequest::of("a"), at(10), 1);
    assert!(early.is_ok());
    assert!(schedule.push(&FairRequest::of("a"), at(20), 2).is_ok());
    assert_eq!(schedule.pop(at(11)), Some(Popped::Late(1)));
    assert!(
        matches!(schedule.pop(at(20)), Some(Popped::Head(_, 2))),
        "at the very instant it counts"
    );
}

/// Each bound is told to the one that meets it, and nobody else notices.
#[test]
fn bounds_are_errors_of_those_who_meet_them() {
    let bounds = Bounds {
        flows: 2,
        waiting: 4,
        waiting_of_flow: 2,
    };
    let mut schedule = Schedule::new(bounds, Priorities::default()).unwrap();
    let mut push =
        |flow: &str| schedule.push(&FairRequest::of(flow), Timestamp::MAX, flow.to_owned());
    assert!(push("a").is_ok() && push("a").is_ok());
    assert_eq!(push("a"), Err(FairError::FlowFull(2)));
    assert!(push("b").is_ok());
    assert_eq!(push("c"), Err(FairError::FlowsFull(2)));
    assert!(push("b").is_ok());
    assert_eq!(push("c"), Err(FairError::QueueFull(4)));
    let order: Vec<String> = std::iter::from_fn(|| serve(&mut schedule))
        .map(|(_, flow)| flow)
        .collect();
    assert_eq!(order, ["a", "b", "a", "b"]);
    assert_eq!(schedule.flows(), 0);
}

/// A flow that owes something and does nothing gives way to one that comes.
#[test]
fn what_is_owed_keeps_nobody_out() {
    let bounds = Bounds {
        flows: 2,
        ..Bounds::default()
    };
    let mut schedule = Schedule::new(bounds, Priorities::default()).unwrap();
    push(&mut schedule, FairRequest::of("a"), "a");
    let Some(Popped::Head(head, _)) = schedule.pop(NOW) else {
        panic!("a waits");
    };
    let started = schedule.admit(head);
    push(&mut schedule, FairRequest::of("b"), "b");
    schedule.settle(started, 1_000);
    assert_eq!(schedule.flows(), 2, "a is remembered for what it owes");
    push(&mut schedule, FairRequest::of("c"), "c");
    assert_eq!(schedule.flows(), 2);
}

/// A call of a flow was settled for less when its charge was forgiven already: what it got back was
/// what the flow had been charged since, and it was served before others once more.
#[test]
fn what_was_forgiven_is_not_given_back_once_more() {
    let mut schedule = schedule();
    push(&mut schedule, FairRequest::of("a").cost(1_000), "a");
    let Some(Popped::Head(head, _)) = schedule.pop(NOW) else {
        panic!("it waits");
    };
    let unsettled = schedule.admit(head);
    // Others have as much, while nothing of `a` waits.
    for _ in 0..3 {
        push(&mut schedule, FairRequest::of("b").cost(1_000), "b");
    }
    assert_eq!(serve(&mut schedule), Some((1_000, "b")));
    assert_eq!(serve(&mut schedule), Some((1_000, "b")));
    for _ in 0..3 {
        push(&mut schedule, FairRequest::of("a").cost(1_000), "a");
        push(&mut schedule, FairRequest::of("b").cost(1_000), "b");
    }
    assert_eq!(serve(&mut schedule), Some((1_000, "a")));
    schedule.settle(unsettled, 0);
    let order: Vec<&str> = (0..4)
        .filter_map(|_| serve(&mut schedule))
        .map(|(_, flow)| flow)
        .collect();
    assert_eq!(order, ["b", "a", "b", "a"], "each in its turn");
}

/// What stood at the limits and was refused counted as started: a priority that waited was called
/// as if others had passed it.
#[test]
fn what_the_limits_refuse_has_passed_nobody() {
    let strict = Priorities::Strict { starve_for: 1_000 };
    let mut schedule = Schedule::new(Bounds::default(), strict).unwrap();
    let urgent = FairRequest::of("a").cost(1_000).priority(7);
    let refuse = |schedule: &mut Schedule<&'static str>| match schedule.pop(NOW) {
        Some(Popped::Head(head, item)) => {
            schedule.give_back(head);
            item
        }
        other => panic!("{other:?}"),
    };
    for _ in 0..2 {
        push(&mut schedule, FairRequest::of("b"), "waits");
    }
    for _ in 0..6 {
        push(&mut schedule, urgent, "urgent");
    }
    for _ in 0..3 {
        assert_eq!(refuse(&mut schedule), "urgent", "nothing has started");
    }
    assert_eq!(serve(&mut schedule), Some((1_000, "urgent")));
    assert_eq!(refuse(&mut schedule), "waits", "so much has passed it");
    assert_eq!(
        refuse(&mut schedule),
        "waits",
        "none of its priority was served"
    );
    assert_eq!(refuse(&mut schedule), "urgent");
}

#[test]
fn what_makes_no_sense_is_an_error_and_changes_nothing() {
    let mut schedule = schedule();
    let mut push = |entry: FairRequest<'_>| schedule.push(&entry, Timestamp::MAX, ()).unwrap_err();
    assert_eq!(push(FairRequest::of("a").cost(0)), FairError::Cost(0));
    assert_eq!(
        push(FairRequest::of("a").cost(1 << 53)),
        FairError::Cost(1 << 53)
    );
    assert_eq!(push(FairRequest::of("a").weight(0)), FairError::Weight(0));
    assert_eq!(
        push(FairRequest::of("a").weight(MAX_WEIGHT + 1)),
        FairError::Weight(MAX_WEIGHT + 1)
    );
    assert_eq!(
        push(FairRequest::of("a").priority(8)),
        FairError::Priority(8)
    );
    assert!(matches!(push(FairRequest::of("")), FairError::Decision(_)));
    assert_eq!((schedule.waiting(), schedule.flows()), (0, 0));
    let none = Priorities::Weighted([1, 1, 1, 0, 1, 1, 1, 1]);
    let none = Schedule::<()>::new(Bounds::default(), none);
    assert_eq!(none.unwrap_err(), FairError::Weight(0));
}
