//! What is promised (DESIGN.md, section 7), each line as a test of its name,
//! for sets as their users see them. `proof/README.md` lists where else each
//! promise is kept.
//!
//! | room | holds |
//! |---|---|
//! | `history` | random limits and random pasts |
//! | `admission` | stale and absent, refusals, instants, windows, clocks, changes, bad input |
//! | `leases` | settled once, no permit lost, a conserved sum |
//! | `order` | waiters are served in order |
#![cfg(feature = "memory")]

mod admission;
mod history;
mod leases;
mod order;
