//! What the protocols share: how connections come, how many there may be, how long they may
//! take, and how a lease gets to a client.
//!
//! | room | holds |
//! |---|---|
//! | [`Listener`], [`Stream`] | connections: accepted, and encrypted where there is a [`Tls`] |
//! | [`Peer`] | who is at the other end of one |
//! | [`Tls`], [`Offer`] | what handshakes go by, exchanged while in use |
//! | [`InTurn`] | connections that are answered in turn |
//! | [`serve()`], [`Closing`] | a conversation for each connection, until the server stops |
//! | [`Permits`] | how many of anything there may be at once |
//! | [`Shares`], [`Share`] | permits, of which one token has half at most |
//! | [`Opening`] | a connection whose first bytes have a deadline |
//! | [`TimedBody`], [`Late`] | a body that has to arrive |
//! | [`Delivery`] | a lease that nobody received is given back |
//! | [`bearer()`], [`named_namespace()`] | the token of a request, and the namespace that it names |
//!
//! Deliberately absent: what a protocol says, and every decision: the service's.
#![forbid(unsafe_code)]

mod delivery;
mod listen;
mod namespace;
mod opening;
mod permits;
mod serve;
mod shares;
mod stream;
mod timed_body;
mod tls;
mod token;
mod turn;

pub use delivery::Delivery;
pub use listen::Listener;
pub use namespace::named_namespace;
pub use opening::Opening;
pub use permits::Permits;
pub use serve::{Closing, serve};
pub use shares::{Share, Shares};
pub use stream::{Peer, Stream};
pub use timed_body::{Late, TimedBody};
pub use tls::{Offer, Tls};
pub use token::bearer;
pub use turn::InTurn;
