//! Namespaces: parts of one store that share nothing, each served as if it were alone.
//!
//! Which there are is kept by the store, as definitions that every server of it follows. Each
//! has a random id, under which its tables and owners are kept (`NamespacedStore`): one that is
//! created after another of its name was purged never sees what that has left. In use it is a
//! service of its own, made when it is first asked.
//!
//! | room | holds |
//! |---|---|
//! | `record` | [`Namespace`], and its bytes |
//! | `state` | [`NamespaceState`], and how many there are |
//! | `error` | [`NamespaceError`]: why not |
//! | `said` | [`NamespacePolicies`]: what the file says |
//! | `registry` | those that there are, as this server knows them, and what serves each |
//! | `policies` | what one goes by: the file's policies, or those applied in it |
//! | `tenant` | the service of one: made, asked, exchanged |
//! | `verbs` | created, deleted, restored, purged, listed |

mod error;
mod policies;
mod record;
mod registry;
mod said;
mod state;
mod tenant;
mod verbs;

pub use error::NamespaceError;
pub(crate) use record::{DEFAULT, OWNER, check_name};
pub use record::{Namespace, Purge};
pub(crate) use registry::{Exchanged, Registry, Serves};
pub use said::NamespacePolicies;
pub use state::NamespaceState;
