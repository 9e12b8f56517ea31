//! What the server knows a plan by.

use std::sync::Arc;

use crate::plain::Plain;
use crate::registry::Registered;
use crate::script::Needs;

/// A plan as the script is given it.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) registered: Registered,
    pub(crate) bytes: Arc<[u8]>,
    pub(crate) needs: Needs,
    /// What it is, if it is plain limits.
    pub(crate) plain: Option<Arc<Plain>>,
}
