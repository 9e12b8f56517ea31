//! What every store must do, one function for each sentence.
//!
//! | room | holds |
//! |---|---|
//! | `fixture` | a table with its plan and a clock, used in few words |
//! | `takes` | all or nothing, refusals, instants, debits, a clock that steps back |
//! | `batches` | several verbs in one command |
//! | `leases` | settled once, back at expiry, fences, idempotency |
//! | `granted` | when a lease was granted |
//! | `untaken` | answers that nobody takes |
//! | `adjust` | more, all or nothing; less; into debt |
//! | `capacities` | capacities that travel with commands |
//! | `keys` | keys of any bytes |
//! | `entities` | paths of entities, which may move |
//! | `listing` | keys and leases, a page at a time |
//! | `namespaces` | parts of a store that share nothing |
//! | `counts` | how much a table holds |
//! | `bounds` | a store that is full |
//! | `changes` | limits changed while in use |
//! | `behind` | a server that does not know a limit which another counts |
//! | `overrides` | keys with limits of their own |
//! | `definitions` | what owners have it keep, and who follows it |
//! | `definition_changes` | one by one, on a version, known in part; a naive model |
//! | `definition_pages` | in pages, in the order of their keys |
//! | `definition_events` | what is told of a change, in the same step |
//! | `partial` | takes of as much as is there |
//! | `pools` | pools of several processes |
//! | `opening` | tables opened twice, again, and after a restart |
//! | `usage` | what is used is counted: of whom, in which hour |
//! | `usage_leases` | the same of leases, corrected where it was charged |
//! | `usage_records` | how long that is kept, how it is listed, and a table that is full of it |
//! | `usage_fixture` | plans that count, and what is listed |
//! | `usage_histories` | the same of random histories, beside an independent ledger |
//! | `vectors` | the tables of `proof/vectors` |
//!
//! A store that cannot do a thing is not asked to: the check says why it was
//! skipped.

mod adjust;
mod batches;
mod behind;
mod bounds;
mod capacities;
mod changes;
mod counts;
mod definition_changes;
mod definition_events;
mod definition_fixture;
mod definition_pages;
mod definitions;
mod entities;
mod fixture;
mod granted;
mod keys;
mod leases;
mod list;
mod listing;
mod namespaces;
mod opening;
mod overrides;
mod partial;
mod pools;
mod takes;
mod untaken;
mod usage;
mod usage_fixture;
mod usage_histories;
mod usage_leases;
mod usage_records;
mod vectors;

pub use list::{CHECKS, Check, run, run_all};
