//! The client of a Tidegate server: may this work start now, and how much may it use?
//!
//! ```no_run
//! use std::time::Duration;
//! use tidegate_client::{Admission, Client, Request};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder("http://127.0.0.1:7400").token("tg-...").build()?;
//!
//! // Once, without a lease: a refusal is an answer, not an error.
//! let answer = client.check(&Request::new("chat", "alice").amount("tpm", 1_200)).await?;
//! if !answer.admitted {
//!     println!("again in {:?}, by {:?}", answer.retry_after, answer.binding);
//! }
//!
//! // Held while the work runs, and settled with what it really used.
//! let request = Request::new("chat", "alice").cost(4_000).within(Duration::from_secs(5));
//! match client.acquire(&request).await? {
//!     Admission::Granted(lease) => {
//!         // ... the work ...
//!         lease.settle([("tpm", 3_120)]).await?;
//!     }
//!     Admission::Degraded(_) => println!("the server's store is away; its policy admits"),
//!     Admission::Refused(answer) => println!("not in time, by {:?}", answer.binding),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`options`](ClientBuilder) | which server, and how it is asked |
//! | [`tls`](Tls) | how a server is believed, and how it is to believe us |
//! | [`client`](Client), [`exchange`](Exchange) | one request and its answer, with its deadline and retries |
//! | [`error`](Error) | why there is no answer |
//! | [`key`](Key), [`quantity`](Quantity), [`named`](Named) | who is limited, how much, and by which limit |
//! | [`request`](Request), [`report`](Report), [`adjustment`](Adjustment) | what is asked |
//! | [`answer`](Answer), [`standing`](Standing), [`settlement`](Settlement) | what is answered |
//! | [`lease_ref`](LeaseRef), `verbs` | every verb of the server but `acquire` |
//! | [`lease`](Lease), `heartbeat` | a lease that is renewed while it is held |
//! | [`admission`](Admission), `acquire` | and how it is taken, once, however often it is asked for |
//! | [`grant`](Grant) | units to spend without asking, and how they are given back |
//! | [`spender`](Spender) | what spends them, one grant after the other |
//!
//! Deliberately absent: deciding (the server's), gRPC and RESP; overrides, policies and
//! listings, for which [`Client::exchange`] is there.
//!
//! It runs within a tokio runtime.

mod acquire;
mod adjustment;
mod admission;
mod answer;
mod client;
mod error;
mod exchange;
mod grant;
mod heartbeat;
mod instant;
pub mod internal;
mod key;
mod lease;
mod lease_ref;
mod named;
mod options;
mod quantity;
mod report;
mod request;
mod settlement;
mod spender;
mod standing;
mod tls;
mod verb;
mod verbs;

pub use adjustment::Adjustment;
pub use admission::Admission;
pub use answer::Answer;
pub use client::Client;
pub use error::{BuildError, Error, Problem, Unreachable, Why};
pub use exchange::{Exchange, Reply};
pub use grant::{Grant, GrantAnswer};
pub use key::Key;
pub use lease::Lease;
pub use lease_ref::LeaseRef;
pub use named::Named;
pub use options::{ClientBuilder, DEADLINE, RETRIES};
pub use quantity::Quantity;
pub use report::Report;
pub use request::Request;
pub use settlement::{Settlement, Usage};
pub use spender::{Amounts, Spender, SpenderBuilder, Take};
pub use standing::{Forecast, Forecasts, Standing};
pub use tidegate::{Loss, Outcome, Timestamp};
pub use tls::Tls;
pub use verb::Verb;
