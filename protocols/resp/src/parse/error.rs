//! What no client sends.

/// Bytes that are no request. There is no telling where the next one begins,
/// so the connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    /// A `*` with something else than a count that a request may have.
    #[error("Protocol error: invalid multibulk length")]
    Count,
    /// A `$` with something else than a length that an argument may have.
    #[error("Protocol error: invalid bulk length")]
    Length,
    /// Something else than a bulk string in a request.
    #[error("Protocol error: expected '$', got another type")]
    Type,
    /// No end of line where one belongs.
    #[error("Protocol error: expected CRLF")]
    LineEnd,
    /// A quote that nothing closes.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// Longer than a request may be.
    #[error("Protocol error: too big request")]
    TooLong,
    /// An HTTP request: a browser was tricked into sending it.
    #[error("Protocol error: this is not HTTP")]
    Http,
}
