//! A lease kept alive: renewed while its holder has it, and lost in time.
//!
//! | file | holds |
//! |---|---|
//! | `term` | until when a lease is surely held, by this machine's clock, and how it ended |
//! | `kept` | what a lease has of both: its term, and what renews it |
//! | `ending` | the future that ends with it |
//! | `pace` | when a lease is renewed, and when it is tried again |
//! | `renewal` | one lease renewed, until its holder ends it or it is lost |
//! | `thread` | the thread that renews all leases of a set that are kept alive |
//!
//! The verbs are those of [`Lease`](crate::Lease), in `lease/held.rs`.

mod ending;
mod kept;
mod pace;
mod renewal;
mod term;
mod thread;

pub(crate) use ending::Ending;
pub(crate) use kept::{Kept, Way};
pub use pace::Pace;
pub(crate) use renewal::Renewal;
pub use term::Loss;
pub(crate) use term::{End, Term, sure_until};
pub(crate) use thread::RenewalThread;
