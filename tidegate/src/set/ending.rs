//! How a lease ends.

use crate::request::Request;

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How<'a> {
    /// So much was used: a cost, or by limit.
    Settle(Request<'a>),
    /// So much was used, and nothing of what is not named.
    Return(Request<'a>),
    /// What was taken was used.
    Release,
    /// Nothing was used.
    Cancel,
    /// The work failed: each limit says what that means.
    Fail,
}

/// Ends the lease of this id so.
pub(crate) struct End<'a> {
    pub(crate) id: u128,
    pub(crate) how: &'a How<'a>,
    pub(crate) remember: bool,
}
