//! What a node asks of its store, counted there: one grant at a time for each key, whatever comes
//! at once, whatever its wall clock says, and whatever requests cost.

mod support;

use std::sync::Arc;

use support::{Central, Node, SECOND, Wire, bucket, plan, told, window};
use tidegate_store::core::{Amount, Rule};
use tidegate_store::{Plan, Reply, StoreFuture, Timer};
use tidegate_tier::Tier;

const HOUR: u64 = 3_600 * SECOND;

/// How many of these were answered by now: admitted, and refused. The others still wait.
fn answered(waiting: &mut Vec<StoreFuture>) -> (u64, u64) {
    let (mut admitted, mut refused) = (0, 0);
    waiting.retain_mut(|later| match told(later) {
        None => true,
        Some(answer) => {
            let verdict = answer.expect("an answer").verdict().expect("a verdict");
            match verdict.admitted() {
                true => admitted += 1,
                false => refused += 1,
            }
            false
        }
    });
    (admitted, refused)
}

/// Elsewhere each of them asked: 1,024 grants, 512,000 units burnt, none admitted.
#[test]
fn two_hundred_requests_at_once_make_three_grants_at_most_one_at_a_time() {
    for low_water in [0, 20, 100] {
        let limits = plan(0, 1, &[(0, window(10_000, HOUR))]);
        let central = Central::new(&limits);
        let node = Node::new(&central, &limits, Tier::leased(100).low_water(low_water), 0);
        node.link.set(Wire::HoldsAnswers);
        let mut waiting: Vec<_> = (0..200).map(|_| node.begin(b"k", &[1])).collect();
        let mut admitted = answered(&mut waiting).0;
        while node.link.held() > 0 {
            assert_eq!(node.link.held(), 1, "one is under way");
            node.link.deliver();
            admitted += answered(&mut waiting).0;
        }
        assert_eq!((admitted, waiting.len()), (200, 0), "low water {low_water}");
        assert!(
            node.grants() <= 3,
            "{} grants, low water {low_water}",
            node.grants()
        );
        assert_eq!(node.trips(), node.grants());
    }
}

#[test]
fn a_key_whose_requests_wait_holds_up_no_other_key() {
    let limits = plan(0, 1, &[(0, window(10_000, HOUR))]);
    let central = Central::new(&limits);
    let node = Node::new(&central, &limits, Tier::leased(100).low_water(0), 0);
    node.link.set(Wire::HoldsAnswers);
    let mut waiting: Vec<_> = (0..50).map(|_| node.begin(b"a", &[1])).collect();
    node.link.set(Wire::Open);
    assert!(node.admits(b"b", &[1]));
    assert_eq!(answered(&mut waiting), (0, 0));
    node.link.deliver();
    assert_eq!(answered(&mut waiting), (50, 0));
    assert_eq!(node.grants(), 2);
}

/// All of them were sent in one moment, twice a second, and requests waited at the store behind them.
#[test]
fn what_lies_idle_is_given_back_over_time_and_not_all_at_once() {
    const KEYS: usize = 1_000;
    let limits = plan(0, 1, &[(0, window(100, HOUR))]);
    let central = Central::new(&limits);
    let node = Node::new(&central, &limits, Tier::leased(10), 0);
    for key in 0..KEYS {
        drop(node.begin(format!("key {key}").as_bytes(), &[1]));
    }
    assert_eq!(node.trips(), KEYS);
    // A hundredth of a second at a time, for an idle second and the look that comes next.
    let sent = (0..160).map(|_| {
        let trips = node.trips();
        central.clock.pass(SECOND / 100);
        node.clock.pass(SECOND / 100);
        node.trips() - trips
    });
    let sent: Vec<_> = sent.collect();
    assert_eq!(sent.iter().sum::<usize>(), KEYS, "{sent:?}");
    assert!(sent.iter().all(|&sent| sent < KEYS / 4), "{sent:?}");
}

/// Elsewhere a node that is ahead throws each grant away as over, and asks for the next.
#[test]
fn a_node_whose_wall_clock_is_ahead_asks_no_more_often_than_any_other() {
    let length = 2 * SECOND;
    for ahead in [0, 1_000, HOUR as i64, -(HOUR as i64)] {
        let limits = plan(0, 1, &[(0, window(1_000, length))]);
        let central = Central::new(&limits);
        let node = Node::new(&central, &limits, Tier::leased(100), ahead);
        // The store's clock begins in the middle of nowhere: go to where a window begins.
        let into = central.clock.now().as_micros() as u64 % length;
        let pass = |micros: u64| {
            central.clock.pass(micros);
            node.clock.pass(micros);
        };
        pass(length - into);
        for _ in 0..5 {
            let before = node.grants();
            let mut admitted = 0;
            for _ in 0..200 {
                admitted += (0..8).filter(|_| node.admits(b"k", &[1])).count();
                pass(length / 200);
            }
            let grants = node.grants() - before;
            assert_eq!(admitted, 1_000, "{ahead} us ahead");
            // And what is asked in vain, once each second: a refusal is remembered for `idle`.
            assert!(
                grants <= admitted / 100 + 2,
                "{grants} grants, {ahead} us ahead"
            );
        }
    }
}

/// A server that was told to stop was gone before its store had been told.
#[test]
fn giving_back_ends_when_the_store_has_answered_all_that_was_sent() {
    let limits = plan(0, 1, &[(0, window(1_000, HOUR))]);
    let central = Central::new(&limits);
    let node = Node::new(&central, &limits, Tier::leased(100).low_water(0), 0);
    assert!(node.admits(b"a", &[1]));
    node.link.set(Wire::HoldsAnswers);
    let mut waiting = vec![node.begin(b"b", &[1])];
    let back = node.table.give_back();
    let mut back = StoreFuture::new(async move {
        back.await;
        Ok(Reply::Done)
    });
    // What `a` held is on its way, and so is a grant for `b`; of that the rest goes back, too.
    assert_eq!((node.link.held(), told(&mut back)), (2, None));
    node.link.deliver();
    assert_eq!(answered(&mut waiting), (1, 0));
    assert_eq!((node.link.held(), told(&mut back)), (1, None));
    node.link.deliver();
    assert!(told(&mut back).is_some());
    for key in [b"a", b"b"] {
        assert_eq!(central.left(&limits, key), [999]);
    }
}

/// What requests of `cost` admit of an hour's window at two nodes in turn, and which requests of
/// one unit take after that.
fn used_up(capacity: Amount, batch: Amount, cost: Amount) -> (u64, u64) {
    let limits = plan(0, 1, &[(0, window(capacity, HOUR))]);
    let central = Central::new(&limits);
    let nodes = [0, 1].map(|_| Node::new(&central, &limits, Tier::leased(batch), 0));
    let pass = |micros: u64| {
        for clock in [&central.clock, &nodes[0].clock, &nodes[1].clock] {
            clock.pass(micros);
        }
    };
    let take = |cost: Amount| {
        let mut admitted = 0;
        // Units that one node cannot use are there for the other after a while.
        for _ in 0..4 {
            for turn in 0..2 * capacity / cost + 2 {
                let node = &nodes[(turn % 2) as usize];
                admitted += u64::from(node.admits(b"k", &[cost]));
            }
            pass(3 * SECOND);
        }
        admitted
    };
    (take(cost), take(1))
}

#[test]
fn the_last_unit_of_a_window_is_admitted_to_somebody_whatever_requests_cost() {
    let (capacity, batch) = (1_003, 100);
    for cost in [1, 7, batch, batch + 1, capacity] {
        let (of_cost, of_one) = used_up(capacity, batch, cost);
        assert_eq!(of_cost, capacity / cost, "cost {cost}");
        assert_eq!(of_cost * cost + of_one, capacity, "cost {cost}");
    }
}

/// Takes one unit of each limit until there is no more, and answers how many were admitted, how
/// many grants were asked for, and how many trips there were besides.
fn trips(limits: &Arc<Plan>, key: &[u8], batch: Amount) -> (u64, usize, usize) {
    let central = Central::new(limits);
    let node = Node::new(&central, limits, Tier::leased(batch), 0);
    let of_each = vec![1; limits.limits().len()];
    let mut admitted = 0;
    while node.admits(key, &of_each) {
        admitted += 1;
    }
    for _ in 0..50 {
        assert!(!node.admits(key, &of_each), "it is refused from here on");
    }
    (admitted, node.grants(), node.trips() - node.grants())
}

/// What it is called, how many levels keys have, the limits, and a key.
type Case = (&'static str, usize, Vec<(usize, Rule)>, &'static [u8]);

#[test]
fn a_window_takes_as_many_trips_as_it_has_batches_and_two_more_at_most() {
    let windows = |capacities: &[Amount], levels: usize| -> Vec<(usize, Rule)> {
        let each = capacities.iter().enumerate();
        each.map(|(at, &capacity)| (at % levels, window(capacity, HOUR)))
            .collect()
    };
    let mut ancestors = windows(&[5_000, 2_000, 1_000], 3);
    // A rate beside them, of which there is more than enough.
    ancestors.push((0, bucket(100_000, 100_000)));
    let cases: [Case; 3] = [
        ("one limit", 1, windows(&[1_000], 1), b"k"),
        (
            "five limits",
            1,
            windows(&[1_000, 3_000, 1_500, 9_000, 2_000], 1),
            b"k",
        ),
        ("two ancestors", 3, ancestors, b"a/b/c"),
    ];
    for (name, levels, rules, key) in cases {
        for batch in [10, 64, 100, 1_000] {
            let (admitted, grants, besides) = trips(&plan(0, levels, &rules), key, batch);
            assert_eq!(admitted, 1_000, "{name}, batch {batch}");
            let most = (admitted / batch) as usize + 2;
            assert!(grants <= most, "{name}, batch {batch}: {grants} of {most}");
            // The last grant has more of some limits than of the one that ends: what nobody can
            // use goes back, once.
            let is_partial = levels + rules.len() > 2 && !admitted.is_multiple_of(batch);
            assert!(
                besides <= usize::from(is_partial),
                "{name}, batch {batch}: {besides}"
            );
        }
    }
}
