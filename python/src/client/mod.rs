//! The client of a server: each verb once, waited for on a thread or awaited.
//!
//! | file | holds |
//! |---|---|
//! | `driving` | the thread that drives connections and heartbeats |
//! | `words` | amounts and errors, in Python's words |
//! | `answer` | what a server says of a check |
//! | `lease` | what it granted, until it ends |
//! | `grant`, `spender` | units to spend without asking, and what spends them |
//! | `server` | the verbs |

mod answer;
mod driving;
mod grant;
mod lease;
mod server;
mod spender;
mod words;

pub(crate) use answer::Answer;
pub(crate) use grant::ServerGrant;
pub(crate) use lease::ServerLease;
pub(crate) use server::Server;
pub(crate) use spender::{ServerSpender, Spent};
