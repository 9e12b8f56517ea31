//! What the tables of a store share.

use std::sync::Arc;

use tidegate_net::Driver;

use crate::clock::CorrectedClock;
use crate::connection::Connection;
use crate::options::Options;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Driver,
    pub(crate) connection: Connection,
    pub(crate) clock: Arc<CorrectedClock>,
    pub(crate) options: Options,
}
