//! The distinct ways to decide a take, by name: those that are, and those that were.
//! Who adds or removes one says so here; a test looks whether they are as said.

use std::fs;
use std::path::Path;

/// Where a way is taken.
pub const PLACES: [&str; 9] = [
    "library asks a table",
    "memory",
    "shared memory",
    "Redis",
    "PostgreSQL",
    "optimistic (MariaDB, DynamoDB, shm)",
    "waiting",
    "tier",
    "another server's store",
];

/// One way. It is in a checkout if `text` is in `file` there.
struct Way {
    place: &'static str,
    what: &'static str,
    file: &'static str,
    text: &'static str,
    /// It is in this checkout.
    #[cfg_attr(not(test), expect(dead_code, reason = "what the test looks at"))]
    stands: bool,
}

const fn way(
    place: &'static str,
    what: &'static str,
    (file, text): (&'static str, &'static str),
    stands: bool,
) -> Way {
    Way {
        place,
        what,
        file,
        text,
        stands,
    }
}

const LIBRARY: &str = PLACES[0];
const MEMORY: &str = PLACES[1];
const SHARED_MEMORY: &str = PLACES[2];
const REDIS: &str = PLACES[3];
const POSTGRES: &str = PLACES[4];
const OPTIMISTIC: &str = PLACES[5];
const WAITING: &str = PLACES[6];
const TIER: &str = PLACES[7];
const REMOTE: &str = PLACES[8];

const WAYS: &[Way] = &[
    way(
        LIBRARY,
        "a command to the table",
        (
            "store/src/store.rs",
            "fn execute(&self, command: &Command<'_>",
        ),
        true,
    ),
    way(
        LIBRARY,
        "a handle's atomic bucket, by compare-and-swap",
        ("tidegate/src/set/handle.rs", "bucket.admit(cost"),
        true,
    ),
    way(
        LIBRARY,
        "an atomic bucket in a thread's cache of hot keys",
        ("tidegate/src/set/recent.rs", "pub(super) fn admit("),
        false,
    ),
    way(
        LIBRARY,
        "the lean method for the verdict of several limits",
        ("store/src/store.rs", "fn admit("),
        false,
    ),
    way(
        LIBRARY,
        "the lean method for the verdict of one limit",
        ("store/src/store.rs", "fn admit_one("),
        false,
    ),
    way(
        LIBRARY,
        "the lean method for the standing of one limit",
        ("store/src/store.rs", "fn check_one("),
        false,
    ),
    way(
        LIBRARY,
        "the second trait's method, for an answer that comes later",
        (
            "store/src/store.rs",
            "fn send(&self, command: &Command<'_>)",
        ),
        false,
    ),
    way(
        LIBRARY,
        "the second trait's method, for one that waits",
        ("store/src/store.rs", "fn wait(&self, command: &Command<'_>"),
        false,
    ),
    way(
        MEMORY,
        "a single packed bucket, under the shard's lock",
        ("stores/memory/src/shard.rs", "fn take_one("),
        true,
    ),
    way(
        MEMORY,
        "the same, for the verdict alone",
        ("stores/memory/src/shard.rs", "fn admit_one("),
        false,
    ),
    way(
        MEMORY,
        "the same, with the standing",
        ("stores/memory/src/shard.rs", "fn check_one("),
        false,
    ),
    way(
        MEMORY,
        "the reference, beside the rows",
        ("stores/memory/src/shard.rs", "decide::execute(command"),
        true,
    ),
    way(
        SHARED_MEMORY,
        "a plain command, on a root that the process has at hand",
        ("stores/shm/src/plain.rs", "fn decide_at_hand("),
        true,
    ),
    way(
        SHARED_MEMORY,
        "the same, its lease written in place",
        ("stores/shm/src/in_place.rs", "pub(crate) fn add("),
        true,
    ),
    way(
        REDIS,
        "one plain bucket, by itself",
        ("stores/redis/src/script.rs", "lua!(\"single_bucket\")"),
        true,
    ),
    way(
        REDIS,
        "plain limits",
        (
            "stores/redis/src/script.rs",
            "STRAIGHT: &str = lua!(\"straight\")",
        ),
        true,
    ),
    way(
        REDIS,
        "all else",
        ("stores/redis/src/script.rs", "lua!(\"main\")"),
        true,
    ),
    way(
        POSTGRES,
        "one plain bucket, by itself",
        ("stores/postgres/src/plain.rs", "async fn take_plain("),
        true,
    ),
    way(
        POSTGRES,
        "plain buckets and slots",
        (
            "stores/postgres/src/plain_set.rs",
            "SELECT tidegate.take_set(",
        ),
        true,
    ),
    way(
        POSTGRES,
        "all else",
        ("stores/postgres/src/sql.rs", "const DECIDE:"),
        true,
    ),
    way(
        OPTIMISTIC,
        "the reference, on the rows that were loaded",
        (
            "store/src/optimistic/attempt/mod.rs",
            "fn decide(&mut self)",
        ),
        true,
    ),
    way(
        WAITING,
        "a queue that the store keeps in this process",
        ("stores/memory/src/queue.rs", "fn take_in_turn("),
        true,
    ),
    way(
        WAITING,
        "a line that a store beyond a network keeps",
        ("stores/net/src/waiting/stay.rs", "pub fn stay("),
        true,
    ),
    way(
        WAITING,
        "a queue in shared memory",
        ("stores/shm/src/queue.rs", "pub(crate) fn enqueue("),
        true,
    ),
    way(
        WAITING,
        "a take that passes through the library's line",
        ("tidegate/src/wait/lines.rs", "fn pass_through("),
        false,
    ),
    way(
        WAITING,
        "a take that stands in the library's line",
        ("tidegate/src/wait/line.rs", "fn offer(set: &Arc<Inner>"),
        false,
    ),
    way(
        WAITING,
        "a pool's take at a member without waiting",
        ("tidegate/src/wait/pooled.rs", "pub(crate) fn try_member("),
        false,
    ),
    way(
        WAITING,
        "a pool's place in a member's line",
        ("tidegate/src/wait/pooled.rs", "pub(crate) fn stand("),
        false,
    ),
    way(
        TIER,
        "a grant that a node holds",
        ("stores/tier/src/key.rs", "pub(crate) fn decide("),
        true,
    ),
    way(
        TIER,
        "the same by a handle, without a look-up",
        ("stores/tier/src/key.rs", "pub(crate) fn spend("),
        true,
    ),
    way(
        TIER,
        "a slot that a node holds",
        ("stores/tier/src/key.rs", "pub(crate) fn lend("),
        true,
    ),
    way(
        TIER,
        "a refusal that is remembered",
        ("stores/tier/src/refusals.rs", "fn remembered("),
        true,
    ),
    way(
        REMOTE,
        "the command, sent to the server",
        (
            "stores/remote/src/wire/command.rs",
            "pub(crate) struct Ask<",
        ),
        true,
    ),
];

/// The ways that a checkout has, by place.
pub fn of(root: &Path) -> Vec<(&'static str, Vec<&'static str>)> {
    let of_place = |place| {
        let ways = WAYS
            .iter()
            .filter(|way| way.place == place && way.is_in(root));
        (place, ways.map(|way| way.what).collect())
    };
    PLACES.into_iter().map(of_place).collect()
}

impl Way {
    fn is_in(&self, root: &Path) -> bool {
        let text = fs::read_to_string(root.join(self.file));
        text.is_ok_and(|text| text.contains(self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;

    #[test]
    fn the_table_says_which_ways_there_are() {
        for way in WAYS {
            let Way {
                what, file, text, ..
            } = way;
            assert_eq!(
                way.is_in(&root()),
                way.stands,
                "{what}: whether {file} has {text:?}: the table of ways says otherwise"
            );
        }
    }
}
