//! What the tables of a store share.

use std::sync::Arc;

use tidegate_net::Notifier;

use crate::link::Link;
use crate::options::Clock;
use crate::script::Scripts;

/// What the tables of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) scripts: Scripts,
    pub(crate) clock: Clock,
    pub(crate) notifier: Arc<Notifier>,
}
