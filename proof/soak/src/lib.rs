//! A load that goes on: so many acquire and settle a second, in turn over every kind of
//! policy, for as long as one likes. `cargo xtask soak`.
//!
//! | room | holds |
//! |---|---|
//! | `options` | what it is told |
//! | `keys` | whose leases are asked for: of keys that come and go, in turn, of entities |
//! | `lane` | one policy: its set, what is done with its leases, what came of it |
//! | `lanes` | the table of them: every kind of limit, wide enough and too narrow |
//! | `people` | entities, asked by their ids |
//! | `work`, `perform` | what is done with a lease |
//! | `ledger` | what a narrow limit granted, and whether it might have |
//! | `books` | the ledgers of a narrow policy, by key |
//! | `tally` | what was answered, how late, and what should not have been |
//! | `run` | the pace: asks come when they are due, whether earlier ones are answered or not |
//! | `watch` | memory, keys, leases and the file, each second; what is flat |
//! | `report` | what came of it, as a table |
//! | `picture` | the same over time |
//!
//! It drives the library, in one process, as a service does that has Tidegate inside; of
//! entities, which a library does not know, the service that every protocol calls. What
//! it finds by itself: a refusal that no limit explains, a grant that no limit has, slots
//! held beyond their capacity, an error of any other kind, an answer that is late, and
//! whatever goes on growing.

mod books;
mod keys;
mod lane;
mod lanes;
mod ledger;
mod options;
mod people;
mod perform;
mod picture;
mod report;
mod run;
mod tally;
mod watch;
mod work;

pub use options::Options;
pub use picture::draw;
pub use run::{Outcome, run};
pub use watch::{Flat, Sample};
