//! Several sets that can serve the same work.
//!
//! | room | holds |
//! |---|---|
//! | [`LimitPool`] | the verbs, by key |
//! | [`LimitPoolBuilder`] | how one is made |
//! | [`Member`] | one set with its name, weight, load and cool-down |
//! | [`Balance`], [`Balancer`] | who is tried first |
//! | `round` | members asked one after the other; who is late holds up nobody |
//! | `walk` | who is tried, in order, and what remains of their refusals |
//! | `wait` | one request in the lines of all members at once |
//! | `ledger`, `repeats` | what a pool has counted; who granted which repeated ask |
//! | `holder` | who holds what another process was granted |
//!
//! Deliberately absent: health checks (whoever was refused by a provider says
//! so, with a cool-down) and settling by id, which is the member's set's:
//! `pool.member(name)?.set().settle(..)`.

mod balance;
mod builder;
mod holder;
mod ledger;
mod member;
mod repeats;
mod round;
mod verbs;
mod wait;
mod walk;

pub use balance::{Balance, Balancer};
pub use builder::LimitPoolBuilder;
pub use member::Member;
pub use verbs::LimitPool;
