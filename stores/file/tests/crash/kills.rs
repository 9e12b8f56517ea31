//! What was acknowledged is there, nothing is lost or doubled.

use std::time::Duration;

use rand::RngExt;
use tidegate::{LeaseError, LimitSet, Request};
use tidegate_file::SyncMode;

use crate::child::{self, BUDGET, BURST, KEYS, SLOTS, THREADS, used};
use crate::received::{self, Lease, Name, Received, Stage};
use crate::support::{self, Place};

#[test]
fn nothing_acknowledged_is_lost_by_a_kill_if_always_synced() {
    kill_again_and_again(SyncMode::Always);
}

#[test]
fn at_most_an_interval_is_lost_by_a_kill_if_synced_by_the_interval() {
    kill_again_and_again(SyncMode::Interval(Duration::from_millis(50)));
}

#[test]
fn at_most_what_was_not_handed_over_is_lost_by_a_kill_if_never_synced() {
    kill_again_and_again(SyncMode::Never);
}

fn kills() -> usize {
    let given = std::env::var("TIDEGATE_KILLS").ok();
    given.map_or(20, |given| given.parse().expect("a number"))
}

/// What a mode may lose, as a span before the last decision that it
/// acknowledged. However late a thread is let run: a decision is taken to be as
/// young as when it was said, and the last one as old as when it was asked for.
fn loss(sync: SyncMode) -> Duration {
    match sync {
        SyncMode::Always => Duration::ZERO,
        SyncMode::Interval(span) => span,
        SyncMode::Never => Duration::from_secs(1),
    }
}

fn kill_again_and_again(sync: SyncMode) {
    let place = Place::new();
    let mut all = Accounts::default();
    for round in 0..kills() {
        let child = child::start(place.path(), sync, round);
        // Some are killed while they open the file.
        let answered = round % 4 > 0;
        let most = if answered { 300 } else { 60 };
        let run = Duration::from_millis(rand::rng().random_range(1..most));
        let received = received::until_killed(child, run, answered);
        let loss = loss(sync).as_micros() as u64;
        let after = After {
            // Each of the instants compared is cut to a whole microsecond.
            since: received.latest.saturating_sub(loss + 2),
            strict: sync == SyncMode::Always,
            received,
        };
        after.check(&place, &mut all, round);
    }
    println!(
        "{sync}: {} leases, {} admitted; {} lost, the oldest {} us before the last",
        all.leases, all.admitted, all.lost, all.oldest
    );
    assert!(all.leases > 0, "no child was quick enough to do anything");
}

/// What was used in all rounds.
#[derive(Default)]
struct Accounts {
    budget: [u64; KEYS],
    fence: u64,
    leases: u64,
    admitted: u64,
    lost: u64,
    /// How long before the last decision of its round the oldest of the lost was
    /// said, in microseconds.
    oldest: u64,
}

/// A file after a kill, and what was said before it.
struct After {
    received: Received,
    /// What was acknowledged earlier must be there.
    since: u64,
    /// So must all the rest.
    strict: bool,
}

impl After {
    fn check(&self, place: &Place, all: &mut Accounts, round: usize) {
        // What is resolved here is written when the store is dropped.
        let sync = SyncMode::Interval(Duration::from_secs(1));
        let store = support::open(&place.path(), sync).expect("a file that opens");
        let leases = child::leases(store.clone(), round as u64);
        let single_bucket = child::single_bucket(store);
        self.fences_grow(&leases, all);
        for (name, lease) in &self.received.leases {
            self.resolve(&leases, name, lease, all);
        }
        self.nothing_is_lost_or_doubled(&leases, all);
        for thread in 0..THREADS {
            self.admitted(&single_bucket, &format!("{round}-{thread}"), all);
        }
    }

    fn may_be_lost(&self, at: u64) -> bool {
        !self.strict && at >= self.since
    }

    fn fences_grow(&self, set: &LimitSet, all: &mut Accounts) {
        let fences = self.received.leases.values().map(|lease| lease.fence);
        all.fence = fences.fold(all.fence, u64::max);
        for key in 0..KEYS {
            let asked = set
                .try_acquire(&key.to_string(), 1)
                .wait()
                .expect("no error");
            let lease = asked.granted().expect("room");
            assert!(
                lease.fence() > Some(all.fence),
                "a fence that does not grow"
            );
            all.budget[key] += 1;
        }
    }

    /// Settles a lease as the child would have, once it is found: by its id if the child
    /// may have settled it, else by asking for it again, in the same name.
    fn resolve(&self, set: &LimitSet, (thread, number): &Name, lease: &Lease, all: &mut Accounts) {
        let (key, name) = (key_of(thread), format!("{thread}-{number}"));
        let key_name = key.to_string();
        let settle = |id| {
            let amounts = [("budget", used(*number))];
            set.settle(&key_name, id, &amounts).wait()
        };
        all.leases += u64::from(lease.stage >= Stage::Granted);
        if let Some(id) = lease.id.filter(|_| lease.stage >= Stage::Settling) {
            match settle(id) {
                Ok(settled) => {
                    assert!(!settled.expired());
                    let undone = lease.stage == Stage::Settled && !settled.repeated();
                    assert!(
                        !undone || self.may_be_lost(lease.settled_at),
                        "{name} is live again: {lease:?}"
                    );
                    all.budget[key] += used(*number);
                }
                Err(error) => {
                    assert_eq!(error, LeaseError::Unknown);
                    self.lost(&name, lease, all);
                }
            }
            return;
        }
        let ask = Request::from(3).idempotency(name.as_bytes());
        let asked = set.try_acquire(&key_name, ask).wait().expect("no error");
        let found = asked.granted().expect("room");
        if lease.stage == Stage::Granted && !found.is_repeated() {
            self.lost(&name, lease, all);
        } else if lease.stage == Stage::Granted {
            assert_eq!(found.fence(), Some(lease.fence), "{name} is another lease");
        }
        let settled = settle(found.detach()).expect("a lease that is held");
        assert!(!settled.expired() && !settled.repeated());
        all.budget[key] += used(*number);
    }

    fn lost(&self, name: &str, lease: &Lease, all: &mut Accounts) {
        assert!(
            self.may_be_lost(lease.granted_at),
            "{name} is lost: {lease:?}"
        );
        let before = self.received.latest.saturating_sub(lease.granted_at);
        (all.lost, all.oldest) = (all.lost + 1, all.oldest.max(before));
    }

    /// Everything has been settled: all slots are back, each use counts once.
    fn nothing_is_lost_or_doubled(&self, set: &LimitSet, all: &Accounts) {
        for key in 0..KEYS {
            let key_name = key.to_string();
            let slots = support::remaining(set, &key_name, "slots");
            assert_eq!(slots, SLOTS, "slots of {key} are lost or doubled");
            let limits = set.limits();
            let budget = limits.iter().find(|limit| limit.name() == "budget");
            let capacity = budget.expect("the budget").at_most();
            assert!(capacity >= BUDGET);
            let used = capacity - support::remaining(set, &key_name, "budget");
            assert_eq!(used, all.budget[key], "what was used of {key}");
        }
    }

    /// What the single bucket admitted is counted, and at most the one more that
    /// was admitted and not said.
    fn admitted(&self, set: &LimitSet, thread: &str, all: &mut Accounts) {
        let said = self
            .received
            .admitted
            .get(thread)
            .map_or(&[][..], Vec::as_slice);
        let must = said.iter().filter(|&&at| !self.may_be_lost(at)).count() as u64;
        let found = BURST - support::remaining(set, thread, "calls");
        all.admitted += said.len() as u64;
        if let Some(at) = said.get(found as usize) {
            all.lost += said.len() as u64 - found;
            all.oldest = all.oldest.max(self.received.latest.saturating_sub(*at));
        }
        let most = said.len() as u64 + 1;
        assert!(
            (must..=most).contains(&found),
            "{thread}: {found} of {must}..={most}"
        );
    }
}

fn key_of(thread: &str) -> usize {
    let (_, thread) = thread.split_once('-').expect("a round and a thread");
    thread.parse::<usize>().expect("a number") % KEYS
}
