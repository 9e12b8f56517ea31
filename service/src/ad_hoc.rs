//! Rates that come with the call instead of a policy (`CL.THROTTLE`).
//!
//! Each triple of capacity, count and period is a set of one bucket, made when
//! it is first asked for. Callers choose the numbers, so the sets are bounded, all
//! together and those that one token has asked for; one all of whose keys equal
//! "never seen" makes room for another, in the store, too. In a store that others share
//! it is made beside the threads of requests (`making`), which others go on with.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use tidegate_core::{Bucket, Span, Timestamp};
use tidegate_store::{Select, Store};
use tokio::runtime::Handle;

use super::access::Caller;
use super::active_policy::ActivePolicy;
use super::denials::Denials;
use super::error::ServiceError;
use super::limiter::Limiter;
use super::making::Making;
use super::rate::Rate;
use super::tables;
use tidegate::internal::{Overrides, SetBuilderInternals, SetInternals};
use tidegate::{Clock, Error, LimitSet, PageOf};

/// How many different rates there may be at once. A table is some tens of
/// kilobytes even while it is empty.
pub const MOST: usize = 1_024;

/// How often all tables are looked into for one that is spent: to do so takes
/// some milliseconds.
const LOOK_EVERY: Span = Span::SECOND;

/// How many of them one token may have asked for first. Callers without a token
/// cannot be told apart.
pub const MOST_PER_CALLER: usize = MOST / 4;

/// The rates asked for so far.
pub(super) struct AdHoc {
    sets: RwLock<Sets>,
    /// From when on all tables may be looked into again.
    look_from: AtomicI64,
    making: Making<Rate, Arc<ActivePolicy>>,
    maker: Maker,
}

/// What makes a set of a rate.
#[derive(Clone)]
struct Maker {
    store: Option<Arc<dyn Store>>,
    clock: Clock,
    denials: Arc<Denials>,
    namespace: Option<Arc<str>>,
}

type Sets = HashMap<Rate, Entry, foldhash::fast::RandomState>;

struct Entry {
    active: Arc<ActivePolicy>,
    /// The token that asked for it first.
    requested_by: Option<Arc<str>>,
    /// How long after its latest use every key equals "never seen".
    refill: Span,
    /// Whether it was used since room was last looked for: a mark, so that no
    /// use has to read a clock or write to what others read.
    used: AtomicBool,
    /// When that was: it was not used later, unless the mark says so.
    looked_at: Timestamp,
}

impl AdHoc {
    pub(super) fn new(store: Option<Arc<dyn Store>>, clock: Clock, denials: Arc<Denials>) -> Self {
        Self {
            sets: RwLock::default(),
            look_from: AtomicI64::new(i64::MIN),
            making: Making::default(),
            maker: Maker {
                store,
                clock,
                denials,
                namespace: None,
            },
        }
    }

    /// The same, measured as those of this namespace.
    pub(super) fn of_namespace(mut self, namespace: Option<Arc<str>>) -> Self {
        self.maker.namespace = namespace;
        self
    }

    /// The set for `rate`.
    pub(super) async fn get(
        &self,
        caller: &Caller,
        rate: Rate,
    ) -> Result<Arc<ActivePolicy>, ServiceError> {
        if let Some(entry) = self.read().get(&rate) {
            entry.touch();
            return Ok(Arc::clone(&entry.active));
        }
        // Most rates are known: theirs is not moved with all that this needs.
        Box::pin(self.make(caller.token(), rate)).await
    }

    #[cold]
    async fn make(
        &self,
        requested_by: Option<&str>,
        rate: Rate,
    ) -> Result<Arc<ActivePolicy>, ServiceError> {
        let bucket = rate.bucket()?;
        let runtime = match self.maker.is_shared() {
            true => Handle::try_current().ok(),
            false => None,
        };
        let Some(runtime) = runtime else {
            let make = || Ok(Arc::new(self.maker.serve(rate)?));
            return self.add(requested_by, rate, &bucket, make);
        };
        self.has_room(&mut self.write(), requested_by)?;
        let maker = self.maker.clone();
        let make = move || Ok(Arc::new(maker.serve(rate)?));
        let active = self.making.make(&runtime, rate, make).await?;
        self.add(requested_by, rate, &bucket, || Ok(active))
    }

    /// The set for `rate` that is there, or is made now and added.
    fn add(
        &self,
        requested_by: Option<&str>,
        rate: Rate,
        bucket: &Bucket,
        make: impl FnOnce() -> Result<Arc<ActivePolicy>, Error>,
    ) -> Result<Arc<ActivePolicy>, ServiceError> {
        let mut sets = self.write();
        if let Some(entry) = sets.get(&rate) {
            entry.touch();
            return Ok(Arc::clone(&entry.active));
        }
        self.has_room(&mut sets, requested_by)?;
        let active = make()?;
        let entry = Entry {
            active: Arc::clone(&active),
            requested_by: requested_by.map(Into::into),
            refill: bucket.refill(),
            // That is now: its caller is about to.
            used: AtomicBool::new(false),
            looked_at: self.maker.clock.now(),
        };
        sets.insert(rate, entry);
        Ok(active)
    }

    /// Makes room for another, where there is none.
    fn has_room(&self, sets: &mut Sets, requested_by: Option<&str>) -> Result<(), ServiceError> {
        let now = self.maker.clock.now();
        if is_full(sets, requested_by).is_some() {
            self.make_room(sets, |entry| !entry.matters(now));
        }
        if is_full(sets, requested_by).is_some() && self.may_look(now) {
            self.make_room(sets, |entry| entry.is_spent());
        }
        match is_full(sets, requested_by) {
            Some(most) => Err(ServiceError::TooManyRates(most)),
            None => Ok(()),
        }
    }

    /// Drops the sets of which `spent` says that all keys equal "never seen".
    fn make_room(&self, sets: &mut Sets, spent: impl Fn(&mut Entry) -> bool) {
        sets.retain(|rate, entry| {
            let goes = spent(entry);
            if let (true, Some(store)) = (goes, &self.maker.store) {
                store.forget(&tables::of_rate(*rate));
            }
            !goes
        });
    }

    /// Whether it is time to look into every table again.
    fn may_look(&self, now: Timestamp) -> bool {
        let next = self.look_from.load(Ordering::Relaxed);
        let may = now.as_micros() >= next;
        if may {
            let next = now + LOOK_EVERY;
            self.look_from.store(next.as_micros(), Ordering::Relaxed);
        }
        may
    }

    fn read(&self) -> RwLockReadGuard<'_, Sets> {
        self.sets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sets> {
        self.sets.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maker {
    /// Whether the store is beyond a network, and several may open one set at once.
    fn is_shared(&self) -> bool {
        let store = self.store.as_ref();
        store.is_some_and(|store| store.abilities().shared)
    }

    fn serve(&self, rate: Rate) -> Result<ActivePolicy, Error> {
        let policy = rate.policy();
        let mut builder = LimitSet::builder()
            .name(tables::of_rate(rate))
            .limits(policy.limits.iter().cloned())
            // Nobody can override it: it follows nothing that the store keeps.
            .governed(Overrides::default())
            .clock(self.clock.clone());
        if let Some(store) = &self.store {
            builder = builder.store(Arc::clone(store));
        }
        Ok(ActivePolicy::new(
            policy,
            Limiter::Set(builder.build()?),
            None,
            Arc::clone(&self.denials),
            // Nobody waits for one.
            (Duration::ZERO, self.namespace.as_deref()),
            None,
        ))
    }
}

/// The bound that keeps this token from another rate, if one does.
fn is_full(sets: &Sets, requested_by: Option<&str>) -> Option<usize> {
    if sets.len() >= MOST {
        return Some(MOST);
    }
    let theirs =
        |entry: &&Entry| requested_by.is_some() && entry.requested_by.as_deref() == requested_by;
    let is_full = sets.values().filter(theirs).count() >= MOST_PER_CALLER;
    is_full.then_some(MOST_PER_CALLER)
}

impl Entry {
    /// Called under the lock, so that whoever makes room sees every use.
    #[inline]
    fn touch(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether somebody is about to use it, or some key may have something used.
    fn matters(&mut self, now: Timestamp) -> bool {
        let about_to = Arc::strong_count(&self.active) > 1;
        if about_to || std::mem::take(self.used.get_mut()) {
            self.looked_at = now;
            return true;
        }
        now < self.looked_at + self.refill
    }

    /// Whether nobody is about to use it, and its table, looked into, has no key
    /// that has something used. Beyond a network nobody looks.
    fn is_spent(&self) -> bool {
        let set = self.active.set();
        let first = PageOf {
            select: Select::All,
            after: None,
            most: 1,
        };
        if Arc::strong_count(&self.active) > 1 || set.is_shared() {
            return false;
        }
        let page = set.list_keys(first).now_or_never().and_then(Result::ok);
        page.is_some_and(|page| page.items.is_empty() && page.next.is_none())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::AtomicUsize;

    use tidegate_core::MAX_AMOUNT;
    use tidegate_memory::MemoryStore;
    use tidegate_store::{
        Abilities, Definitions, Follower, Plan, StoreError, StoreFuture, Table, block_on,
    };

    use super::super::access::Credentials;
    use super::*;
    use tidegate::ManualClock;

    /// Counts who follows something of it.
    #[derive(Default)]
    struct Followed {
        memory: MemoryStore,
        followers: AtomicUsize,
    }

    impl Store for Followed {
        fn abilities(&self) -> Abilities {
            self.memory.abilities()
        }

        fn definitions(&self, owner: &str, newer_than: u64) -> StoreFuture<Definitions> {
            self.memory.definitions(owner, newer_than)
        }

        fn follow(&self, owner: &str, follower: Weak<dyn Follower>) {
            self.followers.fetch_add(1, Ordering::Relaxed);
            self.memory.follow(owner, follower);
        }

        fn open(&self, name: &str, plan: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
            self.memory.open(name, plan)
        }

        fn forget(&self, name: &str) {
            self.memory.forget(name);
        }
    }

    fn rate(count: u64) -> Rate {
        Rate {
            capacity: 2,
            count,
            period_secs: 1,
        }
    }

    fn anyone() -> Caller {
        Credentials::default().identify(None).unwrap()
    }

    fn get(rates: &AdHoc, rate: Rate) -> Result<Arc<ActivePolicy>, ServiceError> {
        block_on(rates.get(&anyone(), rate))
    }

    #[test]
    fn a_rate_is_one_set_however_often_it_is_asked_for() {
        let rates = AdHoc::new(None, ManualClock::default().clock(), Arc::default());
        let first = get(&rates, rate(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &get(&rates, rate(1)).unwrap()));
        assert!(!Arc::ptr_eq(&first, &get(&rates, rate(2)).unwrap()));
    }

    #[test]
    fn numbers_that_make_no_rate_are_refused() {
        let rates = AdHoc::new(None, Clock::system(), Arc::default());
        let wrong = |capacity, count, period_secs| Rate {
            capacity,
            count,
            period_secs,
        };
        for rate in [
            wrong(0, 1, 1),
            wrong(1, 0, 1),
            wrong(1, 1, 0),
            wrong(1, 1, u64::MAX),
            wrong(MAX_AMOUNT + 1, 1, 1),
            wrong(1, u64::MAX, 1),
        ] {
            assert!(get(&rates, rate).is_err(), "{rate:?}");
        }
        assert!(rates.read().is_empty());
    }

    #[test]
    fn only_a_set_whose_keys_are_spent_makes_room() {
        let time = ManualClock::default();
        let rates = AdHoc::new(None, time.clock(), Arc::default());
        for count in 1..=MOST as u64 {
            let active = get(&rates, rate(count)).unwrap();
            assert!(active.check("k", 2).wait().unwrap().admitted());
        }
        let one_more = rate(MOST as u64 + 1);
        assert!(matches!(
            get(&rates, one_more),
            Err(ServiceError::TooManyRates(MOST))
        ));
        // The slowest refills in two seconds.
        let kept = Arc::downgrade(&get(&rates, rate(7)).unwrap());
        let held = get(&rates, rate(8)).unwrap();
        time.advance(Duration::from_secs(2));
        assert!(get(&rates, one_more).is_ok());
        assert_eq!(rates.read().len(), 3);
        assert!(kept.ptr_eq(&Arc::downgrade(&get(&rates, rate(7)).unwrap())));
        assert!(Arc::ptr_eq(&held, &get(&rates, rate(8)).unwrap()));
    }

    /// Each of them followed overrides under a name of its own, and left it in the store: a client
    /// that always comes with other numbers took more and more memory.
    #[test]
    fn rates_that_come_and_go_leave_nobody_who_follows_the_store() {
        let (store, time) = (Arc::<Followed>::default(), ManualClock::default());
        let kept: Arc<dyn Store> = Arc::<Followed>::clone(&store);
        let rates = AdHoc::new(Some(kept), time.clock(), Arc::default());
        for count in 1..=5_000 {
            let active = get(&rates, rate(count)).unwrap();
            assert!(active.check("k", 1).wait().unwrap().admitted());
            drop(active);
            time.advance(Duration::from_secs(2));
        }
        assert!(rates.read().len() <= MOST);
        assert_eq!(store.followers.load(Ordering::Relaxed), 0);
    }
}
