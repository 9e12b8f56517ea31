//! Remembers in one process: the default store.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](MemoryStore) | the store, and the tables by name |
//! | [`bounds`](Bounds), `capacity` | how much a table may hold, and how much it does |
//! | [`queue`](Queued) | requests that wait for their turn, in order, before a table |
//! | `table` | one set's keys, spread over shards |
//! | [`journal`] | what changed since it was last asked, for a store that keeps a journal |
//! | `watched` | how a table hands its changes over, and takes them back |
//! | `shard` | the rows of some roots under one lock: decide, retire, sweep |
//! | `listing` | keys, leases and usage, a page at a time |
//! | `usage` | what was used of each row and limit, hour by hour |
//! | `rows` | the two shapes a row can have, and how one turns into the other |
//! | `side_table` | rows that are more than a word: shared, or with leases that may give back |
//! | `hash` | where a key's row is looked for |
//! | `slab` | rows in a dense array, found by hash through an index |
//!
//! A key and all its ancestors live in one shard (the root's hash picks it),
//! so one lock makes a step atomic and no two locks are ever held at once.
//! A plan of a single bucket keeps one 64-bit word a key (but for as long as a
//! lease may give back); every other plan keeps the states of its limits. Nothing is
//! dropped that does not equal "never seen": a store full of live keys answers with an
//! error.
//!
//! Deliberately absent: a clock, unsafe code, a background thread.
#![forbid(unsafe_code)]

mod bounds;
mod capacity;
mod hash;
pub mod journal;
mod listing;
mod queue;
mod rows;
mod shard;
mod side_table;
mod slab;
mod store;
mod table;
mod usage;
mod watched;

pub use bounds::Bounds;
pub use queue::{Immediate, Queued};
pub use store::MemoryStore;
pub use table::MemoryTable;
