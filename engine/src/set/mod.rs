//! Limits taken together, all or nothing.
//!
//! | room | holds |
//! |---|---|
//! | [`LimitSet`] | the verbs, by key |
//! | [`LimitSetBuilder`] | how one is made |
//! | [`Handle`] | the verbs for one key, without look-up |
//! | `inner` | what a set and its leases share: commands to the table |
//! | `listing` | what a set holds, a page at a time |
//! | `crowd` | those of this process who wait: bounded, and stopped together |
//! | `change` | limits added, replaced and removed while in use |
//! | `overrides` | limits of some keys' own: set, removed, listed |
//! | `keeper` | where they are kept, and how what is told elsewhere comes here |
//! | `cooling` | until when pools pass over a set |
//! | `variant` | what such a key is decided by |
//! | `uid` | what tells one limit from another, across changes and processes |
//! | `view` | the limits at one version, and what an ask amounts to |
//!
//! Deliberately absent: deciding (the core's, through the table) and the queue
//! of those who wait (the table's).

mod builder;
mod change;
mod cooling;
mod crowd;
mod handle;
mod inner;
mod keeper;
mod listing;
mod overrides;
mod uid;
mod variant;
mod verbs;
mod view;

pub use builder::{LimitSetBuilder, Metadata};
pub use handle::Handle;
pub(crate) use inner::{How, Inner, Manner};
pub use listing::{LONGEST_PAGE, ListedKey, ListedLease, PageOf};
pub use overrides::Override;
#[cfg(feature = "gate")]
pub(crate) use variant::Given;
pub use verbs::LimitSet;
pub(crate) use view::{Amounts, View, lease_length};
