//! Four gateways on one store spend one budget of 10 dollars, while clients leave, gateways are
//! killed and the store is restarted. What the store says was spent is held against the ledger of
//! the provider, which knows what was really used: `cargo xtask race`.
//!
//! | file | holds |
//! |---|---|
//! | `provider` | the simulated provider, and its ledger by call |
//! | `store` | Redis and PostgreSQL, killed and started again |
//! | `front` | what stands before the provider, whoever made it |
//! | `gateway` | a gateway of ours as a process |
//! | `litellm` | a proxy of LiteLLM as a process |
//! | `http` | one call over one connection, and how it may end |
//! | `client` | what a client asks for, and when it leaves |
//! | `round` | the rounds: which faults, and when |
//! | `books` | what was used beside what was charged |
//! | `table` | a row for each round |
//! | `rounds` | one after the other, each before a front of its own |

pub mod books;
pub mod client;
pub mod front;
pub mod gateway;
pub mod http;
pub mod litellm;
pub mod provider;
pub mod round;
pub mod rounds;
pub mod store;
pub mod table;
