//! The commands by name.
//!
//! | room | holds |
//! |---|---|
//! | [`answer`] | one request: found, checked, run; its fault written |
//! | [`table`] | every command, as it is looked up |
//! | `shape` | what a command is, and how the conversation goes on after it |
//! | `greeting`, `client`, `small`, `info`, `describe` | what clients say before and between |
//! | `throttle` | `CL.THROTTLE` and `THROTTLE`: the numbers come with the call |
//! | `tg` | the service's own verbs, on policies |
//! | `number` | numbers out of arguments |

mod client;
mod describe;
mod dispatch;
mod greeting;
mod info;
mod number;
mod shape;
mod small;
mod table;
mod tg;
mod throttle;

pub(crate) use dispatch::answer;
pub(crate) use shape::Flow;
