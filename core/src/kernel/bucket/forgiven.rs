//! What of a bucket's level does not count, since a burst was lowered.

use alloc::boxed::Box;

use crate::time::Timestamp;

/// See the [module](self). A larger burst may count it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Forgiven {
    /// So much of the level, from its top; more than 0.
    pub(crate) level: u128,
    /// From when on nothing counts it any more.
    pub(crate) until: Timestamp,
}

/// How much of the level it is.
#[inline]
pub(super) fn of(forgiven: &Option<Box<Forgiven>>) -> u128 {
    forgiven.as_ref().map_or(0, |kept| kept.level)
}

/// Takes note of a level that has drained up to `now`: no more than it is
/// forgiven. Answers whether that is over, and takes it off the level.
#[inline]
pub(super) fn is_over(
    forgiven: &mut Option<Box<Forgiven>>,
    level: &mut u128,
    now: Timestamp,
) -> bool {
    forgiven.is_some() && ends(forgiven, level, now)
}

#[cold]
fn ends(forgiven: &mut Option<Box<Forgiven>>, level: &mut u128, now: Timestamp) -> bool {
    let Some(kept) = forgiven else { return false };
    kept.level = kept.level.min(*level);
    let is_over = kept.until <= now;
    if is_over {
        *level -= kept.level;
    }
    if is_over || kept.level == 0 {
        *forgiven = None;
    }
    is_over
}

/// So much of the level came back.
pub(super) fn take_off(forgiven: &mut Option<Box<Forgiven>>, back: u128) {
    if let Some(kept) = forgiven {
        kept.level = kept.level.saturating_sub(back);
        if kept.level == 0 {
            *forgiven = None;
        }
    }
}
