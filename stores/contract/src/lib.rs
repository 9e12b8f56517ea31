//! What every store must do, and nothing about how.
//!
//! | room | holds |
//! |---|---|
//! | [`key`] | keys as paths of bytes, and their ancestors |
//! | [`keymap`] | something for each of many keys, shared between versions |
//! | [`owned`] | a key that is kept, in place if it is short |
//! | [`plan`] | the rules of a limit set, as a store is given them |
//! | [`command`] | what can be asked of a store, as data |
//! | [`reply`] | what it answers |
//! | [`listing`] | what a table holds, a page at a time |
//! | [`definitions`] | what owners have a store keep, by versions that others follow |
//! | [`store`] | the traits [`Store`], [`Table`] and [`RemoteTable`] |
//! | [`oracle`] | a command executed on rows in memory: the one decision loop |
//! | [`bytes`] | plans, rows and leases as bytes, for a store that keeps them |
//! | [`adopted`] | when a plan came into force |
//! | [`book`] | the leases of some rows: found by id, expired in order |
//! | [`lease_room`] | how many leases are held and remembered, and may be |
//! | [`cell`] | a single bucket in an atomic word, for a pinned key |
//! | [`rebuild`] | rules made again from the numbers that they keep |
//! | [`sync`] | locks and atomics, replaced by a model checker's when one runs |
//!
//! Deliberately absent: any store, any client library, any clock, waiting.

pub mod adopted;
pub mod book;
pub mod bytes;
pub mod cell;
pub mod command;
pub mod definitions;
pub mod error;
pub mod key;
pub mod keymap;
pub mod lease_room;
pub mod listing;
pub mod oracle;
pub mod owned;
pub mod plan;
pub mod rebuild;
pub mod reply;
pub mod store;
pub mod sync;

pub use adopted::Adopted;
pub use book::Book;
pub use cell::HotCell;
pub use command::{Command, Detail, Ending, Terms, Verb};
pub use definitions::{Board, Definition, Definitions, Follower, Followers, Later};
pub use error::StoreError;
pub use key::{KeyError, KeyPath};
pub use keymap::KeyMap;
pub use lease_room::{LeaseBounds, LeaseRoom};
pub use listing::{HeldLease, Listing, Page, Select};
pub use owned::OwnedKey;
pub use plan::{Overrides, Plan, PlanLimit};
pub use reply::{Decision, Granted, Reply, Settlement, Use};
pub use store::{Abilities, Patience, RemoteTable, Sent, Store, Table, TableBounds};
pub use tidegate_core as core;
