//! The service's own verbs, on policies.
//!
//! | room | holds |
//! |---|---|
//! | `named` | the policy, key and lease that a command begins with |
//! | `ask` | `COST`, `AMOUNT` and the other words of an ask |
//! | `check` | CHECK, DEBIT, PEEK, FORECAST |
//! | `acquire` | ACQUIRE |
//! | `ending` | SETTLE, RELEASE, CANCEL, RENEW, ADJUST |
//! | `listing` | KEYS, LEASES, REVOKE |
//! | `overrides` | OVERRIDE |
//! | `administer` | RESET, POLICIES |
//! | `facts` | decisions, standings and instants into replies |

mod acquire;
mod administer;
mod ask;
mod check;
mod ending;
mod facts;
mod listing;
mod named;
mod overrides;

pub(super) use acquire::acquire;
pub(super) use administer::{policies, reset};
pub(super) use check::{check, debit, forecast, peek};
pub(super) use ending::{adjust, cancel, release, renew, settle};
pub(super) use listing::{keys, leases, revoke};
pub(super) use overrides::override_;
