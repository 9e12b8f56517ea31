//! An hour of real traffic, of which a provider admits three quarters: how often is it asked in vain,
//! how much of its limit is used, and how long do calls wait, by the client that stands before it?
//!
//! All of it happens in virtual time. The provider is `tidegate-sim`, over HTTP or through a pipe; the
//! gateway is the product's own, whole, with its clock in our hands; the other clients are the
//! packages of PyPI themselves, on an event loop whose time stands until there is nothing to do.
//!
//! | file | holds |
//! |---|---|
//! | `traffic` | the calls of the trace |
//! | `course` | what the provider is like, and when its limit changes |
//! | `book` | what the provider has decided |
//! | `time` | a clock for gateway, provider and calls that moves when all have done what they could |
//! | `gateway` | the trace through the gateway |
//! | `peers` | the trace through a program of Python's, by a pipe |
//! | `outcome` | what came of one course, in numbers |
//! | `table`, `picture` | all of it in words and drawn |

pub mod book;
pub mod course;
pub mod gateway;
pub mod outcome;
pub mod peers;
pub mod picture;
pub mod table;
pub mod time;
pub mod traffic;
