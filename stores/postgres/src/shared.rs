//! What the tables of a store share.

use std::sync::Arc;

use tidegate_net::{Driver, Notifier};
use tokio::sync::Semaphore;

use crate::connection::Link;
use crate::options::Clock;
use crate::session::Session;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Arc<Link>,
    pub(crate) driver: Driver,
    pub(crate) clock: Clock,
    /// With what leases end, if they do.
    pub(crate) session: Option<Arc<Session>>,
    /// Where those who wait are told.
    pub(crate) notifier: Arc<Notifier>,
    /// So many of those who stand in line ask at once: others have the other
    /// connections, also when all are woken.
    pub(crate) turns: Semaphore,
}
