//! The roots that this process has [entered](crate::roots) where usage is listed by them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_store::core::{Span, Timestamp};

/// A root is entered again once so much time has passed.
const AGAIN: Span = Span::from_secs(3_600);

/// So many roots are remembered as entered, and up to as many of those before them.
const REMEMBERED: usize = 1 << 17;

type Since = HashMap<Box<[u8]>, Timestamp>;

/// The roots that this process has entered lately, and when.
#[derive(Debug, Default)]
pub(crate) struct Entered {
    since: Mutex<(Since, Since)>,
    /// The last that was to be entered was not.
    has_failed: AtomicBool,
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
    }

    /// Whether the last that was to be entered was not.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
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
}
