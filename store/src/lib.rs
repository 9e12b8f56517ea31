//! What every store must do, and nothing about how.
//!
//! Whoever writes a store begins with [`Store`] and [`Table`], whose one method answers a
//! [`Command`]. A store that keeps bytes has [`optimistic`] decide: `examples/own_store` is
//! one, in maps behind a mutex. A store in this process may run [`decide`] on its own rows.
//!
//! | room | holds |
//! |---|---|
//! | [`key`] | keys as paths of bytes, and their ancestors |
//! | [`keymap`] | something for each of many keys, shared between versions |
//! | [`owned`] | a key that is kept, in place if it is short |
//! | [`plan`] | the rules of a limit set, as a store is given them |
//! | [`command`] | what can be asked of a store, as data |
//! | [`owned_command`] | the same, kept by a store that answers later |
//! | [`reply`] | what it answers |
//! | [`execution`] | how it answers: at once, or later |
//! | [`store_future`] | an answer that comes later, and who gives it |
//! | [`race`] | one request in the queues of several tables |
//! | [`timer`] | what is to happen at an instant, by the caller's clock |
//! | [`block`] | a future run to its end on a thread |
//! | [`listing`] | what a table holds, a page at a time |
//! | [`definitions`] | what owners have a store keep, by versions that others follow |
//! | [`store`] | the traits [`Store`] and [`Table`] |
//! | [`namespaced`] | a part of a store that shares nothing with the rest |
//! | [`decide`] | a command executed on rows in memory: the one decision loop |
//! | [`revisions`] | by what limits a process decides, and what its store does not have yet |
//! | [`retained`] | states of limits that the plan at hand does not know |
//! | [`bytes`] | plans, rows and leases as bytes, for a store that keeps them |
//! | [`adopted`] | when a plan came into force |
//! | [`ledger`] | the leases of some rows: found by id, expired in order |
//! | [`optimistic`] | load, decide, compare and write: the loop of a store that runs the core away from its data |
//! | [`lease_counts`] | how many leases are held and remembered, and may be |
//! | [`atomic_bucket`] | a single bucket of a pinned key, shared with its handles |
//! | [`rebuild`] | rules made again from the numbers that they keep |
//! | [`usage`] | how much was used, hour by hour |
//! | [`sync`] | locks and atomics, replaced by a model checker's when one runs |
//!
//! Deliberately absent: any store, any client library, any clock, waiting.

pub mod adopted;
pub mod atomic_bucket;
pub mod block;
pub mod bytes;
pub mod command;
pub mod decide;
pub mod definitions;
mod due_order;
pub mod error;
pub mod execution;
pub mod key;
pub mod keymap;
pub mod lease_counts;
pub mod ledger;
pub mod listing;
pub mod namespaced;
pub mod optimistic;
pub mod owned;
pub mod owned_command;
pub mod plan;
pub mod race;
pub mod rebuild;
pub mod reply;
pub mod retained;
pub mod revisions;
pub mod store;
pub mod store_future;
pub mod sync;
pub mod timer;
pub mod usage;

pub use adopted::Adopted;
pub use atomic_bucket::{AtomicBucket, AtomicBucketRule};
pub use block::{block_on, block_on_within};
pub use command::{
    Command, Detail, Ending, Hold, Item, KeyCommand, Op, Patience, Seat, Terms, Verb,
};
pub use definitions::{
    Change, Defined, Definition, Definitions, Event, Follower, Followers, LocalDefinitions,
};
pub use error::StoreError;
pub use execution::{AnswerRoom, Execution, Out};
pub use key::{KeyError, KeyPath};
pub use keymap::KeyMap;
pub use lease_counts::{LeaseBounds, LeaseCounts};
pub use ledger::Ledger;
pub use listing::{HeldLease, Listing, OwnedListing, Page, Select, Taken};
pub use namespaced::NamespacedStore;
pub use owned::OwnedKey;
pub use owned_command::{OwnedCommand, OwnedPath, OwnedVerb};
pub use plan::{Adaptive, Overrides, Plan, PlanLimit};
pub use race::Race;
pub use reply::{Answer, Count, Decision, Granted, Partial, Reply, Settlement, Use};
pub use retained::Retained;
pub use store::{Abilities, AtomicBuckets, Cleared, Store, Table, TableBounds};
pub use store_future::{Responder, StoreFuture, Wake, response_channel};
pub use tidegate_core as core;
pub use timer::{Alarm, Timer, TimerHandler};
pub use usage::{Hour, Hours, RootsOnPage, Usage, UsageChange};
