//! Until when pools pass over a set: what one of them is told holds for all pools in
//! which the set is a member, here and, on a store that processes share, elsewhere.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::{Span, Timestamp};
use tidegate_store::sync::Mutex;
use tidegate_store::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use tidegate_store::{Definition, Definitions, Follower, Hold, Store, TimerHandler};

use crate::clock::Clock;

/// As whom the store knows them all: no service and no set is called so.
const OWNER: &str = "cool-downs";

/// What is said of a set that cools down: this version, and where one was ended before it, the
/// store's version up to which all have ended, in eight bytes, the largest first.
const COOLS: u8 = 1;

fn said(ended: u64) -> Vec<u8> {
    let mut value = vec![COOLS];
    if ended > 0 {
        value.extend(ended.to_be_bytes());
    }
    value
}

/// Up to which version all before it have ended; `None`: it is said in words of a newer program.
fn read(value: &[u8]) -> Option<u64> {
    match value {
        [COOLS] => Some(0),
        [COOLS, ended @ ..] => ended.try_into().ok().map(u64::from_be_bytes),
        _ => None,
    }
}

/// The store has no version yet of what is in force here.
const NOT_KEPT: u64 = u64::MAX;

/// A cool-down in the store that ends so much sooner than the one here is told again: what
/// clocks and the way take is not that much.
const TOLD_AGAIN: Span = Span::from_millis(500);

/// No cool-down is longer; ten years.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 86_400);

/// Until when one set is passed over.
pub(crate) struct Cooling {
    /// In microseconds by the set's clock; the smallest number if it never was.
    until: AtomicI64,
    clock: Clock,
    /// The set's name.
    name: String,
    /// Where others are told; `None`: there are no others.
    store: Option<Arc<dyn Store>>,
    /// Which store the set is on.
    set_store: Arc<dyn Store>,
    follows: AtomicBool,
    version: AtomicU64,
    /// At which version the store keeps this cool-down: it has said so, and nothing was said here
    /// since that it may not have heard of.
    kept_at: AtomicU64,
    /// Cool-downs up to this version of the store were ended here, or were when this one was told.
    ended: AtomicU64,
    /// Whom to tell when it changes, by caller.
    calls: Mutex<HashMap<u64, Weak<dyn TimerHandler>, foldhash::fast::RandomState>>,
}

/// Whoever waits for a set that cools down is passed over.
impl Hold for Cooling {
    fn until(
        &self,
        now: Timestamp,
        caller: u64,
        again: &dyn Fn() -> Weak<dyn TimerHandler>,
    ) -> Option<Timestamp> {
        // Before it looks: a change that comes now is not missed.
        let mut calls = self.calls.lock();
        let Some(until) = self.until().filter(|&until| until > now) else {
            calls.clear();
            return None;
        };
        let is_there = |known: &Weak<dyn TimerHandler>| known.strong_count() > 0;
        if !calls.get(&caller).is_some_and(is_there) {
            if calls.len() == calls.capacity() {
                calls.retain(|_, known| is_there(known));
            }
            calls.insert(caller, again());
        }
        Some(until)
    }
}

impl fmt::Debug for Cooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cooling")
            .field("until", &self.until())
            .finish_non_exhaustive()
    }
}

impl Cooling {
    pub(super) fn new(clock: Clock, name: String, store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            until: AtomicI64::new(i64::MIN),
            clock,
            name,
            store: store.abilities().shared.then(|| Arc::clone(&store)),
            set_store: store,
            follows: AtomicBool::new(false),
            version: AtomicU64::new(0),
            kept_at: AtomicU64::new(NOT_KEPT),
            ended: AtomicU64::new(0),
            calls: Mutex::default(),
        })
    }

    /// Whether the two sets are on one store.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        let (store, other) = (&self.set_store, &other.set_store);
        std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(other))
    }

    /// The set is a pool's member: from here on what others say of it holds.
    pub(crate) fn begin(self: &Arc<Self>) {
        if let Some(store) = &self.store
            && !self.follows.swap(true, Ordering::AcqRel)
        {
            let this: Arc<dyn Follower> = Arc::clone(self) as Arc<dyn Follower>;
            store.follow(OWNER, Arc::downgrade(&this));
        }
    }

    /// Until when it is passed over, or was.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        let until = self.until.load(Ordering::SeqCst);
        (until > i64::MIN).then(|| Timestamp::from_micros(until))
    }

    /// For so long from now, or for as long as was said before if that is longer; answers
    /// until when. Others are told in the background.
    pub(crate) fn cool_down(&self, duration: Duration) -> Timestamp {
        let duration = duration.min(LONGEST);
        let until = self.clock.now() + Span::from(duration);
        let before = self.extend(until);
        if until > before {
            self.kept_at.store(NOT_KEPT, Ordering::Release);
            self.tell(duration);
        }
        before.max(until)
    }

    /// Tells others that it lasts so long from now.
    fn tell(&self, duration: Duration) {
        let Some(store) = &self.store else { return };
        let value = said(self.ended.load(Ordering::Acquire));
        let definition = Definition::new(self.name.as_bytes(), value);
        // It goes on by itself. A store that is away is not told.
        drop(store.define(OWNER, definition.lasting(duration)));
    }

    /// The store keeps one that lasts so long from now, at this version. Who said it had not heard
    /// of the one here if that is longer, which is told again: it is in its place.
    fn keeps(&self, left: Duration, version: u64) {
        let now = self.clock.now();
        let end = now + Span::from(left);
        let before = self.extend(end);
        let is_longer = before.since(end) > TOLD_AGAIN;
        let kept_at = if is_longer { NOT_KEPT } else { version };
        self.kept_at.store(kept_at, Ordering::Release);
        if is_longer {
            self.tell(before.since(now).as_duration().min(LONGEST));
        }
    }

    fn extend(&self, until: Timestamp) -> Timestamp {
        let before = self.until.fetch_max(until.as_micros(), Ordering::SeqCst);
        self.changed();
        Timestamp::from_micros(before)
    }

    /// Ends it now; who waits is served.
    pub(crate) fn end(&self) {
        self.ended.fetch_max(self.version(), Ordering::AcqRel);
        self.end_here();
        if let Some(store) = &self.store {
            drop(store.define(OWNER, Definition::none(self.name.as_bytes())));
        }
    }

    fn end_here(&self) {
        self.kept_at.store(NOT_KEPT, Ordering::Release);
        self.until.store(i64::MIN, Ordering::SeqCst);
        self.changed();
    }

    /// It has begun, ended, or become longer.
    fn changed(&self) {
        let calls = std::mem::take(&mut *self.calls.lock());
        let there = calls.into_values().filter_map(|call| call.upgrade());
        there.for_each(|call| call.fire(self.clock.now()));
    }
}

impl Follower for Cooling {
    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What a newer version says of a set is left alone. (Two who go over to the same
    /// say the same twice.) What the store kept and no longer has was ended.
    fn follow(&self, definitions: &Definitions) {
        if definitions.newer_than != self.version() {
            return;
        }
        let own = |one: &&Definition| one.key == self.name.as_bytes();
        let found = definitions.changed.iter().find(own);
        if definitions.version < definitions.newer_than {
            // The store has lost what it had, and counts anew.
            self.ended.store(0, Ordering::Release);
        }
        match found.map(|own| (own.value.as_deref().map(read), own.lasts, own.version)) {
            Some((Some(Some(ended)), Some(left), version)) => {
                // One that is not before this was of a store that has lost it since.
                let ended = if ended < version { ended } else { 0 };
                self.ended.fetch_max(ended, Ordering::AcqRel);
                if self.kept_at.load(Ordering::Acquire) <= ended {
                    self.end_here();
                }
                self.keeps(left, version);
            }
            // It is over by itself.
            Some((None, Some(_), version)) => self.keeps(Duration::ZERO, version),
            Some((None, None, _)) => self.end_here(),
            None if definitions.whole && self.kept_at.load(Ordering::Acquire) != NOT_KEPT => {
                self.end_here();
            }
            _ => {}
        }
        self.version.store(definitions.version, Ordering::Release);
    }
}

#[cfg(all(test, feature = "memory"))]
mod tests {
    use tidegate_store::{Abilities, Change, Defined, Plan, StoreError, StoreFuture, Table};

    use super::*;
    use crate::clock::ManualClock;

    #[derive(Debug, Default)]
    struct Rung(AtomicBool);

    impl TimerHandler for Rung {
        fn fire(self: Arc<Self>, _: Timestamp) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    /// Notes what it is told, and keeps nothing.
    #[derive(Default)]
    struct Notes(Mutex<Vec<Option<Duration>>>);

    impl Store for Notes {
        fn abilities(&self) -> Abilities {
            Abilities {
                shared: true,
                ..crate::embedded::store().abilities()
            }
        }

        fn change(&self, _: &str, change: Change) -> StoreFuture<Defined> {
            self.0.lock().push(change.definition.lasts);
            StoreFuture::new(async { Err(StoreError::Unavailable("it notes".to_owned())) })
        }

        fn open(&self, _: &str, _: &Arc<Plan>) -> Result<Arc<dyn Table>, StoreError> {
            Err(StoreError::Unavailable("it notes".to_owned()))
        }
    }

    fn told(version: u64, lasts: Duration) -> Definitions {
        let cools = Definition::new("set", said(0));
        Definitions {
            newer_than: version - 1,
            version,
            whole: false,
            changed: vec![cools.at_version(version).lasting(lasts)],
        }
    }

    /// What the store said of it was always shorter, and it was told again without end.
    #[test]
    fn a_cool_down_of_more_than_ten_years_is_told_once() {
        let (notes, clock) = (Arc::new(Notes::default()), ManualClock::default().clock());
        let now = clock.now();
        let cooling = Cooling::new(clock, "set".to_owned(), Arc::<Notes>::clone(&notes));
        assert_eq!(
            cooling.cool_down(Duration::MAX).since(now).as_duration(),
            LONGEST
        );
        cooling.follow(&told(1, LONGEST));
        assert_eq!(*notes.0.lock(), [Some(LONGEST)]);
    }

    /// A shorter one that was over before this server looked ended the longer one here.
    #[test]
    fn the_longer_of_two_is_told_again_though_the_shorter_is_over() {
        let (notes, clock) = (Arc::new(Notes::default()), ManualClock::default().clock());
        let cooling = Cooling::new(clock, "set".to_owned(), Arc::<Notes>::clone(&notes));
        let [minute, hour] = [60, 3_600].map(Duration::from_secs);
        cooling.cool_down(hour);
        cooling.follow(&told(1, minute));
        assert_eq!(*notes.0.lock(), [Some(hour); 2]);
        let mut is_over = told(2, Duration::ZERO);
        is_over.changed[0].value = None;
        cooling.follow(&is_over);
        assert_eq!(*notes.0.lock(), [Some(hour); 3]);
    }

    /// It was passed over at once, by all, for what was left of the one that had ended.
    #[test]
    fn a_cool_down_that_was_ended_does_not_come_back_with_the_next() {
        let clock = ManualClock::default().clock();
        let cooling = || Cooling::new(clock.clone(), "set".to_owned(), crate::embedded::store());
        let left = |cooling: &Cooling| {
            let until = cooling.until()?;
            Some(until.since(clock.now()).as_duration().as_secs())
        };
        let [second, minute] = [1, 60].map(Duration::from_secs);
        let (ends, hears, other) = (cooling(), cooling(), cooling());
        for one in [&ends, &hears, &other] {
            one.follow(&told(1, minute));
        }
        ends.end();
        assert_eq!(left(&ends), None);
        // It heard of the end and of the next at once: of the next alone.
        let next = Definition::new("set", said(ends.ended.load(Ordering::Acquire)));
        let next = |version| Definitions {
            newer_than: 1,
            version,
            whole: false,
            changed: vec![next.clone().at_version(version).lasting(second)],
        };
        hears.follow(&next(3));
        assert_eq!(left(&hears), Some(1));
        // What came after the end is no part of what has ended.
        other.cool_down(2 * minute);
        other.follow(&next(3));
        assert_eq!(left(&other), Some(120));
    }

    /// What another program says in other words is none of these.
    #[test]
    fn what_is_said_is_read_back() {
        for ended in [0, 1, u64::MAX] {
            assert_eq!(read(&said(ended)), Some(ended));
        }
        assert_eq!([&[][..], &[2], &[1, 7]].map(read), [None; 3]);
    }

    /// Each that had waited was kept to be told, though it had gone, until the cool-down
    /// ended; and each that came looked through all of them.
    #[test]
    fn those_who_have_gone_are_not_kept_to_be_told() {
        let clock = ManualClock::default().clock();
        let store = crate::embedded::store();
        let cooling = Cooling::new(clock.clone(), "set".to_owned(), store);
        cooling.cool_down(LONGEST);
        let wait = |caller| {
            let rung = Arc::new(Rung::default());
            let again = || Arc::<Rung>::downgrade(&rung) as Weak<dyn TimerHandler>;
            assert!(Hold::until(&*cooling, clock.now(), caller, &again).is_some());
            rung
        };
        let stay: Vec<_> = (0..3).map(wait).collect();
        (3..10_000).map(wait).for_each(drop);
        assert!(cooling.calls.lock().len() < 100);
        // One that comes again is another.
        let anew = wait(9_999);
        cooling.end();
        assert!(stay.iter().all(|rung| rung.0.load(Ordering::SeqCst)));
        assert!(anew.0.load(Ordering::SeqCst));
    }

    /// A server that had been cut off passed the member over until the old end: what it is told
    /// then is all that is kept, and that has no word of what was removed.
    #[test]
    fn a_cool_down_that_is_not_among_all_that_is_kept_has_ended() {
        let clock = ManualClock::default().clock();
        let cooling = || Cooling::new(clock.clone(), "set".to_owned(), crate::embedded::store());
        let is_cool = |cooling: &Cooling| cooling.until().is_some_and(|until| until > clock.now());
        let hour = Duration::from_secs(3_600);
        let told = |newer_than, version, whole, changed: &[Definition]| Definitions {
            newer_than,
            version,
            whole,
            changed: changed.to_vec(),
        };
        let kept = [Definition::new("set", said(0)).at_version(7).lasting(hour)];
        let other = [Definition::new("other", said(0))
            .at_version(9)
            .lasting(hour)];
        let cools = cooling();
        cools.cool_down(hour);
        cools.follow(&told(0, 7, true, &kept));
        cools.follow(&told(7, 8, false, &other));
        assert!(is_cool(&cools), "of another");
        cools.follow(&told(8, 9, true, &kept));
        assert!(is_cool(&cools), "it is among them");
        cools.follow(&told(9, 5_000, true, &other));
        assert!(!is_cool(&cools));
        // A store that was not told yet, or was away when it was to be, has ended nothing.
        let cools = cooling();
        cools.follow(&told(0, 7, true, &kept));
        cools.cool_down(2 * hour);
        cools.follow(&told(7, 5_000, true, &other));
        assert!(is_cool(&cools));
    }
}
