//! The commands that are cut.

use tidegate::{Error, LeaseId, LimitSet, Request};

use crate::sets::{LONG, Leases, Sets, TEN, TEN_AND_A_SLOT, TEN_OF_THE_RATE_AND_A_SLOT};

/// Of the ten that a lease is for, and what is said of it later.
pub const USED: u64 = 3;
pub const LATER: u64 = 9;

/// What a command does to a key; it is told the leases that are there, and of how many
/// tokens one is to be settled.
pub type Act = fn(&Sets, &str, Leases, u64) -> Result<(), Error>;

/// A command that is cut.
pub struct Verb {
    pub name: &'static str,
    pub act: Act,
    /// Asked again, it does nothing more.
    pub is_done_once: bool,
}

const fn once(name: &'static str, act: Act) -> Verb {
    Verb {
        name,
        act,
        is_done_once: true,
    }
}

const fn each_time(name: &'static str, act: Act) -> Verb {
    Verb {
        name,
        act,
        is_done_once: false,
    }
}

pub const VERBS: &[Verb] = &[
    each_time("take", |sets, key, _, _| {
        sets.both
            .check(key, Request::named(TEN))
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
    each_time("take of a single rate", |sets, key, _, _| {
        sets.rate
            .check(key, 10)
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
    each_time("take of plain limits", |sets, key, _, _| {
        let ten = &[("rate", 10), ("gpu", 0)];
        sets.plain
            .check(key, Request::named(ten))
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
    each_time("debit", |sets, key, _, _| {
        sets.both
            .debit(key, Request::named(TEN))
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
    once("lease", |sets, key, _, _| {
        let ask = Request::named(TEN_AND_A_SLOT).idempotency(b"once");
        let lease = sets.both.try_acquire(key, ask).wait()?.granted();
        lease.expect("it is free").detach();
        Ok(())
    }),
    once("lease of plain limits", |sets, key, _, _| {
        let ask = Request::named(TEN_OF_THE_RATE_AND_A_SLOT).idempotency(b"once");
        let lease = sets.plain.try_acquire(key, ask).wait()?.granted();
        lease.expect("it is free").detach();
        Ok(())
    }),
    once("settle of plain limits", |sets, key, leases, used| {
        let used = [("rate", used)];
        let settled = sets.plain.settle(key, leases.plain, &used).wait()?;
        let usage = settled.usage("rate").expect("it was taken");
        assert_eq!((usage.taken, usage.used), (10, USED));
        Ok(())
    }),
    once("renew", |sets, key, leases, _| {
        sets.both
            .renew(key, leases.both, 2 * LONG)
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
    once("adjustment to more", |sets, key, leases, _| {
        adjust(&sets.both, (key, leases.both), ("tokens", 30))
    }),
    once("adjustment to less", |sets, key, leases, _| {
        adjust(&sets.both, (key, leases.both), ("tokens", 4))
    }),
    once("adjustment of plain limits", |sets, key, leases, _| {
        adjust(&sets.plain, (key, leases.plain), ("rate", 30))
    }),
    once("settle", |sets, key, leases, used| {
        let settled = sets
            .both
            .settle(key, leases.both, &[("tokens", used)])
            .wait()?;
        // Whoever says something else later is told what was said first.
        let usage = settled.usage("tokens").expect("it was taken");
        assert_eq!((usage.taken, usage.used), (10, USED));
        Ok(())
    }),
    once("release", |sets, key, leases, _| {
        sets.both
            .release(key, leases.both)
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
    once("release of a single slot", |sets, key, leases, _| {
        sets.slots
            .release(key, leases.slot)
            .wait()
            .map(drop)
            .map_err(Error::from)
    }),
];

/// To so much in all, as a caller repeats it that knows nothing.
fn adjust(set: &LimitSet, (key, lease): (&str, LeaseId), to: (&str, u64)) -> Result<(), Error> {
    let decision = set.adjust(key, lease, &[to]).wait()?;
    assert!(decision.admitted(), "it fits");
    Ok(())
}
