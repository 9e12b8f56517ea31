//! A store that is offered to others: requests in, responses out. How they come and go is
//! for who serves it.
//!
//! | room | holds |
//! |---|---|
//! | [`Offered`] | the store, and what is done for each request |
//! | `table` | a table of it, for all who use it |
//! | `limits` | by which plan a table decides for users whose plans differ |
//! | `moved` | amounts and answers, from the places of one plan to those of another |
//! | [`Answered`] | a response, and what is given back if nobody takes it |
//! | `lasting` | definitions that last for a while |
//! | `expired` | which of them are over, and are removed |
//! | `versions` | the versions of owners' definitions, for little |

mod answered;
mod expired;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod lapsed;
mod lasting;
mod limits;
mod moved;
#[cfg(test)]
mod others;
mod store;
mod table;
mod versions;

pub use answered::{Answered, Undelivered};
pub use store::{MOST_TABLES, Offered, Unread};
