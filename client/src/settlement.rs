//! How a lease ended.

use serde::Deserialize;
use tidegate::Timestamp;

use crate::instant;
use crate::named::Named;
use crate::quantity::Quantity;

/// How a lease ended.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Settlement {
    /// It had expired: its slots were back already, and the real use was charged.
    pub expired: bool,
    /// It had ended before: this is the answer that was given then.
    pub repeated: bool,
    /// What each limit's share came to.
    pub limits: Named<Usage>,
    /// The member of a pool that had given the lease.
    pub member: Option<String>,
    /// Until when that member is passed over, if it is.
    #[serde(default, deserialize_with = "instant::maybe")]
    pub cooling_until: Option<Timestamp>,
}

/// What one limit's share of a lease came to.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// What was taken at first.
    pub taken: Quantity,
    /// What was used in the end.
    pub used: Quantity,
}
