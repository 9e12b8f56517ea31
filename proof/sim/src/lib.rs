//! A provider of language models for tests: `Sim` is a state to which calls and time are given
//! (in virtual time, without a clock or I/O), `server` the same over HTTP, and the program
//! `provider` that server.
//!
//! | file | holds |
//! |---|---|
//! | `limit` | a limit as it is enforced: windows and buckets |
//! | `settings` | what a provider is like |
//! | `call`, `tool` | what is asked for |
//! | `account`, `ledger` | what an account has used, and what it has really done |
//! | `answer`, `shapes` | an answer as it was decided, and as it is written |
//! | `headers`, `refusal` | what providers tell of limits, and how they refuse |
//! | `sim` | the provider itself |
//! | `server` | the provider over HTTP |

pub mod account;
pub mod answer;
pub mod call;
pub mod headers;
pub mod ledger;
pub mod limit;
pub mod refusal;
pub mod server;
pub mod settings;
pub mod shapes;
pub mod sim;
pub mod tool;
