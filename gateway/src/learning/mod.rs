//! Limits that the provider says, in place of the numbers of the policy's file.
//!
//! A limit that is [`learnt`](tidegate_llm::learnt) counts under the first segment of a call's key,
//! which is the same for all callers: the account. Before a call is admitted, its sets go by the
//! capacities that are known (they travel with each command); with the grant comes where the limits
//! stand; with the answer what the provider has counted. What others use of the account is charged.
//!
//! | file | knows |
//! |---|---|
//! | `account` | which limits are learnt, and the key that they count under |
//! | `all` | all of them: before a call is admitted, and when it is |
//! | `limit` | one limit of one account |
//! | `answer` | what an answer tells |
//! | `debit` | what was debited for others when a call's answer began |
//! | `counted` | what others use, counted once by all gateways of a store |
//! | `told` | what gateways of a store tell each other |

mod account;
mod all;
mod answer;
mod counted;
mod debit;
mod limit;
mod told;

pub use account::{at_most, capacities, check, key, learns};
pub use all::{Learning, Sent};
pub use answer::answered;
pub use debit::Debits;
