//! What providers of language models say in headers, errors and bodies, and what a call of
//! theirs will cost: everything that a limit set has to know before and after it.
//!
//! | file | knows |
//! |---|---|
//! | [`provider`] | which provider, and what it counts |
//! | [`when`] | durations and instants, as each of them writes them |
//! | [`headers`] | what an answer's headers tell of limits |
//! | [`learnt`] | a limit, merged from what answers said, and what others use of it |
//! | [`refusal`] | what a refusal means: wait, move on, or never again |
//! | [`dialect`] | what a path asks for, and in whose words |
//! | [`request`](mod@request) | what a call asks for, read from its body |
//! | [`usage`] | what a call has used, read from an answer or a stream |
//! | [`answer`] | an answer as it comes, and what is charged once it ends |
//! | `brought` | the texts that an event of a stream brings |
//! | `name`, `surrogate` | the name of a member of a JSON object; halves of characters in one |
//! | [`estimate`] | how many tokens an answer will have, learnt from those before |
//! | `by_model` | what was written of models, by their names |
//! | [`price`], [`weight`], [`Cost`] | what tokens cost, and how much they count |
//! | [`Counts`] | what a limit counts of all that |
//! | `error` | errors in the words of each dialect |
//!
//! All of it is pure: bytes in, numbers out; no clock, no network, no state but what the caller
//! holds. Values from outside are bounded: what cannot be is left out and counted, never believed.
//!
//! Not here: limits and leases (`tidegate`), and the proxy that brings the two together.
#![forbid(unsafe_code)]

pub mod answer;
mod brought;
mod by_model;
mod cost;
mod counts;
pub mod dialect;
mod error;
pub mod estimate;
pub mod headers;
pub mod learnt;
mod name;
pub mod price;
pub mod provider;
pub mod refusal;
pub mod request;
mod said;
mod surrogate;
pub mod usage;
pub mod weight;
pub mod when;

pub use answer::{Answer, Ended, encoding};
pub use by_model::ByModel;
pub use cost::{Cost, Costs};
pub use counts::Counts;
pub use dialect::{Asked, Dialect};
pub use estimate::{Estimator, Reserved};
pub use headers::{Observation, Signals};
pub use learnt::Learnt;
pub use price::{Price, Prices};
pub use provider::{Provider, Unit};
pub use refusal::{Kind, Refusal};
pub use request::Request;
pub use usage::{StreamReader, Usage};
pub use weight::{Weight, Weights};
pub use when::Received;
