//! Limits taken together, all or nothing.
//!
//! | room | holds |
//! |---|---|
//! | [`LimitSet`] | limits taken together: what its clones and leases share |
//! | `verbs` | the verbs, by key |
//! | `commands` | the commands to the table, and what is made of the answers |
//! | `ending` | how a lease ends |
//! | [`Grant`] | units that are granted to be spent elsewhere |
//! | [`LimitSetBuilder`] | how one is made |
//! | [`Handle`] | the verbs for one key, without look-up |
//! | `fleet` | what nodes took in advance of its keys |
//! | `listing` | what a set holds, a page at a time |
//! | `differing` | limits that the store has otherwise, from another server |
//! | `depth` | whether a key has as many levels as the set's keys |
//! | `waiters` | requests of this process that wait: bounded, and stopped together |
//! | `versions` | what successive versions of the limits share |
//! | `kept` | for how long a set keeps what is over |
//! | `change` | limits added, replaced and removed while in use |
//! | `overrides` | limits of some keys' own: set, removed, listed |
//! | `override_store` | where they are kept |
//! | `follow` | how what is given elsewhere comes here |
//! | `cooling` | until when pools pass over a set |
//! | `variant`, `variants` | what such a key is decided by, and how that is made |
//! | `subject` | who a command is about, and the limits that its caller has kept |
//! | `uid` | what tells one limit from another, across changes and processes |
//! | `view` | the limits at one version, and what a request amounts to |
//!
//! Deliberately absent: deciding (the core's, through the table) and the queue
//! of those who wait (the table's).

mod builder;
mod change;
mod commands;
mod cooling;
mod depth;
mod differing;
mod ending;
mod fleet;
mod follow;
mod grant;
mod handle;
mod inner;
mod kept;
mod listing;
mod override_store;
mod overrides;
mod subject;
mod uid;
mod variant;
mod variants;
mod verbs;
mod versions;
mod view;
mod waiters;

pub use builder::{LONGEST_USAGE, LimitSetBuilder, SHORTEST_USAGE};
pub(crate) use commands::Manner;
pub use differing::Differing;
pub(crate) use ending::{End, How};
pub use fleet::{NodeGrant, TierBound};
pub use grant::Grant;
pub use handle::Handle;
pub(crate) use inner::Inner;
pub use inner::{LimitSet, Metadata};
pub use listing::{LONGEST_PAGE, ListedKey, ListedLease, ListedUsage, PageOf};
pub use overrides::Override;
pub(crate) use subject::Subject;
pub use variants::Overrides;
pub(crate) use view::{Amounts, View, lease_length, lease_span};
