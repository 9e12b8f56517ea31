//! The protocols: rows of the table.

use super::call::{Client, Verb};
use super::grpc::{self, Grpc};
use super::http::{self, Http};
use super::resp::{self, Resp};
use crate::server::Server;

/// A protocol: a row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// As the table names it.
    pub name: &'static str,
    /// Whether it has a verb.
    pub speaks: fn(Verb) -> bool,
    enter: fn(&Server) -> Result<Box<dyn Client>, String>,
}

/// All of them.
pub const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "http",
        speaks: http::speaks,
        enter: |server| Ok(Box::new(Http::connect(server.http)?)),
    },
    Protocol {
        name: "grpc",
        speaks: grpc::speaks,
        enter: |server| Ok(Box::new(Grpc::connect(server.grpc)?)),
    },
    Protocol {
        name: "resp",
        speaks: resp::speaks,
        enter: |server| Ok(Box::new(Resp::connect(server.resp)?)),
    },
];

impl Protocol {
    /// A connection of its own.
    ///
    /// # Errors
    /// If the server does not listen.
    pub fn enter(&self, server: &Server) -> Result<Box<dyn Client>, String> {
        (self.enter)(server)
    }

    /// Whether it has this verb.
    #[must_use]
    pub fn has(&self, verb: Verb) -> bool {
        (self.speaks)(verb)
    }
}
