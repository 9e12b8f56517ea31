//! How a lease ends.

use tidegate_core::Amount;

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How<'a> {
    /// So much was used, by limit.
    Settle(&'a [(&'a str, Amount)]),
    /// What was taken was used.
    Release,
    /// Nothing was used.
    Cancel,
    /// The work failed: each limit says what that means.
    Fail,
}
