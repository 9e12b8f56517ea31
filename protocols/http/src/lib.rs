//! Tidegate over HTTP and JSON.
//!
//! ```no_run
//! use tidegate_service::Service;
//! use tidegate_http::{Listener, Server, Settings};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "policy.chat.limits.rpm = { calls = 300, per = '1m' }";
//! let policies = tidegate_policy::parse("chat.toml", text)?;
//! let service = Service::builder().build(&policies)?;
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:7400").await?;
//! let stopped = std::future::pending();
//! let server = Server::new(service, Settings::default());
//! server.serve(Listener::from(listener).connections(), stopped).await;
//! # Ok(())
//! # }
//! ```
//!
//! | room | holds |
//! |---|---|
//! | [`Server`] | what is served; past the router, what is asked most |
//! | `listen` | connections, and how they end |
//! | `connection` | who is at the other end of one, and whose share it is |
//! | `presence` | whether the client of a request is still there |
//! | [`Settings`], [`Ready`] | bounds, and what the caller brings |
//! | `app`, `router` | what every handler shares; which path is which verb |
//! | `openapi` | the document that describes all of it, made from the handlers and types |
//! | `verbs` | one handler for each path |
//! | `parse` | who asks, and what |
//! | `render` | what is said back |
//! | `error` | what is said instead: RFC 9457 |
//!
//! The document stands as `openapi.json` beside this crate's manifest: `cargo xtask openapi` writes it,
//! and it is served as it is there.
//!
//! Deliberately absent: deciding (the engine's), stores, TLS (the listener's)
//! and a recorder of metrics (the caller's).
#![forbid(unsafe_code)]

mod app;
mod connection;
mod error;
mod listen;
mod openapi;
mod parse;
mod presence;
mod render;
mod router;
mod server;
mod settings;
mod verbs;

pub use server::{Answering, Server};
pub use settings::{Application, Apply, Ready, Render, Settings};
pub use tidegate_protocol::Listener;
