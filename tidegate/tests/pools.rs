//! Several sets serve the same work: who is tried first, who is passed over,
//! and who waits everywhere at once. Virtual time throughout, but for the
//! tests of threads.

mod support;

use std::cmp::Reverse;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use support::Polled;
use tidegate::{
    Balance, Balancer, BuildError, DecisionError, Lease, Limit, LimitPool, LimitPoolBuilder,
    LimitSet, ManualClock, Member, Request, RequestError,
};

const SECOND: Duration = Duration::from_secs(1);
const TEN: Duration = Duration::from_secs(10);

fn set(time: &ManualClock, limit: Limit) -> LimitSet {
    let builder = LimitSet::builder().limit(limit).clock(time.clock());
    builder.build().expect("a sensible set")
}

fn slots(time: &ManualClock, count: u64) -> LimitSet {
    set(time, Limit::concurrency("slots", count))
}

/// Members `a`, `b`, ... with so many slots each.
fn pool_of(time: &ManualClock, counts: &[u64]) -> LimitPoolBuilder {
    let mut builder = LimitPool::builder();
    for (name, count) in ["a", "b", "c", "d"].into_iter().zip(counts) {
        builder = builder.member(name, slots(time, *count));
    }
    builder
}

fn take(pool: &LimitPool) -> Lease {
    let admission = pool.try_acquire("k", ()).wait().expect("no error");
    admission.granted().expect("there is room")
}

/// The members that serve `count` asks, each given back at once.
fn turns(pool: &LimitPool, count: usize) -> String {
    let turn = |_| take(pool).member().expect("a member").to_owned();
    (0..count).map(turn).collect()
}

fn free(pool: &LimitPool, member: &str) -> u64 {
    let member = pool.member(member).expect("a member");
    let peek = member.set().peek("k", ()).wait().expect("a peek");
    peek.standing("slots").expect("a limit").remaining
}

fn waiting(pool: &LimitPool) -> u64 {
    let at = |member: &Member| member.set().statistics().waiting;
    pool.members().iter().map(at).sum()
}

#[test]
fn round_robin_takes_each_in_turn_from_its_own_offset() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 9, 9]).build().unwrap();
    let (second, third) = (pool.with_offset(1), pool.with_offset(2));
    assert_eq!(turns(&pool, 5), "abcab");
    assert_eq!(turns(&second, 4), "bcab");
    assert_eq!(turns(&third, 4), "cabc");
    assert_eq!(turns(&pool.clone(), 1), "c", "a clone shares the turn");
    assert_eq!(turns(&pool.with_offset(u64::MAX), 3).len(), 3);
}

#[test]
fn round_robin_passes_over_a_full_member() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 9]).build().unwrap();
    let held = take(&pool);
    assert_eq!(held.member(), Some("a"));
    assert_eq!(turns(&pool, 4), "bbbb");
}

#[test]
fn random_is_even_and_the_same_for_the_same_seed() {
    let time = ManualClock::default();
    let random = |seed| {
        let pool = pool_of(&time, &[9, 9, 9])
            .balance(Balance::Random)
            .seed(seed);
        turns(&pool.build().unwrap(), 3_000)
    };
    let order = random(42);
    assert_eq!(order, random(42));
    assert_ne!(order, random(43));
    for name in ["a", "b", "c"] {
        let count = order.matches(name).count();
        // Five standard deviations around a third.
        assert!((870..=1_130).contains(&count), "{name} served {count}");
    }
}

#[test]
fn weights_of_five_one_and_one_are_spread_evenly() {
    let time = ManualClock::default();
    let pool = LimitPool::builder()
        .weighted("a", slots(&time, 9), 5)
        .member("b", slots(&time, 9))
        .member("c", slots(&time, 9))
        .balance(Balance::Weighted)
        .build()
        .unwrap();
    assert_eq!(turns(&pool, 14), "aabacaaaabacaa");
    pool.cool_down("a", SECOND).unwrap();
    assert_eq!(turns(&pool, 4), "bcbc");
    time.advance(SECOND);
    assert_eq!(
        turns(&pool, 7),
        "aabacaa",
        "nobody has saved up for a burst"
    );
}

#[test]
fn members_of_other_weights_are_weighed_unless_another_balance_is_said() {
    let time = ManualClock::default();
    let pool = |heavy| {
        LimitPool::builder()
            .weighted("a", slots(&time, 9), heavy)
            .member("b", slots(&time, 9))
    };
    assert_eq!(turns(&pool(2).build().unwrap(), 6), "abaaba");
    assert_eq!(turns(&pool(1).build().unwrap(), 4), "abab");
    let in_turn = pool(2).balance(Balance::RoundRobin).build().unwrap();
    assert_eq!(turns(&in_turn, 4), "abab");
}

#[test]
fn least_loaded_prefers_the_idle_and_knows_weights() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 9]).balance(Balance::LeastLoaded);
    let pool = pool.build().unwrap();
    let first = take(&pool);
    let second = take(&pool);
    assert_ne!(first.member(), second.member());
    let idle = first.member().unwrap().to_owned();
    drop(first);
    assert_eq!(turns(&pool, 5), idle.repeat(5));
    assert_eq!(pool.member(&idle).unwrap().load(), 0);

    let pool = LimitPool::builder()
        .member("small", slots(&time, 99))
        .weighted("large", slots(&time, 99), 3)
        .balance(Balance::LeastLoaded)
        .build()
        .unwrap();
    let held: Vec<Lease> = (0..40).map(|_| take(&pool)).collect();
    assert_eq!(pool.member("large").unwrap().load(), 30);
    drop(held);
    assert_eq!(pool.member("large").unwrap().load(), 0);
}

/// A lease that was detached is nobody's here, and who ends it by its id does so at
/// the member's set, which knows no pool: it stayed the member's load for ever, and
/// the least loaded member was in the end the one that nobody had ever detached from.
#[test]
fn a_lease_that_was_detached_is_no_load() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[100, 100]).balance(Balance::LeastLoaded);
    let pool = pool.build().unwrap();
    let once = || Request::from(()).idempotency(b"request 1");
    let held = pool
        .try_acquire("k", once())
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    let member = pool.member(held.member().expect("a member")).unwrap();
    for _ in 0..10 {
        let lease = take(&pool);
        let set = pool.member(lease.member().unwrap()).unwrap().set();
        set.release("k", lease.detach()).wait().unwrap();
    }
    // A repeated lease was counted where it was given first.
    let again = pool
        .try_acquire("k", once())
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert!(again.is_repeated());
    assert_eq!(again.detach(), held.id());
    let loads = || pool.members().iter().map(Member::load).sum::<u64>();
    assert_eq!((member.load(), loads()), (1, 1));
    drop(held);
    assert_eq!(loads(), 0);
}

#[test]
fn least_loaded_takes_equals_in_turn() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 9, 9]).balance(Balance::LeastLoaded);
    assert_eq!(turns(&pool.build().unwrap(), 6), "abcabc");
}

#[test]
fn first_available_uses_the_second_only_when_the_first_is_full() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[2, 9]).balance(Balance::FirstAvailable);
    let pool = pool.build().unwrap();
    let held: Vec<Lease> = (0..4).map(|_| take(&pool)).collect();
    let order: Vec<_> = held.iter().map(|lease| lease.member().unwrap()).collect();
    assert_eq!(order, ["a", "a", "b", "b"]);
    drop(held);
    assert_eq!(turns(&pool, 3), "aaa");
}

#[test]
fn a_balancer_of_ones_own_is_asked() {
    struct Backward;
    impl Balancer for Backward {
        fn order(&self, members: &mut [&Member], turn: u64) {
            assert!(turn < 3);
            members.sort_by_key(|member| Reverse(member.position()));
        }
    }
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 9, 9])
        .balancer(Backward)
        .build()
        .unwrap();
    assert_eq!(turns(&pool, 3), "ccc");
}

#[test]
fn a_balancer_that_loses_members_loses_nothing_but_their_turn() {
    struct OnlyTheLast;
    impl Balancer for OnlyTheLast {
        fn order(&self, members: &mut [&Member], _: u64) {
            if let [others @ .., last] = members {
                others.fill(last);
            }
        }
    }
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 1])
        .balancer(OnlyTheLast)
        .build()
        .unwrap();
    let held = take(&pool);
    assert_eq!(held.member(), Some("b"));
    assert!(
        pool.try_acquire("k", ())
            .wait()
            .unwrap()
            .refused()
            .is_some()
    );
    let mut waiter = Polled::waiting(pool.acquire("k", ()));
    drop(held);
    drop(waiter.granted().expect("its turn"));
    assert_eq!((waiting(&pool), free(&pool, "b")), (0, 1));
}

#[test]
fn a_pool_without_members_with_two_of_one_name_or_a_weight_of_zero_is_an_error() {
    let time = ManualClock::default();
    let none = LimitPool::builder().build();
    assert!(matches!(none, Err(BuildError::Nothing("member"))));
    let twice = pool_of(&time, &[1]).member("a", slots(&time, 1)).build();
    assert_eq!(twice.unwrap_err(), BuildError::DuplicateMember("a".into()));
    let zero = LimitPool::builder().weighted("z", slots(&time, 1), 0);
    assert_eq!(
        zero.build().unwrap_err(),
        BuildError::ZeroWeight("z".into())
    );
    let pool = pool_of(&time, &[1]).build().unwrap();
    let unknown = pool.cool_down("x", SECOND).unwrap_err();
    assert!(unknown.known == "`a`");
    assert!(pool.cooling("x").is_err());
}

#[test]
fn a_lease_tells_its_member_and_its_metadata() {
    let time = ManualClock::default();
    let region = LimitSet::builder()
        .limit(Limit::concurrency("slots", 1))
        .metadata("region", "eu-west1")
        .clock(time.clock());
    let pool = LimitPool::builder().member("eu", region.build().unwrap());
    let pool = pool.build().unwrap();
    let lease = take(&pool);
    assert_eq!(lease.member(), Some("eu"));
    assert_eq!(lease.metadata()["region"], "eu-west1");
    assert_eq!(pool.member("eu").unwrap().metadata()["region"], "eu-west1");
    let alone = slots(&time, 1)
        .try_acquire("k", ())
        .wait()
        .unwrap()
        .granted();
    let alone = alone.unwrap();
    assert_eq!((alone.member(), alone.cool_down(SECOND)), (None, None));
}

#[test]
fn a_member_that_cools_down_is_passed_over_to_the_exact_instant() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 9]).build().unwrap();
    let lease = take(&pool);
    let until = lease.cool_down(TEN).expect("a member");
    assert_eq!(pool.cooling("a").unwrap(), Some(until));
    assert_eq!(lease.cool_down(SECOND), Some(until), "the later end counts");
    drop(lease);
    assert_eq!(turns(&pool, 3), "bbb");
    time.advance(TEN - Duration::from_micros(1));
    assert_eq!(turns(&pool, 1), "b");
    time.advance(Duration::from_micros(1));
    assert_eq!(pool.cooling("a").unwrap(), None);
    assert!(turns(&pool, 2).contains('a'));
}

#[test]
fn a_refusal_is_that_of_the_member_that_is_free_soonest() {
    let time = ManualClock::default();
    let rate = |seconds| set(&time, Limit::rate("rate", 1, seconds));
    let pool = LimitPool::builder()
        .member("slow", rate(TEN))
        .member("fast", rate(SECOND))
        .build()
        .unwrap();
    let now = time.clock().now();
    for _ in 0..2 {
        drop(
            pool.try_acquire("k", 1)
                .wait()
                .unwrap()
                .granted()
                .expect("room"),
        );
    }
    let refused = pool.try_acquire("k", 1).wait().unwrap().refused().unwrap();
    assert_eq!(refused.member(), Some("fast"));
    assert_eq!(refused.binding(), Some("rate"));
    assert_eq!(refused.not_until(), Some(now + SECOND.into()));
    // The cool-down lasts longer than its limit, and less long than the other's.
    let until = pool.cool_down("fast", 4 * SECOND).unwrap();
    let refused = pool.try_acquire("k", 1).wait().unwrap().refused().unwrap();
    assert_eq!((refused.member(), refused.binding()), (Some("fast"), None));
    assert_eq!(refused.not_until(), Some(until));
    assert_eq!(pool.peek("k", 1).wait().unwrap().not_until(), Some(until));
    pool.cool_down("fast", 2 * TEN).unwrap();
    let refused = pool.check("k", 1).wait().unwrap();
    assert_eq!(refused.member(), Some("slow"));
    time.advance(TEN - Duration::from_micros(1));
    assert!(pool.try_acquire("k", 1).wait().unwrap().refused().is_some());
    time.advance(Duration::from_micros(1));
    assert!(pool.try_acquire("k", 1).wait().unwrap().granted().is_some());
}

#[test]
fn a_member_that_an_ask_never_fits_or_that_does_not_know_it_is_skipped() {
    let time = ManualClock::default();
    let pool = LimitPool::builder()
        .member("small", slots(&time, 1))
        .member("other", set(&time, Limit::rate("tokens", 9, SECOND)))
        .member("large", slots(&time, 4))
        .build()
        .unwrap();
    for _ in 0..3 {
        let lease = pool
            .try_acquire("k", &[("slots", 4)])
            .wait()
            .unwrap()
            .granted();
        assert_eq!(lease.expect("it fits one").member(), Some("large"));
    }
    let held = pool
        .try_acquire("k", &[("slots", 4)])
        .wait()
        .unwrap()
        .granted();
    let mut waiter = Polled::waiting(pool.acquire("k", &[("slots", 3)]));
    assert_eq!(pool.member("small").unwrap().set().statistics().waiting, 0);
    drop(held);
    assert_eq!(waiter.granted().unwrap().member(), Some("large"));
    // Of several that never grant as much, the one that grants the most; nobody waits.
    let mut never = Polled::new(pool.acquire("k", &[("slots", 5)]));
    let never = never.poll().expect("at once").unwrap().refused().unwrap();
    assert_eq!((never.is_never(), never.most_at_once()), (true, Some(4)));
    assert_eq!(never.member(), Some("large"));
    let unknown = pool.acquire("k", &[("tpm", 1)]).wait().unwrap_err();
    assert!(matches!(
        unknown,
        DecisionError::Request(RequestError::UnknownLimit { .. })
    ));
    assert!(matches!(
        pool.check("k", &[("slots", 1)]).wait(),
        Err(DecisionError::Request(RequestError::NeedsLease(_)))
    ));
    assert!(matches!(
        pool.try_acquire("k", &[("slots", 0)]).wait(),
        Err(DecisionError::Request(RequestError::NothingRequested))
    ));
    let standing = pool.peek("k", &[("slots", 0)]).wait().unwrap();
    assert!(standing.admitted() && standing.remaining("slots").is_some());
}

#[test]
fn check_and_peek_tell_the_member_and_peek_takes_no_turn() {
    let time = ManualClock::default();
    let rate = || set(&time, Limit::rate("rate", 1, SECOND));
    let pool = LimitPool::builder().member("a", rate()).member("b", rate());
    let pool = pool.build().unwrap();
    assert_eq!(pool.peek("k", 1).wait().unwrap().member(), Some("a"));
    assert_eq!(pool.peek("k", 1).wait().unwrap().member(), Some("a"));
    assert_eq!(pool.check("k", 1).wait().unwrap().member(), Some("a"));
    assert_eq!(pool.peek("k", 1).wait().unwrap().member(), Some("b"));
    assert!(pool.check("k", 1).wait().unwrap().admitted());
    assert!(!pool.check("k", 1).wait().unwrap().admitted());
    let (pool, member) = (pool.statistics(), pool.members()[0].set().statistics());
    assert_eq!((pool.admitted, pool.refused), (2, 1));
    assert_eq!((member.admitted, member.refused), (1, 0));
}

#[test]
fn a_waiter_is_woken_by_whichever_member_frees_first_and_holds_one_lease() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1, 1]).build().unwrap();
    for freed in ["c", "a", "b"] {
        let mut held: Vec<Lease> = (0..3).map(|_| take(&pool)).collect();
        let mut waiter = Polled::waiting(pool.acquire("k", ()));
        assert_eq!(waiting(&pool), 3);
        held.retain(|lease| lease.member() != Some(freed));
        assert!(waiter.woken());
        let lease = waiter.granted().expect("one is free");
        assert_eq!(lease.member(), Some(freed));
        let loads: u64 = pool.members().iter().map(Member::load).sum();
        assert_eq!((loads, waiting(&pool)), (3, 0));
        drop((held, lease));
    }
    assert_eq!(pool.statistics().waited, 3);
    assert_eq!(pool.statistics().refused, 0);
}

/// Freed at one moment, before the waiter is polled: one member grants, and
/// the others' slots are free for others at once.
#[test]
fn members_that_free_at_the_same_moment_grant_one_lease() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1, 1]).build().unwrap();
    let held: Vec<Lease> = (0..3).map(|_| take(&pool)).collect();
    let mut first = Polled::waiting(pool.acquire("k", ()));
    let mut second = Polled::waiting(pool.acquire("k", ()));
    drop(held);
    let all: u64 = ["a", "b", "c"].map(|name| free(&pool, name)).iter().sum();
    assert_eq!(all, 1, "two are given, though nobody was told yet");
    let leases = (first.granted().unwrap(), second.granted().unwrap());
    assert_ne!(leases.0.member(), leases.1.member());
    assert_eq!(waiting(&pool), 0);
    drop(leases);
    let all: u64 = ["a", "b", "c"].map(|name| free(&pool, name)).iter().sum();
    assert_eq!(all, 3);
}

#[test]
fn a_dropped_waiter_leaves_nothing_behind_in_any_member() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).build().unwrap();
    let held = [take(&pool), take(&pool)];
    let quitter = Polled::waiting(pool.acquire("k", ()));
    let mut next = Polled::waiting(pool.acquire("k", ()));
    drop(quitter);
    assert_eq!((waiting(&pool), pool.statistics().waiting), (2, 1));
    let given = Polled::waiting(pool.acquire("k", ()));
    drop(held);
    assert!(given.woken(), "given, but never told");
    drop(given);
    drop(next.granted().expect("one was free"));
    drop(next);
    assert_eq!((waiting(&pool), pool.statistics().waiting), (0, 0));
    assert_eq!((free(&pool, "a"), free(&pool, "b")), (1, 1));
    assert_eq!(pool.statistics().abandoned, 2);
    assert_eq!(time.next_alarm(), None);
}

#[test]
fn who_waits_for_a_member_that_cools_down_is_served_when_the_cool_down_ends() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).build().unwrap();
    let held = [take(&pool), take(&pool)];
    let until = pool.cool_down("a", TEN).unwrap();
    let mut waiter = Polled::waiting(pool.acquire("k", ()));
    let [at_a, at_b] = held;
    drop(at_a);
    assert!(!waiter.woken(), "a is free, but cools down");
    let direct = pool.member("a").unwrap().set().try_acquire("k", ());
    assert!(
        direct.wait().unwrap().granted().is_some(),
        "who has no pool may"
    );
    assert_eq!(time.next_alarm(), Some(until));
    time.advance(TEN - Duration::from_micros(1));
    assert!(!waiter.woken());
    time.advance(Duration::from_micros(1));
    assert_eq!(waiter.granted().expect("it is over").member(), Some("a"));
    drop(at_b);
}

#[test]
fn a_cool_down_that_begins_while_one_waits_holds_for_the_wait() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1]).build().unwrap();
    let held = take(&pool);
    let mut waiter = Polled::waiting(pool.acquire("k", ()));
    held.cool_down(SECOND);
    held.cool_down(TEN);
    drop(held);
    time.advance(TEN - Duration::from_micros(1));
    assert!(!waiter.woken());
    time.advance(Duration::from_micros(1));
    assert!(waiter.granted().is_some());
}

#[test]
fn a_cool_down_that_is_ended_early_serves_who_waits() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1]).build().unwrap();
    pool.cool_down("a", Duration::MAX).unwrap();
    let mut waiter = Polled::waiting(pool.acquire("k", ()));
    time.advance(TEN);
    assert!(!waiter.woken());
    pool.end_cool_down("a").unwrap();
    assert!(waiter.woken() && waiter.granted().is_some());
    assert_eq!(pool.cooling("a").unwrap(), None);
}

#[test]
fn a_line_that_is_full_is_passed_over_and_if_all_are_it_is_an_error() {
    let time = ManualClock::default();
    let narrow = |max_waiting| {
        let limit = Limit::concurrency("slots", 1);
        let set = LimitSet::builder().limit(limit).max_waiting(max_waiting);
        set.clock(time.clock()).build().unwrap()
    };
    let pool = LimitPool::builder()
        .member("a", narrow(1))
        .member("b", narrow(2));
    let pool = pool.build().unwrap();
    let held = [take(&pool), take(&pool)];
    let mut waiters = [(); 2].map(|()| Polled::waiting(pool.acquire("k", ())));
    assert_eq!(waiting(&pool), 3);
    let full = pool.acquire("k", ()).wait().unwrap_err();
    assert!(matches!(full, DecisionError::QueueFull(_)));
    assert_eq!(pool.statistics().waiting, 2);
    drop(held);
    let members = waiters.each_mut().map(|waiter| waiter.granted());
    assert!(members.iter().all(Option::is_some));
    assert_eq!(waiting(&pool), 0);
}

#[test]
fn a_deadline_ends_the_wait_at_all_members_and_changes_nothing() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).build().unwrap();
    let held = [take(&pool), take(&pool)];
    let until = pool.cool_down("b", Duration::from_millis(9)).unwrap();
    let request = Request::from(()).within(Duration::from_millis(5));
    let mut waiter = Polled::waiting(pool.acquire("k", request));
    time.advance(Duration::from_micros(4_999));
    assert!(!waiter.woken());
    time.advance(Duration::from_micros(1));
    let refused = waiter.poll().expect("told").unwrap().refused();
    // The slots' holders may stay for longer than b cools down.
    assert!(refused.expect("a refusal").not_until() >= Some(until));
    assert_eq!((waiting(&pool), pool.statistics().waiting), (0, 0));
    assert_eq!(pool.statistics().timed_out, 1);
    drop(held);
    assert_eq!((free(&pool, "a"), free(&pool, "b")), (1, 1));
    let at_once = pool.acquire("k", Request::from(()).within(Duration::ZERO));
    assert_eq!(
        at_once.wait().unwrap().granted().unwrap().member(),
        Some("a")
    );
}

#[test]
fn all_members_cooling_down_refuse_until_the_first_is_back() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).build().unwrap();
    pool.cool_down("a", TEN).unwrap();
    let soonest = pool.cool_down("b", SECOND).unwrap();
    let refused = pool.try_acquire("k", ()).wait().unwrap().refused().unwrap();
    assert_eq!(refused.not_until(), Some(soonest));
    let mut waiter = Polled::waiting(pool.acquire("k", ()));
    let request = Request::from(()).within(Duration::from_millis(1));
    let mut impatient = Polled::waiting(pool.acquire("k", request));
    time.advance(SECOND);
    assert_eq!(waiter.granted().unwrap().member(), Some("b"));
    let refused = impatient.poll().unwrap().unwrap().refused().unwrap();
    assert_eq!(refused.not_until(), Some(soonest));
    assert_eq!(waiting(&pool), 0);
}

#[test]
fn the_urgent_go_first_at_every_member() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).build().unwrap();
    let held = [take(&pool), take(&pool)];
    let mut patient = Polled::waiting(pool.acquire("k", ()));
    let mut urgent = Polled::waiting(pool.acquire("k", Request::from(()).priority(3)));
    let [at_a, at_b] = held;
    drop(at_b);
    assert!(!patient.woken() && urgent.woken());
    let urgent = urgent.granted().unwrap();
    assert_eq!(urgent.member(), Some("b"));
    drop(at_a);
    assert_eq!(patient.granted().unwrap().member(), Some("a"));
}

#[test]
fn the_same_ask_gives_the_same_lease_whoever_would_be_chosen_now() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[9, 9, 9]).build().unwrap();
    let request = Request::from(()).idempotency(b"once");
    let mut first = pool
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    let mut repeats = Vec::new();
    for offset in 0..3 {
        let again = pool
            .with_offset(offset)
            .try_acquire("k", request)
            .wait()
            .unwrap();
        let again = again.granted().unwrap();
        assert_eq!((again.id(), again.member()), (first.id(), first.member()));
        repeats.push(again);
    }
    let waited = pool
        .acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert_eq!(waited.id(), first.id());
    repeats.push(waited);
    first.cool_down(TEN);
    let other_key = pool
        .try_acquire("l", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert_ne!(other_key.id(), first.id());
    first.renew(TEN * 100).wait().unwrap();
    time.advance(TEN * 99);
    let again = pool
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert_eq!(again.id(), first.id(), "renewed, and still the same");
    let first_id = first.id();
    drop(first);
    let late = pool
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert_ne!(late.id(), first_id, "it has ended: a new request");
    let late_id = late.id();
    time.advance(TEN * 100);
    let anew = pool
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    assert_ne!(anew.id(), late_id, "it has expired: a new request");
}

/// A lease that ended by its id, or was dropped, bound its request to the member that had
/// given it until it would have expired: it was refused there while another was free.
#[test]
fn an_ask_whose_lease_has_ended_is_bound_to_no_member() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).balance(Balance::FirstAvailable);
    let pool = pool.build().unwrap();
    let once = Request::from(()).idempotency(b"once");
    let member = |lease: &Lease| lease.member().expect("a member").to_owned();
    let given = || {
        let admission = pool.try_acquire("k", once).wait().unwrap();
        admission.granted().expect("one of the two is free")
    };
    let ends: [fn(&LimitPool, Lease); 2] = [
        |_, lease| drop(lease),
        |pool, lease| {
            let set = pool.member(lease.member().unwrap()).unwrap().set();
            set.release("k", lease.detach()).wait().unwrap();
        },
    ];
    for end in ends {
        let first = given();
        assert_eq!(member(&first), "a");
        end(&pool, first);
        let other = take(&pool);
        assert_eq!(member(&other), "a");
        assert_eq!(member(&given()), "b");
        drop(other);
    }
}

/// Two that ask the same at the same moment stand in all lines; one member
/// grants the first, another the second: the second gets the first's lease.
#[test]
fn two_that_wait_with_the_same_ask_hold_one_lease() {
    // By the one the second looks at the other member first, by the other at the same.
    for balance in [Balance::RoundRobin, Balance::FirstAvailable] {
        let time = ManualClock::default();
        let pool = pool_of(&time, &[1, 1]).balance(balance).build().unwrap();
        let held = [take(&pool), take(&pool)];
        let request = Request::from(()).idempotency(b"once");
        let mut first = Polled::waiting(pool.acquire("k", request));
        let mut second = Polled::waiting(pool.acquire("k", request));
        drop(held);
        let first = first.granted().unwrap();
        let second = second.granted().unwrap();
        assert_eq!((first.id(), first.member()), (second.id(), second.member()));
        assert_eq!(free(&pool, "a") + free(&pool, "b"), 1, "one slot is held");
    }
}

/// The first was given a lease at `a` and not told; the second gets one at `b`
/// meanwhile, and is told: the first gets that one.
#[test]
fn of_two_members_that_grant_the_same_ask_the_first_to_be_told_keeps() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).balance(Balance::FirstAvailable);
    let pool = pool.build().unwrap();
    let held = [take(&pool), take(&pool)];
    let request = Request::from(()).idempotency(b"once");
    let mut first = Polled::waiting(pool.acquire("k", request));
    drop(held);
    assert_eq!((free(&pool, "a"), free(&pool, "b")), (0, 1));
    pool.cool_down("a", SECOND).unwrap();
    let second = pool
        .try_acquire("k", request)
        .wait()
        .unwrap()
        .granted()
        .unwrap();
    let first = first.granted().unwrap();
    assert_eq!((first.id(), first.member()), (second.id(), Some("b")));
    assert_eq!((free(&pool, "a"), free(&pool, "b")), (1, 0));
}

#[test]
fn members_may_have_clocks_of_their_own() {
    let (here, there) = (ManualClock::default(), ManualClock::default());
    there.advance(TEN * 1_000);
    let pool = LimitPool::builder()
        .member("here", set(&here, Limit::rate("rate", 1, TEN)))
        .member("there", set(&there, Limit::rate("rate", 1, SECOND)));
    let pool = pool.build().unwrap();
    for _ in 0..2 {
        assert!(pool.check("k", 1).wait().unwrap().admitted());
    }
    let refused = pool.check("k", 1).wait().unwrap();
    assert_eq!(
        refused.member(),
        Some("there"),
        "by the wait, not the instant"
    );
    let mut waiter = Polled::waiting(pool.acquire("k", 1));
    here.advance(SECOND);
    there.advance(SECOND);
    assert_eq!(waiter.granted().unwrap().member(), Some("there"));
    drop(waiter);
    assert_eq!((here.next_alarm(), there.next_alarm()), (None, None));
    // The one clock was read as if it were the other: a wait of hours.
    let counted = pool.member("there").unwrap().set().statistics();
    assert_eq!((counted.waited, counted.longest_wait), (1, SECOND));
}

#[test]
fn outcomes_are_counted_by_the_pool() {
    let time = ManualClock::default();
    let pool = pool_of(&time, &[1, 1]).build().unwrap();
    let (mut good, mut bad) = (take(&pool), take(&pool));
    good.settle(()).wait().unwrap();
    bad.fail();
    drop((good, bad));
    let counted = pool.statistics();
    assert_eq!(
        (counted.admitted, counted.succeeded, counted.dropped),
        (2, 1, 1)
    );
}

#[test]
fn many_threads_never_exceed_any_member() {
    let limits = [("a", 1), ("b", 2), ("c", 3)];
    let mut builder = LimitPool::builder().balance(Balance::LeastLoaded);
    for (name, count) in limits {
        let set = LimitSet::new([Limit::concurrency("slots", count)]);
        builder = builder.weighted(name, set.unwrap(), count as u32);
    }
    let pool = builder.build().unwrap();
    let held: [AtomicI64; 3] = Default::default();
    let work = |offset: u64| {
        let pool = pool.with_offset(offset);
        for _ in 0..200 {
            let lease = pool.acquire("k", ()).wait().unwrap().granted().unwrap();
            let index = pool.member(lease.member().unwrap()).unwrap().position();
            let now = held[index].fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= limits[index].1 as i64);
            held[index].fetch_sub(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        for offset in 0..12 {
            let work = &work;
            scope.spawn(move || work(offset));
        }
    });
    assert_eq!(waiting(&pool), 0);
    for (name, count) in limits {
        assert_eq!(free(&pool, name), count);
    }
    assert_eq!(pool.statistics().admitted, 12 * 200);
}

/// Something that happens to a pool.
#[derive(Clone, Debug)]
enum Event {
    Wait { priority: u8, millis: Option<u64> },
    Try,
    Quit(usize),
    Release(usize),
    CoolDown(usize, u64),
    EndCoolDown(usize),
    Advance(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let wait = (0..3_u8, proptest::option::of(1..50_u64));
    prop_oneof![
        4 => wait.prop_map(|(priority, millis)| Event::Wait { priority, millis }),
        2 => Just(Event::Try),
        1 => any::<usize>().prop_map(Event::Quit),
        4 => any::<usize>().prop_map(Event::Release),
        1 => (0..3_usize, 0..60_u64).prop_map(|(m, millis)| Event::CoolDown(m, millis)),
        1 => (0..3_usize).prop_map(Event::EndCoolDown),
        2 => (0..40_u64).prop_map(Event::Advance),
    ]
}

const COUNTS: [u64; 3] = [1, 2, 3];

/// A pool, those who wait for it, and what was given.
struct World<'a> {
    pool: &'a LimitPool,
    waiters: Vec<Polled<'a>>,
    leases: Vec<Lease>,
}

impl World<'_> {
    fn live(&mut self, time: &ManualClock, event: &Event) {
        // No lease is to expire: this is about giving back.
        let request = Request::from(()).ttl(TEN * 1_000_000);
        let members = self.pool.members();
        match *event {
            Event::Wait { priority, millis } => {
                let millis = millis.map(Duration::from_millis);
                let request = millis.map_or(request, |longest| request.within(longest));
                let pool = self.pool;
                let asked = async move { pool.acquire("k", request.priority(priority)).await };
                self.waiters.push(Polled::new(asked));
            }
            Event::Try => {
                let admission = self
                    .pool
                    .try_acquire("k", request)
                    .wait()
                    .expect("no error");
                self.leases.extend(admission.granted());
            }
            Event::Quit(any) if !self.waiters.is_empty() => {
                drop(self.waiters.remove(any % self.waiters.len()));
            }
            Event::Release(any) if !self.leases.is_empty() => {
                drop(self.leases.remove(any % self.leases.len()));
            }
            Event::CoolDown(member, millis) => {
                members[member].cool_down(Duration::from_millis(millis));
            }
            Event::EndCoolDown(member) => members[member].end_cool_down(),
            Event::Advance(millis) => time.advance(Duration::from_millis(millis)),
            Event::Quit(_) | Event::Release(_) => {}
        }
    }

    /// Tells everybody who can be told.
    fn tell(&mut self) {
        let leases = &mut self.leases;
        self.waiters.retain_mut(|waiter| match waiter.poll() {
            Some(answer) => {
                leases.extend(answer.expect("no error").granted());
                false
            }
            None => true,
        });
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for (member, count) in self.pool.members().iter().zip(COUNTS) {
            let of = |lease: &&Lease| lease.member() == Some(member.name());
            let held = self.leases.iter().filter(of).count() as u64;
            let left = free(self.pool, member.name());
            prop_assert_eq!(held + left, count, "held + free = capacity");
            prop_assert_eq!(held, member.load());
            let idle = left > 0 && member.cooling().is_none();
            prop_assert!(
                !idle || self.waiters.is_empty(),
                "nobody waits for what is free"
            );
            let lines = member.set().statistics().waiting;
            prop_assert_eq!(lines, self.waiters.len() as u64);
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn whatever_happens_no_slot_is_lost_or_doubled_and_nobody_waits_for_a_free_one(
        events in proptest::collection::vec((event(), any::<bool>()), 1..60),
    ) {
        let time = ManualClock::default();
        let pool = pool_of(&time, &COUNTS).build().unwrap();
        let mut world = World { pool: &pool, waiters: Vec::new(), leases: Vec::new() };
        for (event, told) in &events {
            world.live(&time, event);
            if *told {
                world.tell();
                world.check()?;
            }
        }
        world.waiters.clear();
        world.leases.clear();
        world.check()?;
        prop_assert_eq!(pool.statistics().waiting, 0);
    }
}
