//! Explores every history of a few nodes that spend what a store granted them: `cargo xtask model`.
//!
//! What is driven is the product's: [`tidegate_tier::Grants`], which says what a node spends,
//! asks for and gives back, and [`tidegate_store::decide`], by which every store decides. What
//! is between them is here: messages that are lost, late, doubled and reordered, clocks that
//! stand hours apart and lose a thousandth, nodes that are killed.
//!
//! | room | holds |
//! |---|---|
//! | [`instance`] | what is explored, and which safeguard is off |
//! | `central` | the store |
//! | `member` | a node |
//! | `ledger` | what was admitted |
//! | `state` | all of them, and the wire |
//! | [`fleet`] | what can happen next |
//! | [`explore`](mod@explore) | all of that, one after the other |
//! | [`instances`] | those that are explored |
//!
//! Deliberately absent: requests larger than a batch (the store decides those), low water and
//! idle times (a node asks and gives back whenever it pleases, which is more than they allow),
//! remembered refusals (they admit nothing).

mod central;
pub mod explore;
pub mod fleet;
pub mod instance;
pub mod instances;
mod ledger;
mod member;
mod state;

pub use explore::{Found, explore};
pub use fleet::{Action, BOUND, Fleet, STORE};
pub use instance::{Instance, Limit, Off};
pub use state::State;
