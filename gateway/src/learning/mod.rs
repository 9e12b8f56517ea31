//! Limits that the provider says, in place of the numbers of the policy's file.
//!
//! A limit that is [`learnt`](tidegate_llm::learnt) counts under the first segment of a call's key,
//! which is the same for all callers: the account. Before a call is admitted, its sets go by the
//! capacities that are known (they travel with each command); with the grant comes where the limits
//! stand; with the answer what the provider has counted. What others use of the account is charged.
//!
//! How much an upstream can serve at once no provider says: a concurrency limit that is learnt goes by
//! how the answers come.
//!
//! | file | knows |
//! |---|---|
//! | `account` | which limits are learnt, and the key that they count under |
//! | `all` | all of them: before a call is admitted, and when it is |
//! | `known` | something of each limit that was asked for |
//! | `limit` | one limit of one account |
//! | `concurrency` | how many calls an upstream can serve at once |
//! | `answer` | what an answer tells |
//! | `debit` | what was debited for others when a call's answer began |
//! | `counted` | what others use, counted once by all gateways of a store |
//! | `told` | what gateways of a store tell each other |

mod account;
mod all;
mod answer;
mod concurrency;
mod counted;
mod debit;
mod known;
mod limit;
mod told;

pub use account::{check, key, learns};
pub use all::{Learning, Sent};
pub use answer::answered;
pub use concurrency::{Measured, Went};
pub use debit::Debits;
