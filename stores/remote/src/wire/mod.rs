//! What goes to and fro, byte by byte.
//!
//! | room | holds |
//! |---|---|
//! | `request` | what is asked |
//! | `command` | of it what is about a table's keys: who asks, by which plan |
//! | `plan` | a plan as it is sent once, and what it is known by from then on |
//! | `response` | what is answered |
//! | `version` | what each begins with |

mod command;
mod plan;
mod request;
mod response;
mod version;

pub(crate) use command::{Ask, Asked, Client, Item, Own, Turn, put_digest};
pub(crate) use plan::{Digest, SentPlan, digest};
pub(crate) use request::{Adoption, Request, adopt, ask};
pub(crate) use response::{Response, abilities, put_abilities};
