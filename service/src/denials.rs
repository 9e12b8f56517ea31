//! Who is refused: told to whoever watches, and the most frequent counted.
//!
//! The count is a Space-Saving sketch (Metwally, Agrawal, El Abbadi, "Efficient
//! computation of frequent and top-k elements in data streams", 2005): of
//! [`SKETCHED`] keys, a new one takes the place of the least frequent and its
//! count. A key refused more often than `refusals / SKETCHED` is in it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tidegate_store::OwnedKey;
use tidegate_store::sync::Mutex;

use tidegate::Decision;

/// How many keys are counted at once.
const SKETCHED: usize = 256;

/// One refusal.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Denial<'a> {
    /// The policy.
    pub policy: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// The answer that was given.
    pub decision: &'a Decision,
}

/// Is told of each refusal, on the thread that refuses: it must not block.
pub type Watcher = dyn Fn(&Denial<'_>) + Send + Sync;

/// A key that is refused often.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Frequent {
    /// The policy.
    pub policy: Arc<str>,
    /// The key.
    pub key: Vec<u8>,
    /// How often it was refused: at most this, and at least `count - error`.
    pub count: u64,
    /// How much of the count may be another key's.
    pub error: u64,
}

/// Watchers and the sketch.
#[derive(Default)]
pub(super) struct Denials {
    sketch: Mutex<Sketch>,
    watchers: Mutex<Watchers>,
    watched: AtomicBool,
}

/// So few watchers are looked through at the next refusal alone.
const FEW: usize = 32;

#[derive(Default)]
struct Watchers {
    all: Vec<Weak<Watcher>>,
    /// With so many they are looked through for those that are gone: twice as many as were left
    /// the last time, so that this costs each of them little.
    look_at: usize,
}

impl Watchers {
    fn add(&mut self, watcher: &Arc<Watcher>) {
        if self.all.len() >= self.look_at.max(FEW) {
            self.drop_gone();
            self.look_at = 2 * self.all.len();
        }
        self.all.push(Arc::downgrade(watcher));
    }

    fn drop_gone(&mut self) {
        self.all.retain(|watcher| watcher.strong_count() > 0);
    }
}

type Counted = HashMap<(Arc<str>, OwnedKey), Count, foldhash::fast::RandomState>;

#[derive(Default)]
struct Sketch {
    counts: Counted,
}

#[derive(Clone, Copy, Default)]
struct Count {
    count: u64,
    error: u64,
}

impl Denials {
    /// Tells `watcher` of every refusal for as long as it is kept somewhere.
    pub(super) fn watch(&self, watcher: &Arc<Watcher>) {
        self.watchers.lock().add(watcher);
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(super) fn note(&self, policy: &Arc<str>, key: &[u8], decision: &Decision) {
        self.sketch.lock().count(policy, key);
        if self.watched.load(Ordering::Relaxed) {
            self.tell(&Denial {
                policy,
                key,
                decision,
            });
        }
    }

    #[cold]
    fn tell(&self, denial: &Denial<'_>) {
        let mut watchers = self.watchers.lock();
        watchers.drop_gone();
        let is_watched = !watchers.all.is_empty();
        self.watched.store(is_watched, Ordering::Relaxed);
        let watching: Vec<_> = watchers.all.iter().filter_map(Weak::upgrade).collect();
        drop(watchers);
        watching.iter().for_each(|watcher| watcher(denial));
    }

    /// The keys refused most often, the most frequent first.
    pub(super) fn most_frequent(&self, most: usize) -> Vec<Frequent> {
        let sketch = self.sketch.lock();
        let frequent = sketch.counts.iter().map(|((policy, key), count)| Frequent {
            policy: Arc::clone(policy),
            key: key.bytes().to_vec(),
            count: count.count,
            error: count.error,
        });
        let mut frequent: Vec<_> = frequent.collect();
        drop(sketch);
        frequent.sort_by(|a, b| (b.count, &a.policy, &a.key).cmp(&(a.count, &b.policy, &b.key)));
        frequent.truncate(most);
        frequent
    }
}

impl Sketch {
    fn count(&mut self, policy: &Arc<str>, key: &[u8]) {
        let name = (Arc::clone(policy), OwnedKey::new(key));
        if let Some(known) = self.counts.get_mut(&name) {
            known.count += 1;
            return;
        }
        let replaced = match self.counts.len() {
            SKETCHED.. => self.take_least(),
            _ => 0,
        };
        let count = Count {
            count: replaced + 1,
            error: replaced,
        };
        self.counts.insert(name, count);
    }

    /// Takes the least frequent out; answers its count.
    fn take_least(&mut self) -> u64 {
        let least = self.counts.iter().min_by_key(|(_, count)| count.count);
        let Some((name, count)) = least.map(|(name, count)| (name.clone(), count.count)) else {
            return 0;
        };
        self.counts.remove(&name);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_refused_often_is_found_among_many_refused_once() {
        let denials = Denials::default();
        let policy: Arc<str> = "p".into();
        for number in 0..10_000_u32 {
            denials.sketch.lock().count(&policy, &number.to_le_bytes());
            if number % 50 == 0 {
                denials.sketch.lock().count(&policy, b"often");
            }
        }
        let frequent = denials.most_frequent(3);
        assert_eq!(frequent[0].key, b"often");
        assert!(frequent[0].count >= 200 && frequent[0].count - frequent[0].error <= 200);
        assert_eq!(denials.sketch.lock().counts.len(), SKETCHED);
    }

    /// They went at the next refusal alone: streams that were opened and closed where nobody is
    /// refused took more and more memory.
    #[test]
    fn who_watches_no_more_is_forgotten_without_a_refusal() {
        let denials = Denials::default();
        let watcher = || -> Arc<Watcher> { Arc::new(|_: &Denial<'_>| {}) };
        let kept = watcher();
        denials.watch(&kept);
        (0..10_000).for_each(|_| denials.watch(&watcher()));
        let watchers = denials.watchers.lock();
        assert!(watchers.all.len() < 100);
        assert!(watchers.all[0].ptr_eq(&Arc::downgrade(&kept)));
    }
}
