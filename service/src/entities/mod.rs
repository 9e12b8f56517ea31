//! Entities: who belongs to whom. A request may name one by its id alone; the store says
//! below which others it stands, and all of them are asked and charged.
//!
//! | room | holds |
//! |---|---|
//! | [`Entity`], `record` | what is kept of one, and its bytes |
//! | [`EntityError`] | why not |
//! | [`EntityPath`], `resolve` | an entity and its ancestors, by its id |
//! | `known` | those that were asked for lately, and who is told of changes |
//! | `children` | who stands below whom |
//! | `write` | one change of one, with its event in the same step |
//! | `verbs` | created, changed, moved, deleted and listed at the service |
//! | `alone` | amounts of an entity whose ancestors are not charged |
//!
//! An entity is a definition of the owner [`OWNER`], under its id. Who stands below whom is
//! kept beside it, under an owner of its own, and written first: what is found there is a hint,
//! and an entity's own record says whether it holds. So a child that is there is always found,
//! whatever was cut off in between.

mod alone;
mod children;
mod error;
mod known;
mod path;
mod record;
mod resolve;
mod verbs;
mod write;

pub use error::EntityError;
pub(super) use known::Known;
pub use path::EntityPath;

pub use record::{Entity, EntityValue};
pub use verbs::{EntityChange, EntityTerms, NewEntity};

pub(super) use alone::of_own_level;
pub(super) use record::check_id;
pub(super) use record::{OWNER, entity_of_subject, subject_of};
