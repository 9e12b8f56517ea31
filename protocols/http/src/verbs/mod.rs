//! One handler for each path.
//!
//! | room | paths |
//! |---|---|
//! | `decide` | check, check-many, debit, peek, forecast, reset; acquire and what becomes of leases |
//! | `listing` | keys, capacity, leases, denied: what a policy holds |
//! | `forward` | auth, for proxies that request before they pass a request on |
//! | `page` | how queries ask for a page, and for a key |
//! | `overrides` | overrides: limits in place of what the policies say |
//! | `entities` | entities: who belongs to whom |
//! | `namespaces` | namespaces: parts of the store that share nothing |
//! | `audit` | audit: what was changed, and by whom |
//! | `policies` | what the policies say |
//! | `operate` | health, readiness, metrics, the OpenAPI document |

pub(crate) mod audit;
pub(crate) mod decide;
pub(crate) mod entities;
pub(crate) mod forward;
pub(crate) mod listing;
pub(crate) mod namespaces;
pub(crate) mod operate;
pub(crate) mod overrides;
mod page;
pub(crate) mod policies;
