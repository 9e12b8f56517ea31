//! One suite for every store.
//!
//! | room | holds |
//! |---|---|
//! | [`Subject`] | a store, as a test opens it, and what it can do |
//! | [`checks`] | what every store must do, one function for each sentence |
//! | [`vectors`] | the tables of `proof/vectors`, played to the core and to a store |
//! | [`laws`] | the core's laws, on a store |
//! | [`differential()`] | random commands on a store and on a plain reference |
//! | [`model`] | limits as lists of grants, with no cleverness |
//! | [`walk`] | random requests to a set on a store and to the model |
//! | [`single_bucket`] | the same for a set of one bucket: by key, by handles, by leases |
//! | [`wide()`] | numbers of every size on a table and on `store`'s loop |
//! | [`fixture`] | limits, a table and commands in few words, for a store's own tests |
//! | [`namespace`] | a part of a store, filled with one of everything, and cleared |
//! | [`lineage`] | definitions with their parents |
//! | [`clocks`] | the server's clock decides, and not its callers' |
//! | [`redis_server`], [`mariadb_server`], [`postgres_server`], [`dynamodb_server`] | a server for one test |
//! | [`Beyond`], [`Paused`], [`Hole`], [`Proxy`] | any of them by its URL; one that stands still; a way that loses everything; a way that is cut in mid-command |
//! | [`WrongClock`] | a process whose clock is off |
//! | [`Witness`] | somebody who follows what is defined |
//! | [`wait_for`] | an answer that comes later, waited for on a thread |
//! | [`skip()`] | says that a test is skipped, and why |
//! | [`Register`] | a row that refuses a late writer by its fence |
//!
//! A store's own test is a small file: it says how to open the store, and
//! [`suite`] makes a test of each. Deliberately absent: any store.

mod beyond;
pub mod checks;
pub mod clocks;
mod differential;
pub mod dynamodb_server;
pub mod fixture;
mod hole;
mod later;
pub mod laws;
pub mod lineage;
pub mod mariadb_server;
mod missing;
pub mod model;
pub mod namespace;
mod paused;
pub mod ports;
pub mod postgres_server;
mod proxy;
pub mod redis_server;
mod register;
mod rng;
pub mod single_bucket;
mod subject;
mod table_ext;
pub mod vectors;
pub mod walk;
mod wide;
mod witness;
mod wrong_clock;

pub use beyond::{Beyond, with_options};
pub use differential::{OtherProcess, Players, differential, differential_by};
pub use hole::Hole;
pub use later::wait_for;
pub use missing::skip;
pub use paused::Paused;
pub use proxy::{Cut, Proxy};
pub use register::Register;
pub use subject::Subject;
pub use table_ext::TableExt;
pub use wide::wide;
pub use witness::Witness;
pub use wrong_clock::WrongClock;

/// The examples of pages that need a store compile.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/reference/locks.md")]
    struct Locks;
    #[doc = include_str!("../../../docs/start/redis.md")]
    struct Redis;
    #[doc = include_str!("../../../docs/stores/postgres.md")]
    struct Postgres;
    #[cfg(target_os = "linux")]
    #[doc = include_str!("../../../docs/stores/shm.md")]
    struct Shm;
    #[doc = include_str!("../../../docs/stores/mariadb.md")]
    struct Mariadb;
    #[doc = include_str!("../../../docs/stores/tidegate.md")]
    struct Tidegate;
}
