//! What a command is: its shape, how it is run, and how the conversation goes on after it.

use std::future::Future;
use std::pin::Pin;

use tidegate_service::{Call, Rated};

use crate::error::Fault;
use crate::parse::Arguments;
use crate::render::reply::Replies;
use crate::session::Session;

/// How the conversation goes on.
#[derive(Debug)]
pub(crate) enum Flow {
    /// With the next request.
    Next,
    /// Not at all, after this answer.
    Close,
}

/// A command as it is found, checked, run and described.
pub(super) struct Command {
    /// In capitals; clients may write it as they like.
    pub(super) name: &'static str,
    /// The fewest and the most arguments, the name included.
    pub(super) arguments: (usize, usize),
    pub(super) usage: &'static str,
    pub(super) summary: &'static str,
    pub(super) group: Group,
    /// Whether it is answered before anyone has said who they are.
    pub(super) before_auth: bool,
    pub(super) run: Run,
}

/// How a command is run.
pub(super) enum Run {
    /// By the table that it stands in.
    Describe,
    /// What needs no policy is answered at once.
    Now(fn(&mut Session, Arguments<'_>) -> Result<Flow, Fault>),
    /// What the service answers; it may have to wait for its store, or for its turn.
    Call(for<'a> fn(Arguments<'a>) -> Result<Call<'a>, Fault>),
    /// The same, where the numbers come with the call: two commands write one answer.
    Rate(
        for<'a> fn(Arguments<'a>) -> Result<Call<'a>, Fault>,
        fn(&mut Replies, &Rated),
    ),
    /// The same, of what is no call.
    Later(for<'a> fn(&'a mut Session, Arguments<'a>) -> Running<'a>),
}

/// A command that is being run.
pub(super) type Running<'a> = Pin<Box<dyn Future<Output = Result<Flow, Fault>> + Send + 'a>>;

/// Where a command stands in what COMMAND tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Group {
    /// About the connection or the server: no keys.
    Connection,
    /// A key at this position; whether it may write.
    Key { position: usize, write: bool },
}

impl Command {
    pub(super) fn takes(&self, arguments: usize) -> bool {
        let (fewest, most) = self.arguments;
        (fewest..=most).contains(&arguments)
    }
}
