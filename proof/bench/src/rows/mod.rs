//! The rows, one file for each question.

mod allocations;
mod bench;
mod by_handle;
mod by_key;
mod fair_queue;
mod memory;
mod semaphore;
mod three_limits;
mod two_threads;
mod waiters;

use crate::options::Options;
use crate::report::Report;
use bench::Bench;

/// A group of rows that share their set-up. `run` is called only if the group's
/// name, or one that begins with it, was asked for.
struct Group {
    name: &'static str,
    run: fn(&mut Bench<'_>, &str),
}

const GROUPS: &[Group] = &[
    Group {
        name: "handle",
        run: by_handle::admitted,
    },
    Group {
        name: "handle-decision",
        run: by_handle::decision,
    },
    Group {
        name: "handle-remaining",
        run: by_handle::remaining,
    },
    Group {
        name: "handle-full",
        run: by_handle::full,
    },
    Group {
        name: "handle-prime",
        run: by_handle::prime,
    },
    Group {
        name: "handle-refused",
        run: by_handle::refused,
    },
    Group {
        name: "two-threads",
        run: two_threads::one_key,
    },
    Group {
        name: "two-threads-two-keys",
        run: two_threads::two_keys,
    },
    Group {
        name: "key-hot",
        run: by_key::hot,
    },
    Group {
        name: "key-hot-refused",
        run: by_key::hot_refused,
    },
    Group {
        name: "key-100k-uniform",
        run: by_key::uniform_100k,
    },
    Group {
        name: "key-100k-zipf",
        run: by_key::zipf_100k,
    },
    Group {
        name: "key-1m-uniform",
        run: by_key::uniform_1m,
    },
    Group {
        name: "key-1m-zipf",
        run: by_key::zipf_1m,
    },
    Group {
        name: "bytes-a-key-1m",
        run: memory::bytes_a_key,
    },
    Group {
        name: "three-limits",
        run: three_limits::by_handle,
    },
    Group {
        name: "three-limits-by-key",
        run: three_limits::by_key,
    },
    Group {
        name: "three-limits-refused",
        run: three_limits::refused,
    },
    Group {
        name: "waiters-1000",
        run: waiters::thousand,
    },
    Group {
        name: "fair-5000-flows-order",
        run: fair_queue::order,
    },
    Group {
        name: "fair-5000-flows-turns",
        run: fair_queue::turns,
    },
    Group {
        name: "semaphore-try",
        run: semaphore::try_acquire,
    },
    Group {
        name: "semaphore-await",
        run: semaphore::uncontended,
    },
    Group {
        name: "semaphore-64-tasks-one-thread",
        run: semaphore::current_thread,
    },
    Group {
        name: "semaphore-64-tasks-two-threads",
        run: semaphore::multi_thread,
    },
    Group {
        name: "allocations",
        run: allocations::on_the_path,
    },
];

/// Runs every group that was asked for.
pub fn run(options: &Options, report: &mut Report) {
    for group in GROUPS.iter().filter(|group| options.wants(group.name)) {
        (group.run)(&mut Bench { options, report }, group.name);
    }
}

/// Prints the groups' names.
pub fn list() {
    GROUPS.iter().for_each(|group| println!("{}", group.name));
}
