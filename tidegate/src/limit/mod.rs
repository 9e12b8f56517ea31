//! What a limit is, as a user writes it.
//!
//! | room | holds |
//! |---|---|
//! | [`Limit`] | one constraint with a name |
//! | [`LimitName`], [`LimitId`] | what it is called by: its name, or what was found by that once |
//! | [`Period`] | how often it starts afresh: a duration or a calendar's unit |
//! | [`Algorithm`] | how a rate is counted |
//! | [`LimitError`] | what is wrong with one |
//! | [`Unit`], [`AmountError`] | a finer unit than one, so that money stays a whole number |
//!
//! Builders never fail; what makes no sense is said when a set is built, with
//! the limit and the parameter named.

mod algorithm;
mod definition;
mod error;
mod name;
mod period;
mod unit;

pub use algorithm::Algorithm;
pub use definition::{Limit, OnFailure};
pub use error::LimitError;
pub(crate) use name::{Called, NamedAmounts};
pub use name::{LimitId, LimitName};
pub(crate) use period::Calendar;
pub use period::Period;
pub use unit::{AmountError, Unit};
