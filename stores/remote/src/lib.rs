//! Remembers limits in the store of a tidegate server, for a fleet that needs no other; and
//! lets a server offer its own.
//!
//! | room | holds |
//! |---|---|
//! | [`store`](RemoteStore) | the store: a way to a server, tables by name |
//! | [`Options`] | token, prefix, deadline |
//! | `address` | where the server is |
//! | `link` | the way there, and back |
//! | `table` | a command's way |
//! | `inner` | what the commands of a table share |
//! | `known` | a plan as the server knows it |
//! | `revision` | how it is told of a change |
//! | `batch` | several in one trip |
//! | `waiting` | a request that waits for its turn |
//! | `definitions` | what is defined for an owner |
//! | [`offered`] | the other side: a store that is offered to others |
//! | `wire` | what goes to and fro, byte by byte |
//! | [`proto`] | what carries it, made from the proto file |
//!
//! **The server's store decides**, whichever that is, by the server's clock: instants in commands
//! and replies are translated, so a caller whose clock is an hour off waits as long as one whose
//! clock is right. What survives, the server's store says.
//!
//! **A plan is sent once**, and known by its hash from then on; a server that was started again
//! is sent it anew. What keys have for themselves, and capacities of the moment, travel with each
//! command.
//!
//! **Waiting.** A request that waits is one call, which the server holds in the queue of its
//! table: requests of all processes are served there in order of arrival, and nobody polls. A call
//! that is dropped, or whose connection is cut, gives its place up; a lease that it was granted, and
//! that the server could not write any more, is cancelled.
//!
//! **Errors.** An error of the server's store comes as it is. Whatever the server or the way there
//! fails in is `Unavailable` within the deadline; then the command may have been executed: only a
//! lease with an idempotency key can be asked again without taking twice. Tokens are in no message.
//!
//! Deliberately absent: a bound on the number of keys (the server's store has its own), listening
//! (a protocol's).
#![forbid(unsafe_code)]

mod address;
mod batch;
mod definitions;
mod error;
mod inner;
mod known;
mod link;
pub mod offered;
mod options;
pub mod proto;
mod revision;
mod store;
mod table;
mod waiting;
mod wire;

pub use error::RemoteError;
pub use options::Options;
pub use store::RemoteStore;
