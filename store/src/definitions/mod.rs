//! What owners have a store keep beside any state: overrides, cool-downs, entities. A store
//! does not interpret values, except to find a [parent's key](Definition::parent_key) in them.
//!
//! A store keeps a **version** for each owner, which every change raises in the same
//! step; a definition has the version of its last change. So a change can be made on the
//! [expected](Change::expected) version alone, and can carry an [`Event`] that is kept if
//! it is made, and only then. Who [follows](crate::Store::follow) an owner says up to which
//! version it knows, and is given what has [changed since](Definitions), or everything where
//! the store does not have that version ([the rule](Definitions::since)): an answer that
//! comes late, twice or out of order goes on from a version that is no longer its own, and
//! changes nothing.
//!
//! | room | holds |
//! |---|---|
//! | `definition` | [`Definition`], and what has changed: [`Definitions`] |
//! | `change` | [`Change`], [`Event`], and what became of it: [`Defined`] |
//! | `follower` | [`Follower`], [`Followers`] |
//! | `log` | the events of one owner in this process |
//! | `local` | [`LocalDefinitions`]: all of it for a store of one process |

mod change;
mod definition;
mod follower;
mod local;
mod log;

use std::future::ready;

pub use change::{Change, Defined, Event, event_cursor, event_of_cursor};
pub use definition::{
    Definition, Definitions, MOST_A_PAGE, MOST_ANCESTORS, MOST_CHANGES, MOST_DROPPED, page_size,
};
pub use follower::{Follower, Followers};
pub use local::{KeptDefinitions, LocalDefinitions, Removal, Step, check_lasts};

use crate::error::StoreError;
use crate::store_future::StoreFuture;

/// An answer that is there already.
pub fn at_once<T: Send + 'static>(answer: Result<T, StoreError>) -> StoreFuture<T> {
    StoreFuture::new(ready(answer))
}
