//! Fleets of nodes that decide by grants (`stores/tier`), in virtual time: the library and the
//! tier as they are, over the memory store. `cargo xtask tiers`.
//!
//! | room | holds |
//! |---|---|
//! | [`dice`] | random numbers by a seed |
//! | [`central`] | the store: one table in memory, under a clock of its own; what is under way to and from it |
//! | [`wire`] | the store as one node reaches it: at once, late, not at all |
//! | [`ledger`] | what was admitted, by the store's clock, and whether that is within the stated bound; it asks none of the code under test |
//! | [`limits`] | the kinds of limits, for the library and for the ledger |
//! | [`world`] | nodes around one store: requests, time, kills |
//! | [`history`] | seeded histories: whatever happens to a fleet |
//! | [`slots`] | seeded histories of slots that nodes give out: how many are held at once |
//! | [`scale`] | fleets of 2 to 5,000 nodes under more demand than there is: how much of a limit they use |
//! | [`timeline`] | one fleet through a step of demand, dead nodes and an outage: how long until all is used again |
//! | [`stranded`] | what nodes that die take along |
//! | [`report`], [`picture`] | the same as tables, and over time |
//!
//! Nothing here measures how fast anything is, and no thread waits: an instant is the store's
//! microsecond, and each node has a clock of its own.

pub mod central;
pub mod dice;
pub mod history;
pub mod ledger;
pub mod limits;
pub mod picture;
pub mod report;
pub mod scale;
pub mod slots;
pub mod stranded;
pub mod timeline;
pub mod wire;
pub mod world;
