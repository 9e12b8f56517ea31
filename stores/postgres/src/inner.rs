//! What the commands of one table share.

use std::sync::Arc;

use tidegate_net::{Changes, Groups};
use tidegate_store::core::Span;

use crate::compiled::Compiled;
use crate::connection::Link;
use crate::options::Clock;
use crate::request::Request;
use crate::session::Session;
use crate::shared::Shared;

/// A place in the line of those who wait for a root.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// What it is known by.
    pub(crate) id: u128,
    /// Where it hears that its turn may have come.
    pub(crate) channel: Arc<str>,
    /// How much earlier than it did it counts as having come.
    pub(crate) ahead: Span,
    /// For how long it is taken for alive without a heartbeat.
    pub(crate) alive: Span,
}

/// One table on the server.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    pub(crate) link: Arc<Link>,
    pub(crate) clock: Clock,
    /// The number of the set.
    pub(crate) tab: i32,
    /// With what leases end, if they do.
    pub(crate) session: Option<Arc<Session>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) calls: Calls,
    pub(crate) changes: Changes<Compiled>,
    pub(crate) groups: Arc<Groups<Request>>,
}
