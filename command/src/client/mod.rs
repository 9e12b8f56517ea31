//! The command as a client of a server.
//!
//! | room | holds |
//! |---|---|
//! | [`options`], [`server`] | which server, and how it is asked |
//! | [`tls`] | how a server is believed, and how it is to believe us |
//! | [`exit`] | how every one of these commands ends |
//! | [`command`] | their words |
//! | [`arguments`], [`verbs`], [`words`] | check, acquire and the others: asked and told |
//! | [`grant`] | units in advance, to spend without asking |
//! | [`many`] | checks by the thousand, a line each |
//! | [`listing`], [`capacity`] | keys and leases, and what keys come to |
//! | [`overrides`], [`typed_limits`] | overrides, and how their limits are typed |
//! | [`entities`] | who belongs to whom |
//! | [`namespaces`] | parts of one store that share nothing |
//! | [`reason`] | why any of them is changed |
//! | [`limits`] | entities and overrides as a file says them |
//! | [`audit`] | what was changed, and by whom |
//! | [`usage`] | what was used, hour by hour |
//! | [`run`] | a command that runs while a lease is held |
//! | [`top`] | a view of the server that is kept up to date |
//! | [`shell`] | completions and manual pages |
//!
//! Deliberately absent: deciding (the server's), gRPC and RESP.

mod arguments;
mod audit;
mod capacity;
mod command;
mod entities;
mod exit;
mod fleet;
mod grant;
mod limits;
mod listing;
mod many;
mod namespaces;
mod options;
mod overrides;
mod print;
mod reason;
mod run;
mod server;
mod shell;
mod tls;
mod top;
mod typed_limits;
mod usage;
mod verbs;
mod words;

pub use command::{Command, perform};
pub use exit::CHANGES;
pub use options::{Credential, Options};
pub use server::{Client, PATIENCE, stop};
pub use tls::ClientTls;
