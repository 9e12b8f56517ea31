//! Commands that are held up by a disk, beside the tasks of a runtime.
//!
//! A store that syncs every change answers all who wait for one group at once.
//! Were they to wait on a runtime's own threads, a group could be no larger than
//! their number, and nobody else would be served meanwhile.

use std::future::{Future, poll_fn};
use std::pin::pin;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::set::LimitSet;

/// Runs `command` on `set`. If that may be held up, other threads go on with the
/// tasks of this runtime; one that has no others waits.
pub(super) fn aside<T>(set: &LimitSet, command: impl FnOnce() -> T) -> T {
    match set.holds_up() && has_other_threads() {
        true => block_in_place(command),
        false => command(),
    }
}

/// The same for what waits in line: each step of it is a command.
pub(super) async fn step_aside<T>(set: &LimitSet, turn: impl Future<Output = T>) -> T {
    let mut turn = pin!(turn);
    poll_fn(|context| aside(set, || turn.as_mut().poll(context))).await
}

fn has_other_threads() -> bool {
    let runtime = Handle::try_current();
    runtime.is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}
