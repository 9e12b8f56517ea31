//! Which lease.

use std::fmt;

use serde::Serialize;

use crate::key::Key;

/// Which lease: its id, and whose it is. Whoever has it can end the lease, so its
/// [`Debug`](fmt::Debug) does not show the id.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct LeaseRef {
    policy: String,
    #[serde(flatten)]
    key: Key,
    lease: String,
}

impl LeaseRef {
    /// The lease with this id, of this policy and key.
    #[must_use]
    pub fn new(policy: impl Into<String>, key: impl Into<Key>, id: impl Into<String>) -> Self {
        Self {
            policy: policy.into(),
            key: key.into(),
            lease: id.into(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.lease
    }
}

impl fmt::Debug for LeaseRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseRef")
            .field("policy", &self.policy)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
