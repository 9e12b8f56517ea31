//! What stores beyond a network share.
//!
//! | room | holds |
//! |---|---|
//! | [`Driver`] | a thread that drives a store's connections, with a deadline for each command |
//! | [`Tasks`], [`Finish`] | work that goes on when nobody waits for it; who waits for its end |
//! | [`Changes`] | by what limits a process decides, written to the server in order |
//! | [`Once`] | work that one at a time does for all who wait for it |
//! | [`Commands`], [`begin()`] | the way of every command, from what a store does for its tables; those of a batch are of one root together, of several roots at once |
//! | [`in_order()`] | a batch of one root, one command after the other |
//! | [`decide_batch()`] | the same, several commands over one load and one write |
//! | [`send_in_group()`] | commands of one root that come while others of it are under way are decided together |
//! | [`ExpirySweep`] | leases that have expired are ended before what was used is listed |
//! | [`Notifier`] | how requests that wait are told that their turn may have come |
//! | [`Shares`] | how many connections the commands of one root, and of one table, may have |
//! | [`following`] | how a process follows what is defined at its store |
//! | [`key_order`] | pages in the order of keys, where an index has beginnings and hashes |
//! | [`digest()`] | what a schema was made of |
//! | [`SingleBucket`] | what a server says of a single bucket, as the core means it |
//! | [`waiting`] | a request that waits in a line that the store keeps |
//! | [`breaker`] | a circuit breaker, before a store that may be away |
//!
//! Deliberately absent: any server, any wire.
#![forbid(unsafe_code)]

mod batch;
mod begin;
pub mod breaker;
mod changes;
mod commands;
mod digest;
mod driver;
pub mod following;
mod groups;
pub mod key_order;
mod notifier;
mod once;
mod shares;
mod single_bucket;
mod together;
mod underway;
mod usage;
pub mod waiting;

pub use batch::in_order;
pub use begin::begin;
pub use changes::{Changes, MOST_TOUCHED, Writer};
pub use commands::Commands;
pub use digest::digest;
pub use driver::{Driver, closed, too_late, within};
pub use groups::{DecidesGroups, Groups, send_in_group};
pub use notifier::{Notifier, Subscription, Wakeup};
pub use once::Once;
pub use shares::{Share, Shares};
pub use single_bucket::SingleBucket;
pub use together::{DecidesTogether, decide_batch};
pub use underway::{Finish, Tasks};
pub use usage::ExpirySweep;
