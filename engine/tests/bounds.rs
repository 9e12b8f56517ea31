//! How much a table holds: what is spent makes room, and nobody takes all of it.

use std::time::Duration;

use tidegate::contract::StoreError;
use tidegate::{Ask, Error, LeaseId, Limit, LimitSet, LimitSetBuilder, ManualClock};

const SECOND: Duration = Duration::from_secs(1);

fn rate(time: &ManualClock) -> LimitSetBuilder {
    let limit = Limit::rate("tpm", 1_000_000, SECOND);
    LimitSet::builder().limit(limit).clock(time.clock())
}

/// A lease that nobody watches over.
fn detached(set: &LimitSet, key: &str) -> Result<LeaseId, Error> {
    let lease = set.try_acquire(key, 10)?.granted().expect("below the rate");
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
        set.settle("k", id, &[("tpm", 7)]).unwrap();
        time.advance(SECOND / 10);
    }
}

#[test]
fn idempotency_keys_of_work_that_is_done_keep_nobody_from_a_lease() {
    let time = ManualClock::default();
    let set = rate(&time).max_leases(1_000).build().unwrap();
    for number in 0..10_000_u32 {
        let name = number.to_le_bytes();
        let lease = set.try_acquire("k", Ask::from(10).idempotency(&name));
        let mut lease = lease.unwrap().granted().unwrap();
        lease.settle(&[("tpm", 7)]).unwrap();
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
            set.release("k", id).unwrap();
            time.advance(Duration::from_micros(20));
            id
        })
        .collect();
    let remembered = set.leases_remembered().unwrap();
    assert!((500..=1_000).contains(&remembered), "{remembered}");
    let again = |id: &LeaseId| set.release("k", *id);
    let (forgotten, known) = ids.split_at(ids.len() - remembered);
    assert!(known.iter().all(|id| again(id).unwrap().repeated()));
    let unknown = Error::Store(StoreError::UnknownLease);
    assert!(forgotten.iter().all(|id| again(id).unwrap_err() == unknown));
}

/// A busy key fills what is shared, and no more: what others remember stays.
#[test]
fn a_busy_key_makes_nobody_else_forget() {
    let time = ManualClock::default();
    let set = rate(&time).max_remembered_leases(12_800).build().unwrap();
    let quiet = detached(&set, "quiet").unwrap();
    set.release("quiet", quiet).unwrap();
    for _ in 0..20_000 {
        let id = detached(&set, "busy").unwrap();
        set.release("busy", id).unwrap();
        time.advance(Duration::from_micros(20));
    }
    assert!(set.leases_remembered().unwrap() <= 12_800);
    assert!(set.release("quiet", quiet).unwrap().repeated());
    let late = detached(&set, "late").unwrap();
    set.release("late", late).unwrap();
    assert!(set.release("late", late).unwrap().repeated());
}

#[test]
fn a_lease_is_remembered_for_as_long_as_its_set_says() {
    let time = ManualClock::default();
    let set = rate(&time).remember(5 * SECOND).build().unwrap();
    let id = detached(&set, "k").unwrap();
    set.release("k", id).unwrap();
    time.advance(5 * SECOND - Duration::from_micros(1));
    assert!(set.release("k", id).unwrap().repeated());
    time.advance(Duration::from_micros(1));
    let unknown = Error::Store(StoreError::UnknownLease);
    assert_eq!(set.release("k", id).unwrap_err(), unknown);
    assert_eq!(set.leases_remembered(), Some(0));
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
            let lease = set.try_acquire("k", Ask::from(10).idempotency(&name));
            let id = lease.unwrap().granted().unwrap().detach();
            set.release("k", id).unwrap();
            id
        })
        .collect();
    time.advance(SECOND);
    let last = name(2_999);
    let again = set.try_acquire("k", Ask::from(10).idempotency(&last));
    let again = again.unwrap().granted().unwrap();
    assert!(!again.is_repeated());
    let unknown = Error::Store(StoreError::UnknownLease);
    assert_eq!(set.release("k", ids[2_998]).unwrap_err(), unknown);
    drop(again);
    for _ in 0..20 {
        assert!(set.check("k", 1).unwrap().admitted());
        drop(set.try_acquire("k", 1).unwrap());
    }
    assert!(set.leases_remembered().unwrap() <= 1, "of the dropped one");
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
            match set.try_acquire("hostile", Ask::from(()).ttl(year)) {
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
    assert_eq!(told, Some(Error::Store(full)));
    assert_eq!(set.leases_held(), Some(500));
    assert!(set.try_acquire("victim", ()).is_ok());
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
    let full = Error::Store(StoreError::RootLeasesFull {
        max_leases_per_root: 3,
    });
    assert_eq!(detached(&set, "acme/c").unwrap_err(), full);
    assert!(detached(&set, "other/a").is_ok());
    let (key, id) = held[1];
    set.release(key, id).unwrap();
    assert!(detached(&set, "acme/c").is_ok());
    assert_eq!(detached(&set, "acme/c").unwrap_err(), full);
    // Those that have expired are not held any more.
    time.advance(600 * SECOND);
    assert!(detached(&set, "acme/c").is_ok());
}

/// Expired leases of a key that nobody asks for any more counted as held.
#[test]
fn leases_that_have_expired_make_room_wherever_they_are() {
    let time = ManualClock::default();
    let set = rate(&time).max_leases(100).build().unwrap();
    for number in 0..100 {
        detached(&set, &format!("once {number}")).unwrap();
    }
    let full = Error::Store(StoreError::LeasesFull { max_leases: 100 });
    assert_eq!(detached(&set, "another").unwrap_err(), full);
    time.advance(600 * SECOND);
    detached(&set, "another").unwrap();
    assert_eq!(set.leases_held(), Some(1));
}
