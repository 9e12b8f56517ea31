//! The leases of which a process writes a few words in place are leases like any other for
//! whoever else comes to their root.

mod support;

use std::sync::Arc;
use std::time::Duration;

use support::Dir;
use tidegate::{Lease, Limit, LimitSet, PageOf, Request, Select};
use tidegate_shm::ShmStore;

const HOUR: Duration = Duration::from_secs(3_600);
const FOREVER: Duration = Duration::from_secs(400 * 86_400);

/// Two of these stand in place.
const HELD: usize = 5;

fn set(store: ShmStore) -> LimitSet {
    let set = LimitSet::builder().name("t").limits([
        Limit::budget("calls", 1_000, FOREVER),
        Limit::budget("tokens", 100_000, FOREVER),
        Limit::concurrency("slots", HELD as u64).ttl(HOUR),
    ]);
    set.store(Arc::new(store)).build().expect("sound")
}

/// What of each limit one of these takes.
const ONE: &[(&str, u64)] = &[("calls", 1), ("tokens", 300), ("slots", 1)];

fn take(set: &LimitSet, key: &str) -> Lease {
    let granted = set.try_acquire(key, Request::named(ONE)).wait();
    granted.expect("an answer").granted().expect("it fits")
}

/// Leases that one process takes after another, so that it has their root at hand.
fn held(set: &LimitSet, key: &str) -> Vec<Lease> {
    take(set, key).cancel().wait().expect("it is held");
    (0..HELD).map(|_| take(set, key)).collect()
}

fn left(set: &LimitSet, key: &str) -> [u64; 3] {
    let peeked = set
        .peek(key, Request::named(ONE))
        .wait()
        .expect("an answer");
    ["calls", "tokens", "slots"].map(|limit| {
        let standing = peeked.standing(limit);
        standing.expect("it is of the set").remaining
    })
}

#[test]
fn another_lists_them_in_pages_and_finds_what_they_hold() {
    let dir = Dir::default();
    let (own, other) = (set(dir.store()), set(dir.store()));
    let leases = held(&own, "k");
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let page = other.list_leases(PageOf {
            select: Select::All,
            after: after.as_deref(),
            most: 2,
        });
        let page = page.wait().expect("an answer");
        listed.extend(page.items);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut found: Vec<_> = listed.iter().map(|lease| lease.id).collect();
    let mut ids: Vec<_> = leases.iter().map(Lease::id).collect();
    found.sort_unstable();
    ids.sort_unstable();
    assert_eq!(found, ids);
    for lease in &listed {
        let own = leases.iter().find(|own| own.id() == lease.id);
        let own = own.expect("it is one of them");
        let said = (lease.granted_at, lease.fence);
        assert_eq!(said, (own.granted_at(), own.fence()));
        let mut taken = lease.taken.clone();
        taken.sort_unstable();
        let mut all: Vec<_> = ONE
            .iter()
            .map(|(name, amount)| ((*name).to_owned(), *amount))
            .collect();
        all.sort_unstable();
        assert_eq!(taken, all);
    }
    assert_eq!(left(&other, "k"), [995, 98_500, 0]);
}

#[test]
fn another_ends_any_of_them_and_its_holder_the_rest() {
    let dir = Dir::default();
    let (own, other) = (set(dir.store()), set(dir.store()));
    for by_other in 0..HELD {
        let key = format!("key {by_other}");
        let mut leases = held(&own, &key);
        let mut ended = leases.swap_remove(by_other);
        let settled = other.settle(&*key, ended.id(), &[("tokens", 100)]).wait();
        let settled = settled.expect("it is held");
        let usage = settled.usage("tokens").expect("it is of the set");
        assert_eq!((usage.taken, usage.used), (300, 100));
        assert_eq!(left(&other, &key), [995, 98_700, 1]);
        for lease in &mut leases {
            lease.cancel().wait().expect("it is held");
        }
        let again = ended.release().wait().expect("it is remembered");
        assert!(again.repeated());
        assert_eq!(left(&other, &key), [999, 99_900, HELD as u64]);
    }
}

/// In whatever order they end.
#[test]
fn their_holder_ends_them_in_any_order_and_takes_others() {
    let dir = Dir::default();
    let own = set(dir.store());
    let mut leases = held(&own, "k");
    for round in 0..200_usize {
        let mut ended = leases.swap_remove(round * 7 % leases.len());
        ended.cancel().wait().expect("it is held");
        if round % 3 == 0 {
            let mut other = leases.swap_remove(round % leases.len());
            other.cancel().wait().expect("it is held");
            leases.push(take(&own, "k"));
        }
        leases.push(take(&own, "k"));
        if round % 17 == 0 {
            // From here on each has records of its own.
            assert_eq!(left(&own, "k")[2], 0);
        }
    }
    for lease in &mut leases {
        lease.cancel().wait().expect("it is held");
    }
    assert_eq!(left(&own, "k"), [1_000, 100_000, HELD as u64]);
}

#[test]
fn one_that_is_renewed_or_adjusted_stays_what_it_is() {
    let dir = Dir::default();
    let own = set(dir.store());
    let mut leases = held(&own, "k");
    let expires_at = leases[0].expires_at();
    leases[0].renew(2 * HOUR).wait().expect("it is held");
    assert!(leases[0].expires_at() > expires_at);
    let adjusted = leases[1].adjust(&[("tokens", 1_000)]).wait();
    assert!(adjusted.expect("an answer").admitted());
    assert_eq!(left(&own, "k"), [995, 97_800, 0]);
    for lease in &mut leases {
        lease.cancel().wait().expect("it is held");
    }
    assert_eq!(left(&own, "k"), [1_000, 100_000, HELD as u64]);
}
