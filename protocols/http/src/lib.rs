//! Tidegate over HTTP and JSON.
//!
//! ```no_run
//! use tidegate_service::Service;
//! use tidegate_http::{Settings, front, serve};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "policy.chat.limits.rpm = { calls = 300, per = '1m' }";
//! let policies = tidegate_policy::parse("chat.toml", text)?;
//! let service = Service::builder().build(&policies)?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7400").await?;
//! let stopped = std::future::pending();
//! serve(listener, front(service, Settings::default()), stopped).await;
//! # Ok(())
//! # }
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`router()`] | which path is which verb |
//! | [`front()`], [`Front`] | a way past the router for what is asked most |
//! | [`serve()`], [`serve_within()`], `prompt` | connections, and how they end |
//! | [`Settings`], [`Bounds`], [`Ready`] | bounds, and what the caller brings |
//! | `verbs` | one handler for each path |
//! | `visit`, `extract` | who asks, and what: token, query, body |
//! | `request`, `object`, `amount`, `written`, `key` | what may be said in a body |
//! | `answer`, `headers`, `instant` | what is said back |
//! | `problem` | what is said instead: RFC 9457 |
//! | `handover` | a lease that nobody received is given back |
//!
//! The document that describes all of it is `openapi.json`, kept by hand beside
//! this crate's manifest and served; the tests hold it against the router.
//!
//! Deliberately absent: deciding (the engine's), stores, TLS (the listener's)
//! and a recorder of metrics (the caller's).
#![forbid(unsafe_code)]

mod amount;
mod answer;
mod door;
mod extract;
mod front;
mod handover;
mod headers;
mod instant;
mod key;
mod object;
mod problem;
mod prompt;
mod request;
mod router;
mod serve;
mod settings;
mod verbs;
mod visit;
mod written;

pub use front::{Answering, Front, front};
pub use router::router;
pub use serve::{serve, serve_within};
pub use settings::{Application, Apply, Bounds, Ready, Render, Settings};
