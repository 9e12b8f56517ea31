//! The server's store, offered to others: `tidegate.store.v1`.
//!
//! | room | holds |
//! |---|---|
//! | `app` | who may, and what goes to and fro |
//! | `delivery` | a lease on its way to who asked |
//!
//! What is asked and answered is read by `tidegate_remote::offered`; nothing of it is known here.

mod app;
mod delivery;

pub use app::{LARGEST_REQUEST, OfferedApp};
pub use delivery::with_its_leases;
