//! For how long a set keeps what is over.

use tidegate_core::Span;

/// For how long a set keeps what is over, where that was said.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// Ended leases.
    pub(crate) remember: Option<Span>,
    /// What was used in an hour, which is not counted if it was not said.
    pub(crate) usage: Option<Span>,
}
