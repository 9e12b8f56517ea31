//! What an error means for its caller.

use tidegate_store::StoreError;

/// What an error means for its caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request, the limit or the set makes no sense: change it.
    Invalid,
    /// There is no such lease (any more).
    NotFound,
    /// The lease has ended, or has expired.
    Ended,
    /// More slots of a leased lock than it has.
    Never,
    /// Too many requests wait, or it was waited for too long: try again.
    Busy,
    /// The set, or the root of the key, holds as many keys or leases as it may.
    Full,
    /// *Cannot tell*: the store failed or is busy, or everything is being closed.
    Unavailable,
}

/// What an error of a store means.
pub(super) const fn of_store(error: &StoreError) -> ErrorKind {
    match error {
        StoreError::UnknownLease => ErrorKind::NotFound,
        StoreError::LeaseEnded(_) => ErrorKind::Ended,
        StoreError::KeysFull { .. }
        | StoreError::RootKeysFull { .. }
        | StoreError::LeasesFull { .. }
        | StoreError::RootLeasesFull { .. }
        | StoreError::UsageFull { .. }
        | StoreError::Full(_) => ErrorKind::Full,
        StoreError::UnknownPage
        | StoreError::DuplicateLease
        | StoreError::CannotList
        | StoreError::CannotCount
        | StoreError::CannotClear
        | StoreError::CannotDefine(_) => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    }
}
