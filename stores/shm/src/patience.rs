//! How long a thread waits for a lock, where that is less than its segment's deadline: one whose
//! event loop stands still meanwhile, or that keeps an interpreter's lock.

use std::cell::Cell;
use std::time::Duration;

#[derive(Clone, Copy)]
struct Patience {
    waited: Duration,
    most: Duration,
    /// Whether a lock was not given within it that the deadline would have waited longer for.
    was_short: bool,
}

impl Patience {
    const WHOLE: Self = Self {
        waited: Duration::ZERO,
        most: Duration::MAX,
        was_short: false,
    };
}

thread_local! {
    static HERE: Cell<Patience> = const { Cell::new(Patience::WHOLE) };
}

/// What this thread had before, again.
struct Restored(Patience);

impl Drop for Restored {
    fn drop(&mut self) {
        HERE.set(self.0);
    }
}

/// Does `act`, in which this thread waits for each lock at most for `most`, and at most for what
/// its segment's deadline has left once it was `waited` for already. Also answers whether a lock
/// was not given in that time though the deadline had some left: if a command has failed then, it
/// has changed nothing, and can be executed once more with more patience.
pub fn with_patience<T>(waited: Duration, most: Duration, act: impl FnOnce() -> T) -> (T, bool) {
    let patience = Patience {
        waited,
        most,
        was_short: false,
    };
    let _restored = Restored(HERE.replace(patience));
    let done = act();
    (done, HERE.get().was_short)
}

/// How long this thread waits for a lock.
pub(crate) fn within(deadline: Duration) -> Duration {
    let patience = HERE.get();
    patience.most.min(deadline.saturating_sub(patience.waited))
}

/// A lock was not given for so long.
#[cold]
pub(crate) fn was_not_given(within: Duration) {
    let patience = HERE.get();
    let was_short = patience.was_short || within == patience.most;
    HERE.set(Patience {
        was_short,
        ..patience
    });
}
