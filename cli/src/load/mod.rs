//! `tidegate load`: asks a server as hard as it is told, and checks its answers.
//!
//! | room | holds |
//! |---|---|
//! | `args` | what it is told |
//! | `keys`, `arrivals`, `watch` | for whom it asks, when, and what time it is |
//! | `wire` | asks and answers as bytes: RESP and HTTP |
//! | `pipeline`, `calls` | connections: of bytes in order, and of gRPC |
//! | `tally`, `ledger` | what was answered, and whether that was within the limits |
//! | `policy` | the limits, as the server itself tells them |
//! | `report`, `run` | what came of it, and how |
//!
//! With a rate the load is *open*: asks arrive on schedule whether earlier ones
//! are answered or not, and an answer's latency counts from the instant at which
//! its ask was to be sent. A server (or a machine) that stalls is so charged with
//! all who would have come meanwhile ("coordinated omission", after Gil Tene).
//!
//! All of it runs on one thread: it often shares a small machine with the server.

mod args;
mod arrivals;
mod calls;
mod keys;
mod ledger;
mod pipeline;
mod policy;
mod report;
mod run;
mod tally;
mod watch;
mod wire;

pub use args::Load;
pub use run::load;
