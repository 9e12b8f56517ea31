//! How the work went.

/// How the work went, for limits that adapt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// It was done.
    #[default]
    Succeeded,
    /// It says nothing about the resource (cancelled by the caller, say).
    Ignored,
    /// It failed for want of the resource (a time-out, a 429), or its thread panicked. To drop a lease
    /// says nothing of the kind.
    Dropped,
}
