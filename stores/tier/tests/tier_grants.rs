//! What a node decides by its grants, and what it asks its store for.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::{Central, Node, SECOND, START, Wire, bucket, command, plan, span, told, window};
use tidegate_store::core::{Bounds, Rule, Timestamp, Verdict};
use tidegate_store::{
    Answer, Command, Detail, KeyPath, Listing, Op, Out, OwnedKey, Plan, Reply, Select, StoreError,
    Table, Timer, Verb,
};
use tidegate_tier::Tier;

const HOUR: u64 = 3_600 * SECOND;

/// A limit of an hour's window, and a node whose batch is 100.
fn hourly(capacity: u64, tier: Tier) -> (Arc<Central>, Node) {
    let plan = plan(0, 1, &[(0, window(capacity, HOUR))]);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, tier, 0);
    (central, node)
}

/// Grants are asked for only where a request finds too little.
fn on_demand(batch: u64) -> Tier {
    Tier::leased(batch).low_water(0)
}

fn ask(node: &Node, op: Op<'_>) -> Answer {
    let mut answer = Ok(Reply::Done);
    let command = command(&node.plan, node.clock.now(), op);
    let execution = node.table.execute(&command, Out::new(&mut answer));
    assert!(execution.is_ready());
    answer
}

#[test]
fn one_trip_serves_a_batch() {
    let (_, node) = hourly(10_000, on_demand(100));
    for _ in 0..100 {
        assert!(node.admits(b"k", &[1]));
    }
    assert_eq!(node.trips(), 1);
    assert!(node.admits(b"k", &[1]));
    assert_eq!(node.trips(), 2);
    let counted = node.table.statistics();
    assert_eq!(
        (counted.admitted, counted.granted, counted.keys),
        (101, 2, 1)
    );
}

#[test]
fn a_window_admits_its_capacity_and_its_last_unit_whatever_the_costs() {
    for cost in [1, 3, 7, 100, 101] {
        let (central, node) = hourly(1_000, on_demand(100));
        let admitted = (0..2_000).filter(|_| node.admits(b"k", &[cost])).count() as u64;
        assert!(
            admitted * cost <= 1_000 && (admitted + 3) * cost > 1_000,
            "cost {cost}"
        );
        // What no request of that cost can use goes back, and is there for others.
        node.clock.pass(3 * SECOND);
        let left = 1_000 - admitted * cost;
        assert_eq!(central.left(&node.plan, b"k"), [left], "cost {cost}");
        for _ in 0..left {
            assert!(node.admits(b"k", &[1]), "cost {cost}");
        }
        assert!(!node.admits(b"k", &[1]));
    }
}

#[test]
fn a_request_larger_than_the_batch_is_the_stores() {
    let (central, node) = hourly(1_000, on_demand(100));
    assert!(node.admits(b"k", &[101]) && node.admits(b"k", &[899]));
    assert_eq!((node.grants(), node.trips()), (0, 2));
    let never = node.take(b"k", &[1_001]).expect("an answer");
    assert_eq!(never.verdict, Verdict::Never);
    assert_eq!(central.left(&node.plan, b"k"), [0]);
}

/// Requests that found no grant used to ask for one each: 200 of them took 200 batches.
#[test]
fn requests_that_come_at_once_ask_for_one_grant_at_a_time_and_all_are_told() {
    let (_, node) = hourly(10_000, on_demand(100));
    node.link.set(Wire::HoldsAnswers);
    let mut waiting: Vec<_> = (0..200).map(|_| node.begin(b"k", &[1])).collect();
    assert_eq!((node.grants(), node.link.held()), (1, 1));
    while node.link.deliver() > 0 {
        assert!(node.link.held() <= 1);
    }
    assert!(node.grants() <= 3, "{}", node.grants());
    for later in &mut waiting {
        let answer = told(later)
            .expect("nobody is forgotten")
            .expect("an answer");
        assert_eq!(answer.verdict(), Some(Verdict::Admit));
    }
}

#[test]
fn a_grant_whose_request_went_away_serves_those_who_wait_still() {
    let (_, node) = hourly(10_000, on_demand(2));
    node.link.set(Wire::HoldsAnswers);
    let first = node.begin(b"k", &[1]);
    let mut second = node.begin(b"k", &[2]);
    drop(first);
    node.link.deliver();
    let answer = told(&mut second).expect("it is told").expect("an answer");
    assert_eq!(answer.verdict(), Some(Verdict::Admit));
    assert_eq!(node.grants(), 1, "the one who left took nothing");
}

#[test]
fn a_node_spends_nothing_after_the_window_ended_that_was_charged() {
    let plan = plan(0, 1, &[(0, window(10, SECOND))]);
    let central = Central::new(&plan);
    // Whatever its clock on the wall says.
    for ahead in [0, 3_600_000_000, -3_600_000_000] {
        let node = Node::new(&central, &plan, on_demand(5), ahead);
        let key = ahead.to_string();
        assert!(node.admits(key.as_bytes(), &[1]));
        assert_eq!(node.grants(), 1);
        // A thousandth before the end it is over already.
        for (past, grants) in [(998_900, 1), (200, 2)] {
            node.clock.pass(past);
            central.clock.pass(past);
            assert!(node.admits(key.as_bytes(), &[1]));
            assert_eq!(node.grants(), grants, "{past}");
        }
        central.clock.pass(2 * SECOND - 999_100);
        node.clock.pass(2 * SECOND - 999_100);
    }
}

#[test]
fn a_node_whose_clock_loses_a_thousandth_spends_nothing_of_a_window_that_is_over() {
    let plan = plan(0, 1, &[(0, window(10, 10 * SECOND))]);
    let central = Central::new(&plan);
    let long = std::time::Duration::from_secs(60);
    let tier = || on_demand(4).hold(long).idle(long);
    let (slow, other) = (
        Node::new(&central, &plan, tier(), 0),
        Node::new(&central, &plan, tier(), 0),
    );
    assert!(slow.admits(b"k", &[1]));
    // A window begins with the histories. When it ends, the clock of one shows that ten
    // milliseconds of it are left.
    assert_eq!(START as u64 % (10 * SECOND), 0);
    central.clock.pass(10 * SECOND);
    other.clock.pass(10 * SECOND);
    slow.clock.pass(10 * SECOND * 999 / 1_000);
    let by_the_other = (0..20).filter(|_| other.admits(b"k", &[1])).count();
    let by_the_slow = (0..20).filter(|_| slow.admits(b"k", &[1])).count();
    assert_eq!((by_the_other, by_the_slow), (10, 0));
}

#[test]
fn a_grant_that_comes_late_serves_nobody_and_goes_back() {
    let (central, node) = hourly(100, on_demand(10));
    node.link.set(Wire::HoldsAnswers);
    let mut waits = node.begin(b"k", &[1]);
    // Held for longer than it is good; asked again, three times in all.
    for _ in 0..3 {
        assert!(told(&mut waits).is_none());
        node.clock.pass(SECOND);
        central.clock.pass(SECOND);
        node.link.deliver_at(node.link.held() - 1);
    }
    assert!(matches!(told(&mut waits), Some(Err(StoreError::Busy(_)))));
    assert_eq!((node.grants(), node.table.statistics().late), (3, 3));
    assert_eq!(node.table.statistics().admitted, 0);
    while node.link.deliver() > 0 {}
    assert_eq!(central.left(&node.plan, b"k"), [100]);
}

#[test]
fn a_refusal_that_comes_late_is_told_once_and_not_asked_for_again() {
    let (central, node) = hourly(10, on_demand(10));
    assert!(node.admits(b"k", &[10]));
    node.link.set(Wire::HoldsAnswers);
    let mut waits = node.begin(b"k", &[1]);
    node.clock.pass(HOUR);
    central.clock.pass(HOUR);
    node.link.deliver();
    let refused = told(&mut waits).expect("told").expect("an answer");
    assert!(matches!(refused.verdict(), Some(Verdict::NotUntil(_))));
    assert_eq!(node.link.held(), 0);
}

#[test]
fn what_is_left_of_two_grants_is_never_added_up() {
    let (central, node) = hourly(10, on_demand(5));
    assert!(node.admits(b"k", &[3]) && node.admits(b"k", &[4]));
    // Of the grants 2 and 1 are left, and nothing at the store.
    assert_eq!(central.left(&node.plan, b"k"), [0]);
    assert!(!node.admits(b"k", &[3]));
    assert!(node.admits(b"k", &[2]) && node.admits(b"k", &[1]));
    assert!(!node.admits(b"k", &[1]));
}

#[test]
fn what_lies_idle_goes_back_where_it_was_charged() {
    let (central, node) = hourly(1_000, on_demand(100));
    assert!(node.admits(b"k", &[1]));
    assert_eq!(central.left(&node.plan, b"k"), [900]);
    node.clock.pass(2 * SECOND);
    central.clock.pass(2 * SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [999]);
    node.clock.pass(2 * SECOND);
    assert_eq!(node.table.statistics().keys, 0, "and the key is forgotten");
}

#[test]
fn a_node_that_stops_gives_all_back() {
    let (central, node) = hourly(1_000, on_demand(100));
    for key in [b"a", b"b"] {
        assert!(node.admits(key, &[1]));
    }
    node.link.set(Wire::HoldsAnswers);
    let waits = node.begin(b"c", &[1]);
    let (link, plan) = (Arc::clone(&node.link), Arc::clone(&node.plan));
    drop((waits, node));
    while link.deliver() > 0 {}
    for (key, left) in [(b"a", 999), (b"b", 999), (b"c", 1_000)] {
        assert_eq!(central.left(&plan, key), [left]);
    }
}

#[test]
fn a_killed_node_strands_at_most_what_it_held() {
    let (central, node) = hourly(1_000, on_demand(100));
    assert!(node.admits(b"k", &[1]));
    node.link.set(Wire::Cut);
    drop(node);
    let other = Node::new(
        &central,
        &plan(0, 1, &[(0, window(1_000, HOUR))]),
        on_demand(100),
        0,
    );
    let admitted = (0..2_000).filter(|_| other.admits(b"k", &[1])).count();
    assert_eq!(admitted, 900);
}

/// With partial answers a low-water mark used to ask again and again.
#[test]
fn the_next_grant_is_on_its_way_before_one_is_needed_and_asked_for_once() {
    let (_, node) = hourly(130, Tier::leased(100).low_water(20));
    for _ in 0..80 {
        assert!(node.admits(b"k", &[1]));
    }
    assert_eq!(node.grants(), 1);
    // 19 are left: the next brings 30, which is all there is.
    assert!(node.admits(b"k", &[1]));
    assert_eq!(node.grants(), 2);
    for _ in 81..130 {
        assert!(node.admits(b"k", &[1]));
    }
    assert_eq!(
        node.grants(),
        2,
        "a partial grant says that there is no more"
    );
    assert!(!node.admits(b"k", &[1]));
    assert_eq!(node.grants(), 3);
}

#[test]
fn a_refusal_is_remembered_for_as_long_as_was_said_and_no_longer() {
    let (central, node) = hourly(10, on_demand(10));
    let other = Node::new(&central, &node.plan, on_demand(10), 0);
    assert!(other.admits(b"k", &[1]));
    let refused = node.take(b"k", &[2]).expect("an answer");
    let Verdict::NotUntil(at) = refused.verdict else {
        panic!("{refused:?}");
    };
    assert!(at > node.clock.now() && at <= node.clock.now() + span(HOUR));
    for _ in 0..50 {
        assert!(!node.admits(b"k", &[2]) && !node.admits(b"k", &[3]));
    }
    assert_eq!(node.trips(), 1);
    // The other's units come back, and this one hears of it within the second.
    for clock in [&other.clock, &central.clock, &node.clock] {
        clock.pass(2 * SECOND);
    }
    assert!(node.admits(b"k", &[9]));
    assert!(!node.admits(b"k", &[1]));
}

#[test]
fn several_limits_and_ancestors_are_granted_in_one_trip_all_or_none() {
    let rules = [
        (0, window(1_000, HOUR)),
        (0, bucket(10, 50)),
        (1, window(30, HOUR)),
    ];
    let plan = plan(0, 2, &rules);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, on_demand(20), 0);
    for _ in 0..20 {
        assert!(node.admits(b"a/x", &[1, 1, 1]));
    }
    assert_eq!(node.trips(), 1);
    assert_eq!(central.left(&plan, b"a/x"), [980, 30, 10]);
    // Of the key's own window 10 are left, and that is what both others give.
    for _ in 0..10 {
        assert!(node.admits(b"a/x", &[1, 1, 1]));
    }
    let refused = node.take(b"a/x", &[1, 1, 1]).expect("an answer");
    assert_eq!(refused.binding, Some(2));
    // What this key cannot use any more of its ancestor's is there for others at once.
    assert_eq!(central.left(&plan, b"a/x"), [970, 20, 0]);
    // An ancestor by itself takes of its own level alone.
    assert!(node.admits(b"a", &[5, 5, 5]));
    // It holds the rest of the rate for as long as it is said to.
    assert!(!node.admits(b"a/y", &[1, 1, 1]));
    for clock in [&node.clock, &central.clock] {
        clock.pass(2 * SECOND);
    }
    assert!(node.admits(b"a/y", &[1, 1, 1]));
}

#[test]
fn a_limit_that_requests_leave_out_is_not_taken_in_advance() {
    let plan = plan(0, 1, &[(0, window(1_000, HOUR)), (0, window(500, HOUR))]);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, on_demand(100), 0);
    assert!(node.admits(b"k", &[1, 0]));
    assert_eq!(central.left(&plan, b"k"), [900, 500]);
    assert!(node.admits(b"k", &[1, 1]));
    assert_eq!(central.left(&plan, b"k"), [800, 400]);
}

#[test]
fn in_an_outage_grants_are_spent_to_their_end_and_then_the_store_cannot_tell() {
    let (central, node) = hourly(1_000, on_demand(10));
    assert!(node.admits(b"k", &[1]));
    node.link.set(Wire::Cut);
    for _ in 0..9 {
        assert!(node.admits(b"k", &[1]));
    }
    let away = node.take(b"k", &[1]);
    assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    node.link.set(Wire::Open);
    assert!(node.admits(b"k", &[1]));
    node.clock.pass(2 * SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [989]);
}

#[test]
fn a_grant_whose_answer_was_lost_is_given_back_once_the_store_answers() {
    let (central, node) = hourly(1_000, on_demand(100));
    node.link.set(Wire::LosesAnswers);
    assert!(node.take(b"k", &[1]).is_err());
    assert_eq!(central.left(&node.plan, b"k"), [900]);
    node.clock.pass(SECOND);
    // That answer is lost, too; the end was done all the same, and is asked for again.
    node.link.set(Wire::Open);
    node.clock.pass(SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [1_000]);
    node.clock.pass(5 * SECOND);
    assert_eq!(node.table.statistics().keys, 0);
}

#[test]
fn a_batch_is_decided_by_what_is_here_and_the_rest_is_one_trip() {
    let (_, node) = hourly(1_000, on_demand(10));
    assert!(node.admits(b"a", &[1]));
    let take = Verb::Take {
        amounts: &[1],
        lease: None,
        detail: Detail::Verdict,
    };
    let path = |key| KeyPath::new(key, 1).expect("a key");
    let items: Vec<_> = [b"b", b"a", b"c", b"a", b"b"]
        .map(|key| (path(key), take))
        .to_vec();
    let before = node.trips();
    let Ok(Reply::Batch(answers)) = ask(&node, Op::Batch(&items)) else {
        panic!("no batch");
    };
    assert_eq!(answers.len(), 5);
    for answer in answers {
        assert_eq!(answer.expect("an answer").verdict(), Some(Verdict::Admit));
    }
    assert_eq!(node.trips(), before + 1);
    let mine = [(path(b"a"), take); 3];
    assert!(matches!(ask(&node, Op::Batch(&mine)), Ok(Reply::Batch(all)) if all.len() == 3));
    assert_eq!(node.trips(), before + 1);
}

#[test]
fn grants_are_no_leases_that_anybody_lists_and_a_peek_is_the_stores() {
    let (_, node) = hourly(1_000, on_demand(10));
    assert!(node.admits(b"k", &[1]));
    let listing = Listing {
        select: Select::All,
        after: None,
        most: 10,
        now: node.clock.now(),
        levels: 1,
    };
    let Ok(Reply::Leases(page)) = ask(&node, Op::ListLeases(listing)) else {
        panic!("no page");
    };
    assert!(page.items.is_empty());
    let peek = Verb::Peek { amounts: &[1] };
    let peeked = ask(&node, Op::One(KeyPath::new(b"k", 1).expect("a key"), peek));
    let decision = peeked.and_then(Reply::decision).expect("a decision");
    assert_eq!(decision.standings[0].expect("a limit").remaining, 990);
    // What a check is told counts what this node has left.
    let told = node.take(b"k", &[1]).expect("an answer");
    assert_eq!(told.standings[0].expect("a limit").remaining, 998);
}

#[test]
fn a_reset_key_spends_nothing_that_was_taken_before() {
    let (central, node) = hourly(100, on_demand(10));
    assert!(node.admits(b"k", &[4]));
    let reset = Op::One(KeyPath::new(b"k", 1).expect("a key"), Verb::Reset);
    ask(&node, reset).expect("it is forgotten");
    assert_eq!(central.left(&node.plan, b"k"), [100]);
    let admitted = (0..200).filter(|_| node.admits(b"k", &[1])).count();
    assert_eq!(admitted, 100);
}

/// The same node by other limits.
fn by(mut node: Node, plan: &Arc<Plan>) -> Node {
    node.plan = Arc::clone(plan);
    ask(&node, Op::Adopt).expect("it is adopted");
    node
}

fn version(version: u64, rule: Rule) -> Arc<Plan> {
    plan(version, 1, &[(0, rule)])
}

#[test]
fn a_refusal_by_older_limits_that_lands_after_the_change_refuses_nobody() {
    let (_, mut node) = hourly(1, on_demand(1));
    assert!(node.admits(b"k", &[1]));
    node.link.set(Wire::HoldsAnswers);
    let mut old = node.begin(b"k", &[1]);
    node.plan = version(1, window(20, HOUR));
    let mut new = node.begin(b"k", &[1]);
    node.link.set(Wire::Open);
    node.link.deliver();
    assert_eq!(told(&mut old), Some(Err(StoreError::StalePlan)));
    let new = told(&mut new).expect("it is told").expect("an answer");
    assert_eq!(new.verdict(), Some(Verdict::Admit));
}

#[test]
fn limits_that_change_bind_at_the_next_decision_and_a_raised_one_delays_nobody() {
    let (central, node) = hourly(100, on_demand(50));
    assert!(node.admits(b"k", &[1]));
    let lowered = version(1, window(20, HOUR));
    let node = by(node, &lowered);
    // What was granted by the old limits goes back: 1 of 20 is used.
    let admitted = (0..200).filter(|_| node.admits(b"k", &[1])).count();
    assert_eq!(admitted, 19);
    let node = by(node, &version(2, window(1_000, HOUR)));
    assert!(
        node.admits(b"k", &[1]),
        "no refusal of other limits is remembered"
    );
    assert_eq!(central.left(&node.plan, b"k"), [1_000 - 20 - 50]);
}

#[test]
fn a_key_that_is_given_limits_of_its_own_goes_by_them_and_others_keep_their_grants() {
    let (_, node) = hourly(100, on_demand(50));
    assert!(node.admits(b"k", &[1]) && node.admits(b"other", &[1]));
    let before = node.trips();
    let own =
        |limit: &tidegate_store::PlanLimit| Some(limit.rule.with_capacity(5).expect("a capacity"));
    let variant = Arc::new(node.plan.variant(own));
    let overrides = [(OwnedKey::new(b"k"), variant)].into_iter().collect();
    let plan = Arc::new(node.plan.going_on(1, overrides));
    let node = by(node, &plan);
    let admitted = (0..100).filter(|_| node.admits(b"k", &[1])).count();
    assert_eq!(admitted, 4);
    let trips = node.trips();
    assert!(trips > before);
    for _ in 0..49 {
        assert!(node.admits(b"other", &[1]));
    }
    assert_eq!(node.trips(), trips, "its limits are what they were");
}

#[test]
fn a_grant_of_older_limits_that_lands_after_the_change_is_given_back() {
    let (central, node) = hourly(100, on_demand(50));
    node.link.set(Wire::HoldsAnswers);
    let mut old = node.begin(b"k", &[1]);
    let lowered = version(1, window(20, HOUR));
    let mut node = node;
    node.plan = lowered;
    let mut new = node.begin(b"k", &[1]);
    node.link.set(Wire::Open);
    node.link.deliver();
    assert_eq!(told(&mut old), Some(Err(StoreError::StalePlan)));
    let told = told(&mut new).expect("it is told").expect("an answer");
    assert_eq!(told.verdict(), Some(Verdict::Admit));
    let admitted = (0..100).filter(|_| node.admits(b"k", &[1])).count();
    assert_eq!(admitted, 19);
    assert_eq!(central.left(&node.plan, b"k"), [0]);
}

/// A request for a grant used to be made of an old command, with boundaries of yesterday.
#[test]
fn a_request_whose_calendar_is_over_when_its_turn_comes_is_made_again() {
    let rule = Rule::Window(
        tidegate_store::core::Window::new(10, tidegate_store::core::Align::Calendar)
            .expect("a window"),
    );
    let plan = version(0, rule);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, on_demand(1), 0);
    node.link.set(Wire::HoldsAnswers);
    let end = node.clock.now() + span(SECOND);
    let calendars = [Some(Bounds {
        start: node.clock.now(),
        end,
        next_end: end + span(SECOND),
    })];
    let begin = |now: Timestamp| {
        let verb = Verb::Take {
            amounts: &[1],
            lease: None,
            detail: Detail::Verdict,
        };
        let op = Op::One(KeyPath::new(b"k", 1).expect("a key"), verb);
        let command = Command {
            calendars: &calendars,
            ..command(&plan, now, op)
        };
        let mut answer = Ok(Reply::Done);
        let execution = node.table.execute(&command, Out::new(&mut answer));
        execution.pending().expect("it waits")
    };
    let (_first, mut second) = (begin(node.clock.now()), begin(node.clock.now()));
    node.clock.pass(3 * SECOND);
    central.clock.pass(3 * SECOND);
    node.link.deliver();
    assert_eq!(told(&mut second), Some(Err(StoreError::StalePlan)));
}

#[test]
fn more_keys_than_are_kept_are_the_stores() {
    let plan = plan(0, 1, &[(0, bucket(1_000_000, 1_000_000))]);
    let central = Central::new(&plan);
    let node = Node::new(&central, &plan, on_demand(2), 0);
    for key in 0..65_600_u32 {
        assert!(node.admits(&key.to_be_bytes(), &[1]));
    }
    assert_eq!(node.table.statistics().keys, 65_536);
    assert_eq!((node.grants(), node.trips()), (65_536, 65_600));
    node.clock.pass(3 * SECOND);
    assert_eq!(node.table.statistics().keys, 0);
}

#[test]
fn limits_that_cannot_be_taken_in_advance_are_a_fault_that_says_what_to_do() {
    let slots = tidegate_store::core::Slots::new(1, span(SECOND)).expect("slots");
    let plan = plan(0, 1, &[(0, window(9, HOUR)), (0, Rule::Slots(slots))]);
    let fault = on_demand(5).check_for(&plan).expect_err("a mutex");
    assert_eq!(
        fault.to_string(),
        "the limit `limit 1` is a mutex (a concurrency of 1), whose holders need a fence, and no \
         node gives one: leave `tier` out, or put the limit into a policy of its own"
    );
    let fault = on_demand(5)
        .batch_of("limit 9", 5)
        .check_for(&version(0, window(9, HOUR)));
    assert!(
        fault
            .expect_err("no such limit")
            .to_string()
            .contains("`limit 9`")
    );
    // Added to a set that runs, it has all decided by the store.
    let central = Central::new(&version(0, window(9, HOUR)));
    let node = Node::new(&central, &version(0, window(9, HOUR)), on_demand(5), 0);
    let held = tidegate_store::core::Slots::new(1, span(SECOND)).expect("slots");
    let node = by(node, &plan_with_slots(held));
    assert!(node.admits(b"k", &[1, 0]));
    assert_eq!(node.grants(), 0);
}

fn plan_with_slots(slots: tidegate_store::core::Slots) -> Arc<Plan> {
    plan(1, 1, &[(0, window(9, HOUR)), (0, Rule::Slots(slots))])
}

/// Only what was kept went back: a grant whose answer had been lost stayed charged until its window
/// ended.
#[test]
fn what_the_store_has_not_answered_to_is_given_back_by_a_node_that_closes() {
    let (central, node) = hourly(1_000, on_demand(100));
    node.link.set(Wire::LosesAnswers);
    assert!(node.take(b"k", &[1]).is_err());
    node.link.set(Wire::Open);
    assert_eq!(central.left(&node.plan, b"k"), [900]);
    let mut answered = std::pin::pin!(node.table.give_back());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(answered.as_mut().poll(&mut context).is_ready());
    assert_eq!(central.left(&node.plan, b"k"), [1_000]);
}

/// A store that had no room for all that a closing node sent it kept what it had not heard of until
/// its window ended.
#[test]
fn what_a_store_has_no_room_for_is_sent_again_by_a_node_that_closes() {
    let (central, node) = hourly(1_000, on_demand(100));
    for key in [&b"a"[..], b"b", b"c"] {
        assert!(node.admits(key, &[1]));
    }
    node.link.set(Wire::BusyFor(20));
    let mut answered = std::pin::pin!(node.table.give_back());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(answered.as_mut().poll(&mut context).is_ready());
    for key in [&b"a"[..], b"b", b"c"] {
        assert_eq!(central.left(&node.plan, key), [999]);
    }
}

/// Its cancel came first, and found nothing to end: the units stayed out.
#[test]
fn a_grant_that_the_store_makes_late_is_ended_though_it_was_unknown_before() {
    let (central, node) = hourly(1_000, on_demand(100));
    node.link.set(Wire::Late);
    assert!(node.take(b"k", &[1]).is_err());
    node.link.set(Wire::Open);
    let pass = |micros| {
        central.clock.pass(micros);
        node.clock.pass(micros);
    };
    pass(3 * SECOND);
    assert_eq!(node.link.deliver(), 1);
    assert_eq!(central.left(&node.plan, b"k"), [900]);
    (0..60).for_each(|_| pass(SECOND));
    assert_eq!(central.left(&node.plan, b"k"), [1_000]);
}

#[test]
fn a_pinned_key_spends_the_same_grants_and_leaves_to_the_table_what_asks_for_more() {
    let (_, node) = hourly(10_000, Tier::leased(100).low_water(20));
    let path = KeyPath::new(b"k", 1).expect("a key");
    let pinned = node.table.pin(&path, &node.plan).expect("room");
    let spend = |amounts: &[u64]| pinned.spend(0, amounts, node.clock.now()).is_some();
    assert!(!spend(&[1]), "nothing is held");
    assert_eq!(node.trips(), 0);
    assert!(node.admits(b"k", &[1]));
    // Down to the low water, where the next grant is to be asked for.
    for _ in 0..79 {
        assert!(spend(&[1]));
    }
    for wrong in [0, 1, 101] {
        assert!(!spend(&[wrong]), "{wrong}");
    }
    let of_other_limits = pinned.spend(1, &[1], node.clock.now()).is_some();
    assert!(!of_other_limits);
    assert_eq!(node.trips(), 1);
    assert!(node.admits(b"k", &[1]), "and it asks");
    assert_eq!(node.trips(), 2);
    for _ in 0..19 {
        assert!(spend(&[1]));
    }
    let now = node.clock.now();
    let level = pinned.spend(0, &[5], now).expect("it is covered").level(0);
    let standing = level.standing().expect("it was told");
    assert_eq!((standing.limit, standing.remaining), (10_000, 9_895));
    assert_eq!(node.table.statistics().admitted, 101);
    node.clock.pass(2 * SECOND);
    assert!(!spend(&[1]), "the hold is over");
}

/// Its return was tried each second, and given up after eight of them.
#[test]
fn units_are_given_back_after_an_outage_that_is_shorter_than_their_hold() {
    let long = Duration::from_secs(60);
    let (central, node) = hourly(1_000, on_demand(100).hold(long).idle(long));
    node.link.set(Wire::LosesAnswers);
    assert!(node.take(b"k", &[1]).is_err());
    assert_eq!(central.left(&node.plan, b"k"), [900]);
    node.link.set(Wire::Cut);
    node.clock.pass(20 * SECOND);
    node.link.set(Wire::Open);
    node.clock.pass(60 * SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [1_000]);
}

#[test]
fn a_pinned_key_is_kept_while_it_is_pinned_and_counted_when_it_is_not() {
    let (central, node) = hourly(10_000, Tier::leased(100));
    let path = KeyPath::new(b"k", 1).expect("a key");
    let pinned = node.table.pin(&path, &node.plan).expect("room");
    assert!(node.admits(b"k", &[1]));
    for _ in 0..9 {
        assert!(pinned.spend(0, &[1], node.clock.now()).is_some());
    }
    node.clock.pass(10 * SECOND);
    assert_eq!(central.left(&node.plan, b"k"), [9_990]);
    assert_eq!(node.table.statistics().keys, 1);
    // It is the same key still.
    assert!(node.admits(b"k", &[1]));
    assert!(pinned.spend(0, &[1], node.clock.now()).is_some());
    drop(pinned);
    node.clock.pass(10 * SECOND);
    let counted = node.table.statistics();
    assert_eq!((counted.keys, counted.admitted), (0, 12));
    assert_eq!(central.left(&node.plan, b"k"), [9_988]);
}
