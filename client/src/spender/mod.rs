//! What spends grants, one after the other, without asking for each request.
//!
//! | file | holds |
//! |---|---|
//! | [`amounts`](Amounts) | how much is spent |
//! | `limits` | the limits of a key, as its grants tell them |
//! | `held` | what is held of the key, by the rule of a server's tier; no I/O |
//! | `returns` | what is given back, again if the server does not answer |
//! | [`spender`](Spender) | who asks, who waits, and when the rest goes back |
//!
//! Deliberately absent: the rule itself, which is `tidegate_tier::Grants`'.

mod amounts;
mod held;
mod limits;
mod returns;
#[expect(clippy::module_inception, reason = "the type has the room's name")]
mod spender;

pub use amounts::Amounts;
pub use spender::{Spender, SpenderBuilder, Take};
