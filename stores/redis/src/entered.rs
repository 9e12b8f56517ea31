//! The roots that this process has [entered](crate::roots) where usage is listed by them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_store::core::{Span, Timestamp};

/// A root is entered again once so much time has passed.
const AGAIN: Span = Span::from_secs(3_600);

/// So many roots are remembered as entered, and up to as many of those before them.
const REMEMBERED: usize = 1 << 17;

/// With one of so many roots, and with the first in so long a time, what is over is dropped.
const SWEEP: u64 = 8;

/// See [`SWEEP`].
const SWEEP_AFTER: Span = Span::from_secs(3_600);

type Since = HashMap<Box<[u8]>, Timestamp>;

/// The roots that this process has entered lately, and when.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    since: Mutex<(Since, Since)>,
    /// The last that was to be entered was not.
    has_failed: AtomicBool,
    /// How many were entered since what is over was dropped, and when that was.
    swept: Mutex<Option<(u64, Timestamp)>>,
}

impl Entered {
    pub(crate) fn has(&self, root: &[u8], now: Timestamp) -> bool {
        let (new, old) = &*self.since.lock();
        let since = new.get(root).or_else(|| old.get(root));
        since.is_some_and(|&since| since <= now && now < since + AGAIN)
    }

    /// Each is to be entered again: the order may be lost.
    pub(crate) fn forget(&self) {
        *self.since.lock() = Default::default();
        *self.swept.lock() = None;
    }

    /// Whether the last that was to be entered was not.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Whether the root that is entered now is one with which what is over is dropped.
    pub(crate) fn sweeps(&self, now: Timestamp) -> bool {
        let mut swept = self.swept.lock();
        let since = swept.filter(|&(_, at)| at <= now && now < at + SWEEP_AFTER);
        let since = since.filter(|&(entered, _)| entered + 1 < SWEEP);
        *swept = Some(since.map_or((0, now), |(entered, at)| (entered + 1, at)));
        since.is_none()
    }

    pub(crate) fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note(&self, root: &[u8], now: Timestamp) {
        self.has_failed.store(false, Ordering::Relaxed);
        let (new, old) = &mut *self.since.lock();
        if new.len() >= REMEMBERED {
            *old = std::mem::take(new);
        }
        new.insert(root.into(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_entered_again_after_an_hour_and_few_are_remembered() {
        let entered = Entered::default();
        let at = |minutes: i64| Timestamp::from_micros(minutes * 60_000_000);
        entered.note(b"a", at(100));
        let has = |minutes| entered.has(b"a", at(minutes));
        assert_eq!([99, 100, 159, 160].map(has), [false, true, true, false]);
        for n in 0..3 * REMEMBERED {
            entered.note(n.to_string().as_bytes(), at(100));
        }
        let (new, old) = &*entered.since.lock();
        assert!(new.len() + old.len() <= 2 * REMEMBERED);
        assert!(!new.contains_key(&b"a"[..]) && !old.contains_key(&b"a"[..]));
    }

    #[test]
    fn what_is_over_is_dropped_with_one_of_eight_and_once_an_hour() {
        let entered = Entered::default();
        let at = |minutes: i64| Timestamp::from_micros(minutes * 60_000_000);
        let sweeps: Vec<bool> = (0..17).map(|_| entered.sweeps(at(100))).collect();
        let expected: Vec<bool> = (0..17).map(|n| n % 8 == 0).collect();
        assert_eq!(sweeps, expected);
        assert_eq!(
            [159, 160, 161, 99].map(|minutes| entered.sweeps(at(minutes))),
            [false, true, false, true]
        );
        entered.forget();
        assert!(entered.sweeps(at(99)));
    }
}
