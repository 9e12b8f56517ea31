//! How much a table holds: what is spent makes room, and nobody takes all of it.

#[expect(dead_code, reason = "other tests wait for more")]
mod support;

use std::time::Duration;

use tidegate::StoreError;
use tidegate::{
    DecisionError, LeaseError, LeaseId, Limit, LimitSet, LimitSetBuilder, ManualClock, Request,
};

use crate::support::Polled;

const SECOND: Duration = Duration::from_secs(1);

fn rate(time: &ManualClock) -> LimitSetBuilder {
    let limit = Limit::rate("tpm", 1_000_000, SECOND);
    LimitSet::builder().limit(limit).clock(time.clock())
}

/// A lease that nobody watches over.
fn detached(set: &LimitSet, key: &str) -> Result<LeaseId, DecisionError> {
    let lease = set
        .try_acquire(key, 10)
        .wait()?
        .granted()
        .expect("below the rate");
    Ok(lease.detach())
}

/// Ended leases counted against `max_leases` for ten minutes: 1,747 a second was
/// all that a policy of rates could serve, with nothing held.
#[test]
fn leases_that_have_ended_keep_nobody_from_one() {
    let time = ManualClock::default();
    let set = rate(&time).max_leases(1_000).build().unwrap();
    for number in 0..10_000 {
        let id = detached(&set, "k").unwrap_or_else(|error| panic!("after {number}: {error}"));
        set.settle("k", id, &[("tpm", 7)]).wait().unwrap();
        time.advance(SECOND / 10);
    }
}

#[test]
fn idempotency_keys_of_work_that_is_done_keep_nobody_from_a_lease() {
    let time = ManualClock::default();
    let set = rate(&time).max_leases(1_000).build().unwrap();
    for number in 0..10_000_u32 {
        let name = number.to_le_bytes();
        let lease = set.try_acquire("k", Request::from(10).idempotency(&name));
        let mut lease = lease.wait().unwrap().granted().unwrap();
        lease.settle(&[("tpm", 7)]).wait().unwrap();
        time.advance(SECOND / 10);
    }
}

#[test]
fn where_too_many_leases_are_remembered_the_oldest_are_forgotten_first() {
    let time = ManualClock::default();
    let set = rate(&time).max_remembered_leases(1_000).build().unwrap();
    let ids: Vec<_> = (0..5_000)
        .map(|_| {
            let id = detached(&set, "k").unwrap();
            set.release("k", id).wait().unwrap();
            time.advance(Duration::from_micros(20));
            id
        })
        .collect();
    let remembered = set.count().wait().unwrap().remembered.unwrap();
    assert!((500..=1_000).contains(&remembered), "{remembered}");
    let again = |id: &LeaseId| set.release("k", *id);
    let (forgotten, known) = ids.split_at(ids.len() - remembered);
    assert!(known.iter().all(|id| again(id).wait().unwrap().repeated()));
    let unknown = LeaseError::Unknown;
    assert!(
        forgotten
            .iter()
            .all(|id| again(id).wait().unwrap_err() == unknown)
    );
}

/// A busy key fills what is shared, and no more: what others remember stays. (But for those
/// whose leases stand in the same book as its own: one of some sixty, by chance.)
#[test]
fn a_busy_key_makes_nobody_else_forget() {
    let time = ManualClock::default();
    let set = rate(&time).max_remembered_leases(12_800).build().unwrap();
    let end = |name: &str| -> Vec<(String, LeaseId)> {
        let keys = (0..20).map(|nth| format!("{name} {nth}"));
        let ended = keys.map(|key| {
            let id = detached(&set, &key).unwrap();
            set.release(&*key, id).wait().unwrap();
            (key, id)
        });
        ended.collect()
    };
    let remembered = |ended: &[(String, LeaseId)]| {
        let again = |(key, id): &&(String, LeaseId)| set.release(&**key, *id).wait().is_ok();
        ended.iter().filter(again).count()
    };
    let quiet = end("quiet");
    for _ in 0..20_000 {
        let id = detached(&set, "busy").unwrap();
        set.release("busy", id).wait().unwrap();
        time.advance(Duration::from_micros(20));
    }
    assert!(set.count().wait().unwrap().remembered.unwrap() <= 12_800);
    assert!(remembered(&quiet) >= 15);
    assert!(remembered(&end("late")) >= 15);
}

#[test]
fn a_lease_is_remembered_for_as_long_as_its_set_says() {
    let time = ManualClock::default();
    let set = rate(&time).remember(5 * SECOND).build().unwrap();
    let id = detached(&set, "k").unwrap();
    set.release("k", id).wait().unwrap();
    time.advance(5 * SECOND - Duration::from_micros(1));
    assert!(set.release("k", id).wait().unwrap().repeated());
    time.advance(Duration::from_micros(1));
    let unknown = LeaseError::Unknown;
    assert_eq!(set.release("k", id).wait().unwrap_err(), unknown);
    assert_eq!(set.count().wait().map(|all| all.remembered), Ok(Some(0)));
    assert!(rate(&time).remember(Duration::ZERO).build().is_err());
}

/// Many that are to be forgotten at one instant are forgotten a few at a time;
/// none of them is found from that instant on.
#[test]
fn what_is_to_be_forgotten_is_found_no_more_however_much_it_is() {
    let time = ManualClock::default();
    let set = rate(&time).remember(SECOND).build().unwrap();
    let name = |number: u32| number.to_le_bytes();
    let ids: Vec<_> = (0..3_000)
        .map(|number| {
            let name = name(number);
            let lease = set.try_acquire("k", Request::from(10).idempotency(&name));
            let id = lease.wait().unwrap().granted().unwrap().detach();
            set.release("k", id).wait().unwrap();
            id
        })
        .collect();
    time.advance(SECOND);
    let last = name(2_999);
    let again = set.try_acquire("k", Request::from(10).idempotency(&last));
    let again = again.wait().unwrap().granted().unwrap();
    assert!(!again.is_repeated());
    let unknown = LeaseError::Unknown;
    assert_eq!(set.release("k", ids[2_998]).wait().unwrap_err(), unknown);
    drop(again);
    for _ in 0..20 {
        assert!(set.check("k", 1).wait().unwrap().admitted());
        drop(set.try_acquire("k", 1).wait().unwrap());
    }
    assert!(
        set.count().wait().unwrap().remembered.unwrap() <= 1,
        "of the dropped one"
    );
}

/// One caller with leases of 400 days took them all, and everybody waited for
/// these 400 days.
#[test]
fn one_key_cannot_use_up_the_leases_of_all() {
    let time = ManualClock::default();
    let limit = Limit::calls("rpm", 300, 60 * SECOND);
    let builder = LimitSet::builder().limit(limit).clock(time.clock());
    let set = builder.max_leases(1_000).build().unwrap();
    let year = Duration::from_secs(400 * 86_400);
    let mut told = None;
    for _ in 0..4 {
        for _ in 0..300 {
            match set
                .try_acquire("hostile", Request::from(()).ttl(year))
                .wait()
            {
                Ok(admission) => drop(admission.granted().unwrap().detach()),
                Err(error) => told = Some(error),
            }
        }
        time.advance(60 * SECOND);
    }
    let max_leases_per_root = 500;
    let full = StoreError::RootLeasesFull {
        max_leases_per_root,
    };
    assert_eq!(told, Some(DecisionError::Store(full)));
    assert_eq!(set.count().wait().map(|all| all.leases), Ok(Some(500)));
    assert!(set.try_acquire("victim", ()).wait().is_ok());
}

/// One key could take every place to wait: requests for all others were refused, for as long
/// as its own waited.
#[test]
fn one_key_cannot_take_every_place_to_wait() {
    let time = ManualClock::default();
    let builder = LimitSet::builder().limit(Limit::concurrency("slots", 1));
    let set = builder.max_waiting(20).clock(time.clock()).build().unwrap();
    let held = |key| set.try_acquire(key, ()).wait().unwrap().granted();
    let _held = [held("hostile"), held("victim")];
    let mut hostile: Vec<_> = (0..20)
        .map(|_| Polled::new(set.acquire("hostile", ())))
        .collect();
    let told: Vec<_> = hostile.iter_mut().filter_map(Polled::poll).collect();
    assert_eq!(told.len(), 10, "half of them wait");
    for told in told {
        assert_eq!(told.unwrap_err(), DecisionError::RootQueueFull(10));
    }
    let mut victim = Polled::new(set.acquire("victim", ()));
    assert!(victim.poll().is_none(), "it waits");
    hostile.truncate(5);
    let mut again = Polled::new(set.acquire("hostile", ()));
    assert!(again.poll().is_none(), "there is room for its own again");
}

/// All users of one organisation share its places to wait; another's do not, and a policy that
/// lets few wait leaves a key eight places.
#[test]
fn keys_of_one_root_share_its_places_to_wait() {
    let time = ManualClock::default();
    let of = |builder: LimitSetBuilder| {
        let limit = Limit::concurrency("slots", 1).at_level("org");
        let builder = builder.limit(limit).levels(["org", "user"]);
        builder.clock(time.clock()).build().unwrap()
    };
    let set = of(LimitSet::builder().max_waiting_per_root(2));
    let _held = ["acme/a", "other/a"].map(|key| set.try_acquire(key, ()).wait().unwrap().granted());
    let mut waits = ["acme/a", "acme/b", "other/b"].map(|key| Polled::new(set.acquire(key, ())));
    assert!(waits.iter_mut().all(|one| one.poll().is_none()));
    let mut third = Polled::new(set.acquire("acme/c", ()));
    let told = third.poll().map(|told| told.unwrap_err());
    assert_eq!(told, Some(DecisionError::RootQueueFull(2)));

    let set = of(LimitSet::builder().max_waiting(9));
    let _held = set.try_acquire("acme/a", ()).wait().unwrap().granted();
    let mut waits: Vec<_> = (0..9)
        .map(|_| Polled::new(set.acquire("acme/b", ())))
        .collect();
    let told: Vec<_> = waits.iter_mut().filter_map(Polled::poll).collect();
    assert_eq!(told.len(), 1);
}

/// All users of one organisation share what it may hold; another's do not.
#[test]
fn keys_of_one_root_share_what_it_may_hold() {
    let time = ManualClock::default();
    let set = rate(&time).levels(["org", "user"]).max_leases_per_root(3);
    let set = set.build().unwrap();
    let held: Vec<_> = ["acme/a", "acme/b", "acme/a"]
        .map(|key| (key, detached(&set, key).unwrap()))
        .into();
    let full = DecisionError::Store(StoreError::RootLeasesFull {
        max_leases_per_root: 3,
    });
    assert_eq!(detached(&set, "acme/c").unwrap_err(), full);
    assert!(detached(&set, "other/a").is_ok());
    let (key, id) = held[1];
    set.release(key, id).wait().unwrap();
    assert!(detached(&set, "acme/c").is_ok());
    assert_eq!(detached(&set, "acme/c").unwrap_err(), full);
    // Those that have expired are not held any more.
    time.advance(600 * SECOND);
    assert!(detached(&set, "acme/c").is_ok());
}

/// Leases of paths of entities counted as those of another root, and their ends as none's.
#[test]
fn entities_of_one_root_share_what_it_may_hold() {
    let time = ManualClock::default();
    let set = rate(&time).levels(["org", "user"]).max_leases_per_root(3);
    let set = set.build().unwrap();
    let held = ["/acme/a", "/acme/b", "acme/a"].map(|key| (key, detached(&set, key).unwrap()));
    let full = DecisionError::Store(StoreError::RootLeasesFull {
        max_leases_per_root: 3,
    });
    assert_eq!(detached(&set, "/acme/c").unwrap_err(), full);
    assert_eq!(detached(&set, "acme/c").unwrap_err(), full);
    for (key, id) in held {
        set.release(key, id).wait().unwrap();
    }
    for key in ["/acme/d", "acme/d", "/acme/d"] {
        detached(&set, key).unwrap();
    }
    assert_eq!(detached(&set, "/acme/e").unwrap_err(), full);
}

/// Expired leases of a key that nobody asks for any more counted as held.
#[test]
fn leases_that_have_expired_make_room_wherever_they_are() {
    let time = ManualClock::default();
    let set = rate(&time).max_leases(100).build().unwrap();
    for number in 0..100 {
        detached(&set, &format!("once {number}")).unwrap();
    }
    let full = DecisionError::Store(StoreError::LeasesFull { max_leases: 100 });
    assert_eq!(detached(&set, "another").unwrap_err(), full);
    time.advance(600 * SECOND);
    detached(&set, "another").unwrap();
    assert_eq!(set.count().wait().map(|all| all.leases), Ok(Some(1)));
}

/// A shard sets room aside for more leases than it holds: nobody is refused for that.
#[test]
fn the_last_lease_that_there_is_room_for_is_given_whoever_asks() {
    let (time, most) = (ManualClock::default(), 6_000);
    let set = rate(&time).max_leases(most).build().unwrap();
    let key = |number: usize| format!("k{}", number % 1_500);
    let mut ids: Vec<_> = (0..most)
        .map(|number| detached(&set, &key(number)).unwrap())
        .collect();
    let full = DecisionError::Store(StoreError::LeasesFull { max_leases: most });
    assert_eq!(detached(&set, "another").unwrap_err(), full);
    for (number, id) in ids.drain(..300).enumerate() {
        set.release(&key(number), id).wait().unwrap();
    }
    for number in 0..300 {
        detached(&set, &format!("another {number}")).unwrap();
    }
    assert_eq!(detached(&set, "one too many").unwrap_err(), full);
    assert_eq!(set.count().wait().map(|all| all.leases), Ok(Some(most)));
}

/// Who has how many leases is counted only while one may have as many as it may.
#[test]
fn what_a_root_may_hold_is_exact_however_the_leases_come_and_go() {
    let (time, most) = (ManualClock::default(), 8);
    let builder = rate(&time).levels(["org", "user"]);
    let set = builder.max_leases_per_root(most).build().unwrap();
    let full = DecisionError::Store(StoreError::RootLeasesFull {
        max_leases_per_root: most,
    });
    for round in 0..5 {
        let user = |number: usize| format!("org/{round} {number}");
        let ids: Vec<_> = (0..most)
            .map(|number| detached(&set, &user(number)).unwrap())
            .collect();
        assert_eq!(detached(&set, "org/one more").unwrap_err(), full);
        set.release(&user(0), ids[0]).wait().unwrap();
        let id = detached(&set, &user(0)).unwrap();
        assert_eq!(detached(&set, "org/one more").unwrap_err(), full);
        set.release(&user(0), id).wait().unwrap();
        // All go, or all but a few: then nobody counts any more.
        for (number, id) in ids.into_iter().enumerate().skip(1) {
            set.release(&user(number), id).wait().unwrap();
        }
    }
}

/// How many rows there are after 50,000 keys, of which 1,000 matter at any time.
fn rows_of_visitors(limits: Vec<Limit>, key: impl Fn(u32) -> String) -> usize {
    let time = ManualClock::default();
    let builder = LimitSet::builder().levels(["site", "visitor"]);
    let set = builder.limits(limits).clock(time.clock()).build().unwrap();
    for number in 0..50_000 {
        assert!(set.check(&key(number), 1).wait().unwrap().admitted());
        time.advance(Duration::from_millis(1));
    }
    set.count().wait().unwrap().keys
}

/// That held for tables of one plain bucket alone: every other kept all its rows
/// until there were `max_keys` of them.
#[test]
fn a_table_that_grows_also_shrinks_whatever_its_limits() {
    let one = || Limit::rate("a", 1, SECOND);
    let two = || vec![one(), Limit::rate("b", 1, SECOND)];
    let budget = || vec![Limit::budget("a", 1, SECOND)];
    for limits in [vec![one()], two(), budget()] {
        let rows = rows_of_visitors(limits, |number| format!("{number}/{number}"));
        assert!(rows < 10_000, "{rows} rows are kept, 2,000 of which matter");
    }
}

/// What is asked of a key that was idle, by a lease: its row is new, too.
#[test]
fn a_table_shrinks_by_leases_as_well() {
    let time = ManualClock::default();
    let set = rate(&time).build().unwrap();
    for number in 0..20_000 {
        let lease = set.try_acquire(&number.to_string(), 1).wait().unwrap();
        drop(lease.granted().unwrap());
        time.advance(Duration::from_millis(1));
    }
    let rows = set.count().wait().unwrap().keys;
    assert!(rows < 1_000, "{rows} rows");
}

/// The shortest of several times that something took, so that it does not matter
/// what else the machine does.
#[expect(clippy::disallowed_methods, reason = "it is about real time")]
fn shortest(times: usize, mut act: impl FnMut()) -> Duration {
    let took = (0..times).map(|_| {
        let begun = std::time::Instant::now();
        act();
        begun.elapsed()
    });
    took.min().expect("at least once")
}

/// Every end of a lease, also of one that nobody knows, made the next new key
/// look at every row of a full table again.
#[test]
fn a_full_table_is_not_swept_for_every_lease_that_ends() {
    const KEYS: usize = 1 << 17;
    const DAY: Duration = Duration::from_secs(86_400);
    let time = ManualClock::default();
    let limits = [Limit::rate("a", 2, DAY), Limit::rate("b", 2, DAY)];
    let builder = LimitSet::builder().limits(limits).max_keys(KEYS);
    let set = builder.clock(time.clock()).build().unwrap();
    for number in 0..KEYS {
        assert!(
            set.check(&format!("{number}"), 1)
                .wait()
                .unwrap()
                .admitted()
        );
    }
    let refused = || assert!(set.check("new", 1).wait().is_err());
    let swept = shortest(1, refused);
    let unknown: LeaseId = "1".repeat(32).parse().unwrap();
    let stirred = shortest(20, || {
        assert!(set.release("x", unknown).wait().is_err());
        refused();
    });
    assert!(stirred < swept / 20, "{stirred:?} after an unknown lease");
    let ended = shortest(20, || {
        let id = set
            .try_acquire("7", 1)
            .wait()
            .unwrap()
            .granted()
            .unwrap()
            .detach();
        set.cancel("7", id).wait().unwrap();
        refused();
    });
    assert!(
        ended < swept / 20,
        "{ended:?} after a lease, {swept:?} at all"
    );
}

/// What a lease gives back makes room for another key at once, however full the
/// table was found before.
#[test]
fn what_a_lease_gives_back_makes_room_in_a_full_table() {
    let time = ManualClock::default();
    let limit = Limit::rate("r", 5, Duration::from_secs(86_400));
    let builder = LimitSet::builder().limits([limit, Limit::concurrency("c", 5)]);
    let set = builder.max_keys(100).clock(time.clock()).build().unwrap();
    let lease = |key: &str| {
        set.try_acquire(key, 1)
            .wait()
            .map(|asked| asked.granted().unwrap())
    };
    let mut held: Vec<_> = (0..100).map(|n| lease(&format!("{n}")).unwrap()).collect();
    let full = DecisionError::Store(StoreError::KeysFull { max_keys: 100 });
    for number in 0..200 {
        let key = format!("later {number}");
        assert_eq!(lease(&key).unwrap_err(), full);
        time.advance(Duration::from_millis(1));
        let mut first = held.remove(0);
        first.cancel().wait().unwrap();
        held.push(lease(&key).unwrap());
    }
    assert_eq!(set.count().wait().map(|all| all.keys), Ok(100));
}

/// One customer made up users until there was room for nobody else's.
#[test]
fn keys_of_one_root_cannot_use_up_those_of_all() {
    let time = ManualClock::default();
    let each = Limit::rate("each", 1, SECOND).at_level("user");
    let all = Limit::rate("all", 1_000_000, SECOND).at_level("org");
    let builder = LimitSet::builder().levels(["org", "user"]);
    let builder = builder.limits([all, each]).clock(time.clock());
    let set = builder.max_keys(100).build().unwrap();
    let full = DecisionError::Store(StoreError::RootKeysFull {
        max_keys_per_root: 50,
    });
    let mut admitted = 0;
    for number in 0..200 {
        match set.check(&format!("hostile/{number}"), 1).wait() {
            Ok(decision) => admitted += u32::from(decision.admitted()),
            Err(error) => assert_eq!(error, full),
        }
    }
    assert_eq!(
        (admitted, set.count().wait().map(|all| all.keys)),
        (49, Ok(50)),
        "with the root's own"
    );
    assert!(set.check("victim/1", 1).wait().unwrap().admitted());
    assert!(
        !set.check("hostile/1", 1).wait().unwrap().admitted(),
        "it is known"
    );
    // What is spent makes room.
    for number in 0..200 {
        time.advance(SECOND);
        assert!(
            set.check(&format!("hostile/later {number}"), 1)
                .wait()
                .unwrap()
                .admitted()
        );
    }
    assert!(set.count().wait().unwrap().keys <= 52);
}

/// With a ttl of less than ended leases are remembered for, each new lease of a
/// busy key was put into the middle of a queue of all of them.
#[test]
fn a_lease_costs_the_same_however_many_have_ended_lately() {
    let time = ManualClock::default();
    let limit = Limit::concurrency("running", 8).ttl(30 * SECOND);
    let set = LimitSet::builder().limit(limit).clock(time.clock());
    let set = set.build().unwrap();
    let one = || {
        let id = set.try_acquire("k", ()).wait().unwrap().granted().unwrap();
        set.release("k", id.detach()).wait().unwrap();
        time.advance(Duration::from_micros(200));
    };
    let some = || (0..100).for_each(|_| one());
    let first = shortest(20, some);
    (0..100_000).for_each(|_| one());
    let last = shortest(20, some);
    assert!(last < 8 * first, "{first:?} for 100 leases, later {last:?}");
}

#[test]
fn a_root_that_may_hold_no_lease_is_granted_none() {
    let set = rate(&ManualClock::default()).max_leases_per_root(0);
    let refused = detached(&set.build().unwrap(), "k").expect_err("none is allowed");
    assert_eq!(refused.kind(), tidegate::ErrorKind::Full);
}
