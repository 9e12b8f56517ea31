//! The service's own verbs, on policies: a command is a call.
//!
//! | room | holds |
//! |---|---|
//! | `named` | the policy, key, lease and amounts of a command |
//! | `request` | CHECK, DEBIT, PEEK, FORECAST, ACQUIRE |
//! | `grant` | GRANT, RETURN |
//! | `ending` | SETTLE, RELEASE, CANCEL, RENEW, ADJUST, REVOKE |
//! | `listing` | KEYS, LEASES, USAGE |
//! | `overrides` | OVERRIDE |
//! | `entities` | ENTITY |
//! | `namespaces` | NAMESPACE, USE |
//! | `audit` | AUDIT |
//! | `administer` | RESET, POLICIES |

mod administer;
mod audit;
mod ending;
mod entities;
mod grant;
mod listing;
mod named;
mod namespaces;
mod overrides;
mod request;

pub(super) use administer::{policies, reset};
pub(super) use audit::audit;
pub(super) use ending::{adjust, cancel, release, renew, revoke, settle};
pub(super) use entities::entity;
pub(super) use grant::{grant, return_};
pub(super) use listing::{keys, leases, usage};
pub(super) use namespaces::{namespace, use_};
pub(super) use overrides::override_;
pub(super) use request::{acquire, check, debit, forecast, peek};
