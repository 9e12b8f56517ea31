//! What may be held up by a store, beside the tasks of a runtime: changes of limits and
//! overrides, which are no decisions.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// Runs what may be held up, whatever it is about.
pub(super) fn beside<T>(command: impl FnOnce() -> T) -> T {
    match has_other_threads() {
        true => block_in_place(command),
        false => command(),
    }
}

fn has_other_threads() -> bool {
    let runtime = Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}
