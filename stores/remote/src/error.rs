//! Why a store cannot be opened, and what a status of the server means.

use tidegate_store::StoreError;
use tidegate_store::core::DecodeError;
use tonic::{Code, Status};

/// The store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The address makes no sense. (It is not repeated: it may hold a token.)
    #[error(
        "the address of the server cannot be used ({0}); write tidegate://[TOKEN@]HOST[:PORT], or tidegates:// for TLS"
    )]
    Address(String),
    /// The server cannot be reached, or cannot be used.
    #[error("{0}")]
    Server(String),
}

/// What to tell of a status.
pub(crate) fn told(status: &Status) -> StoreError {
    let words = status.message();
    match status.code() {
        Code::ResourceExhausted => StoreError::Busy(words.to_owned()),
        Code::Unimplemented => StoreError::Unavailable(
            "the server offers no store; set `offers_store = true` under its `[server]`".to_owned(),
        ),
        Code::Unauthenticated | Code::PermissionDenied => StoreError::Unavailable(format!(
            "the server lets nobody in by this token: {words}; give it one with the scope `store`"
        )),
        _ if words.is_empty() => StoreError::Unavailable("the server does not answer".to_owned()),
        _ => StoreError::Unavailable(format!("the server does not answer: {words}")),
    }
}

/// An answer that this version cannot read.
pub(crate) fn garbled(error: DecodeError) -> StoreError {
    StoreError::Unavailable(format!(
        "the server's answer cannot be read ({error}); is it newer than this client?"
    ))
}
