//! Remembers limits in shared memory (Linux): one mapped file, which any number of
//! processes of one user open by name, and any of which may be killed at any instruction.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](ShmStore) | the store: a segment, and tables by name |
//! | [`Options`], [`ShmError`] | how a segment is opened, and why not |
//! | `layout` | where everything stands in the segment |
//! | `segment`, `mapping` | the file: made, found, checked; its words in memory |
//! | `lock` | a robust mutex that processes share |
//! | [`patience`](with_patience) | how long a thread waits for one |
//! | `txn`, `kill` | a step on a shard, all or nothing; where tests kill it or stop it |
//! | `tree` | records in order of their keys |
//! | `keys`, `kept`, `root` | what is kept of a root, as the optimistic loop loads and writes it |
//! | `sweep`, `steps` | what is spent is deleted where there is no room; how steps are taken |
//! | `registry` | tables by name, and the revisions of their plans |
//! | `owner`, `definitions`, `events` | what is defined for an owner, and what is told of it |
//! | `following` | who follows what is defined |
//! | `clock`, `process` | the machine's clock; who is there |
//! | `queue` | those who wait, of all processes, in order |
//! | `wakeup`, `waiters`, `waiting` | how processes wake each other; where their requests wait |
//! | `owed`, `debts` | what a process still has to give back |
//! | `shuttle_tests` | the queue and its wake-ups under a model checker |
//! | `look_tests` | that few processes are looked at under a lock |
//! | `shared`, `decide`, `table` | what the tables of a store share; a command's way |
//! | `at_hand`, `plain` | plain roots that this process knows as they are kept; the fast path |
//! | `in_place` | the few leases that the fast path writes in place |
//! | `listing` | keys, leases and usage, a page at a time |
//!
//! **The core decides**, in the process that asks: the loop of
//! [`tidegate_store::optimistic`], on bytes. A command locks the one shard of its root,
//! decides, and writes what has changed, before it returns.
//!
//! **The segment** is `DIR/tidegate-UID-NAME`, of a fixed size and sparse. Its words are of
//! eight bytes in the machine's order; places are offsets, never addresses.
//!
//! | at (bytes) | what |
//! |---|---|
//! | 0 | header |
//! | 4096 | wakeup slots |
//! | 69632 | shards |
//! | 884992 | chunk table |
//!
//! Behind the table (a word for each chunk: nobody's, a shard's, or a shard's for this step)
//! come the chunks of 16 KiB, cut into blocks of 128 bytes. The header has:
//!
//! | at (bytes) | word | |
//! |---|---|---|
//! | +0 | magic | `TIDEGATE` |
//! | +8 | version | of this layout |
//! | +16 | size | of the file, in bytes |
//! | +24 | state | 2: ready |
//! | +32 | created | in microseconds since 1970 |
//! | +40 | boot | which boot of the machine, two words |
//! | +56 | shape | numbers of shards and buckets, lengths of journals and chunks |
//! | +64 | chunks | how many |
//! | +72 | seed | of hashes |
//! | +80 | defined | a futex that moves when something is defined |
//! | +88 | next chunk | where to look for a free one first |
//! | +96 | namespace | in which its processes have their numbers |
//!
//! There are 64 shards of roots, chosen by a hash of the table's number and the root, and
//! one for tables and definitions. Each has:
//!
//! | at (bytes) | words | |
//! |---|---|---|
//! | +0 | shard's mutex | robust, of C |
//! | +64 | shard's entries | how many of the journal count; 0: the last step is done |
//! | +72 | shard's more | the chunk in which a long journal goes on |
//! | +80 | shard's free | the first free block |
//! | +88 | shard's bump, end | the rest of its newest chunk |
//! | +104 | shard's rows | how many are kept |
//! | +112 | shard's latest | its clock |
//! | +120 | shard's left | how many blocks are free |
//! | +256 | shard's buckets | 256 heads of trees |
//! | +2304 | shard's versions | for each head a number that moves when its tree is written to |
//! | +4352 | shard's journal | 512 entries: where, and what was there |
//!
//! **Killed at any instruction.** A step notes what each word was before it changes it, and
//! is done when the number of entries is zero. Whoever gets the lock of one that was killed
//! (`EOWNERDEAD`) puts back what the entries say. It is a journal to undo by, and not to redo
//! by: so reads need no overlay, and a step that finds no room half-way is taken back by the
//! same code. Who waits is woken before the step is done that gives him his turn: killed in
//! between, the step never was.
//!
//! **Bounds.** What is spent makes room for what is not; when nothing is, the answer is
//! [`Full`](tidegate_store::StoreError::Full), which says so: make the segment anew with a
//! larger [`size`](Options::size); it does not grow. A shard has a few blocks that
//! only what gives something back may use up. Memory is taken from
//! the system chunk by chunk, and where it has none, that is the same answer.
//!
//! **Clock.** The machine's, read after the lock was given: all processes have the same. Up
//! to ten seconds behind the last command it stands still; further, limits follow it back.
//! [`Clock::Caller`] is for tests.
//!
//! **Waiting.** Requests of all processes that wait for one root stand in one queue in the
//! segment, in order of arrival; nobody overtakes them, and nobody polls: who gives
//! something back wakes who is first, by a futex. A process that waits has two threads (one
//! drives its requests, one sleeps on its futex), begun with its first request that waits. It
//! watches those who hold what it waits for, and those before it, by pidfd.
//!
//! **Leases end with their process**, if that is before their expiry: with the one that made
//! them, or renewed or adjusted them last. A root has a note of each process that may hold some.
//! Whoever is refused, or looks, or holds a lease of the root for the first time, sees first
//! whether one of these was killed; then what it held expires, as at its expiry. A process that runs another program
//! (`execve`) is another one from then on.
//!
//! **A process that stands still in a step** (`SIGSTOP`) keeps that shard's lock: commands there are
//! [`Busy`](tidegate_store::StoreError::Busy) after the [`deadline`](Options::deadline). A lease that
//! is let go of meanwhile, and a place in a queue, are given back as soon as the lock is: a thread
//! waits for it, and the next command there does it first.
//!
//! **One pid namespace.** Locks know their owners by numbers of threads, and leases and places
//! theirs by numbers of processes: whoever has them from another namespace is refused when he
//! opens the segment.
//!
//! **After a fork** the child is a process of its own, with threads of its own.
//!
//! **The fast path.** A process has at hand what it knew of a plain root when it wrote there
//! last, with the version of the root's bucket. As long as that has not moved, nobody has
//! written there: the core then decides on what is at hand, and nothing is loaded, looked for
//! or decoded. What has changed is written all the same, in the same step with the same
//! journal, before the command returns: what is at hand is never ahead of the segment. Two
//! leases of such a root at most, made so and held still, are a few words of one record, which
//! is filled in place. Whoever comes to the root by any other way finds that record, and
//! first makes of each lease in it what any other is.
//!
//! **What a command costs**, by instructions (callgrind, the profile `explore`), the library's
//! part included: an acquire and a release of one limit 8,300, of three limits and a settlement
//! 11,200, a check of one rate 4,400, each on a root at hand; on any other about 60,000, 67,000
//! and 18,000. Of one command's 3,400 of these in this store, the row takes 900 to be written, the
//! decision 800 and the row's bytes 370; the mutex is 150 of it, and the clock 130. There is no
//! system call.
//!
//! Deliberately absent: growth, chunks that a shard gives back, a place in the queue that is
//! lost by standing still (a process that is stopped keeps those behind it), protection from
//! another program of the same user that writes to the file or cuts it short.
#![cfg(target_os = "linux")]

mod at_hand;
mod clock;
mod debts;
mod decide;
mod definitions;
mod error;
mod events;
mod following;
mod in_place;
mod kept;
mod keys;
mod kill;
mod layout;
mod listing;
mod lock;
#[cfg(all(test, not(shuttle)))]
mod look_tests;
mod mapping;
mod options;
mod owed;
mod owner;
mod patience;
mod plain;
mod process;
mod queue;
mod registry;
mod root;
mod segment;
mod shared;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod steps;
mod store;
mod sweep;
mod table;
mod tree;
mod txn;
mod waiters;
mod waiting;
mod wakeup;

pub use error::ShmError;
#[cfg(feature = "kill-points")]
pub use kill::{arm, killed, passed};
pub use options::{Clock, Options};
pub use patience::with_patience;
pub use store::ShmStore;
