//! Decides near the caller. A node takes units of a key's limits from its store in advance,
//! as a *grant*, and spends them without asking.
//!
//! A grant is a lease of the store like any other: [partial](tidegate_store::Terms::least),
//! so that the last units of a limit are granted too, and settled with what was spent, so
//! that the rest goes back where it was charged. It is spent until
//! [`good_until`](tidegate_store::Partial::good_until), counted from before it was asked for
//! and a thousandth less: whatever the node's wall clock says, nothing counts in a window
//! that it was not taken from. `docs/reference/tiers.md` states what that bounds.
//!
//! | room | holds |
//! |---|---|
//! | `settings` | how a table is tiered: [`Tier`] |
//! | `grants` | what a node holds of one key, and what it does next; no I/O, no clock |
//! | `answers` | replies to what is decided here |
//! | `batch` | a batch of which some is decided here |
//! | `task` | a future that goes on by itself when it is woken |
//! | `outstanding` | how much may be out: slots that a grant takes beside its units |
//! | `exact` | what the store decides by, so that what nodes admit is within the limit |
//! | `strict` | requests that waited for a grant, and are the store's after all |
//! | `counters` | how often what happened: [`TierStatistics`] |
//! | `key` | a key's grants, and the requests that wait for the next |
//! | `pinned` | a key that a handle holds, and spends of without look-up: [`PinnedKey`] |
//! | `returns` | what is given back to the store, again if it does not answer |
//! | `under_way` | what the store has not answered yet |
//! | `node_id` | which process holds a grant: it stands in the ids of its leases: [`NodeId`] |
//! | `node` | all keys of a table: asks, lands, gives back |
//! | `table` | the table around a table: [`TierTable`] |
//! | `doubt` | what the store may execute late, and is told again |
//! | `slot_lease` | a lease of the store whose slots this node gives out |
//! | `leases` | the leases that a node gives its callers of one key; no I/O, no clock |
//! | `given` | verbs of those |
//! | `settling` | what the store is told of the leases that hold their slots |
//! | `queued` | requests that wait at the store, counted |
//! | `refusals` | the other one, which remembers refusals alone: [`RefusalTable`] |
//! | `tiered` | which of the two a table gets |
//!
//! Deliberately absent: waiting for a turn, fences, idempotency keys: those are the store's.

mod answers;
mod batch;
mod calendars;
mod counters;
mod doubt;
mod exact;
mod given;
mod grants;
mod key;
mod leases;
mod node;
mod node_id;
mod outstanding;
mod pinned;
mod queued;
mod refusals;
mod returns;
mod settings;
mod settling;
mod slot_lease;
mod strict;
mod table;
mod task;
mod tiered;
mod under_way;

pub use answers::GrantLevel;
pub use counters::TierStatistics;
pub use grants::{Grant, Grants, Landed, Wish};
pub use leases::{is_given, is_reserved};
pub use node_id::{NodeId, is_grant};
pub use outstanding::Outstanding;
pub use pinned::{PinnedKey, Spent};
pub use refusals::RefusalTable;
pub use settings::{Tier, TierError, cannot_lease};
pub use table::TierTable;
pub use tiered::{Answered, Tiered, tiered};
