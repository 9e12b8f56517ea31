//! What a client can ask, whichever the protocol. What is neither a yes nor a no is
//! an error, as is a connection that breaks.

use std::collections::BTreeMap;
use std::io;

use crate::grpc::Grpc;
use crate::http::Http;
use crate::resp::Resp;
use crate::server::Server;

/// One ask: a policy, a key, and amounts by limit.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub policy: &'a str,
    pub key: &'a str,
    pub amounts: &'a [(&'a str, u64)],
}

/// The answer to a request without a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    Yes,
    /// Not before this instant, in microseconds.
    No(u64),
}

/// A lease that was granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    pub id: String,
    pub fence: u64,
    pub repeated: bool,
}

/// Where a limit stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    pub limit: u64,
    pub remaining: u64,
}

impl Standing {
    pub fn used(self) -> u64 {
        self.limit - self.remaining
    }
}

pub trait Client: Send {
    fn check(&mut self, request: Request<'_>) -> io::Result<Said>;
    fn debit(&mut self, request: Request<'_>) -> io::Result<()>;
    /// `None`: not now. `name` tells a repetition.
    fn acquire(&mut self, request: Request<'_>, name: Option<&str>) -> io::Result<Option<Lease>>;
    /// Whether it had been settled before.
    fn settle(&mut self, request: Request<'_>, lease: &str) -> io::Result<bool>;
    fn peek(&mut self, request: Request<'_>) -> io::Result<BTreeMap<String, Standing>>;
}

/// The protocols that a server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Http,
    Grpc,
    Resp,
}

pub const PROTOCOLS: [Protocol; 3] = [Protocol::Http, Protocol::Grpc, Protocol::Resp];

impl Protocol {
    pub fn enter(self, server: &Server) -> io::Result<Box<dyn Client>> {
        Ok(match self {
            Self::Http => Box::new(Http::connect(server.http)?),
            Self::Grpc => Box::new(Grpc::connect(server.grpc)?),
            Self::Resp => Box::new(Resp::connect(server.resp)?),
        })
    }
}

pub fn strange(answer: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("neither yes nor no: {answer:?}"))
}
