//! Remembers in one file: what the memory store decides, a journal keeps.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](FileStore) | the store: opening, tables by name, compaction |
//! | [`options`](Options) | when the file is synced, and what is lost if not |
//! | [`error`](FileError) | why a file cannot be opened, and what to do |
//! | `table` | one set's table: decide in memory, then wait for the journal |
//! | `definer` | what is defined, written by a thread of its own |
//! | `journal` | the changes of all tables, written in groups by one thread |
//! | `layout` | the tables of the file |
//! | `bytes` | plans, rows and leases as bytes, with a version |
//! | `disk` | the file as redb sees it: nothing is written before it is trusted, nor after a sync that failed |
//! | `medium` | what that is written to |
//! | `birth` | how a file comes to be, so that a crash leaves none or a whole one |
//! | `open` | what is checked when a file is opened |
//! | `reading` | what is read back from it |
//!
//! # How a change gets to the disk
//!
//! A command is decided by [`tidegate_memory`] under its shard's lock, which
//! also notes the keys that it changed. One thread collects the notes of all
//! shards, reads what the rows and leases are *now*, and commits them as one
//! transaction: a group. However many threads wait, they share the group's
//! sync, and a row that changed a thousand times between two groups is written
//! once. What equals "never seen" is deleted.
//!
//! No thread is held meanwhile: a change is answered later, under
//! [`SyncMode::Always`] once a sync of the disk has it, otherwise only while the
//! disk has not come after for longer than may be lost. Many that are asked at once
//! are what makes groups large.
//!
//! # When the file cannot be written
//!
//! Commands are refused with
//! [`StoreError::Unavailable`](tidegate_store::StoreError::Unavailable)
//! *before* they change anything, until a group has been written again; it is
//! tried every fifth of a second. Only commands that were waiting for
//! the group that failed have changed memory without being acknowledged: there
//! they stay, counted as taken, and are written with the next group that
//! succeeds. So nothing is granted that is not counted. A lease that nobody was
//! told of comes back at its expiry; a request that is repeated under its
//! idempotency key gets it.
//!
//! A *sync* that failed is another matter: what was to be synced may be gone, and
//! the next sync may succeed without it. From then on every change is refused
//! until the file is opened again.
//!
//! Deliberately absent: several processes at once (one holds the lock), a clock
//! for decisions, atomic buckets that handles share (a compare-and-swap beside
//! the lock would be neither noted nor refused when the disk is full).
#![forbid(unsafe_code)]

mod birth;
mod bytes;
mod definer;
mod disk;
mod error;
mod journal;
mod layout;
mod medium;
mod open;
mod options;
mod reading;
mod store;
mod table;
#[cfg(test)]
mod trouble;

pub use error::FileError;
pub use options::{Options, SyncMode, SyncModeError};
pub use store::FileStore;
pub use tidegate_memory::Bounds;
