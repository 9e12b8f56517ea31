//! The commands by name.
//!
//! | room | holds |
//! |---|---|
//! | [`answer`] | one request: found, checked, run; its fault written |
//! | [`table`] | every command: its shape, what it is for, where it is run |
//! | `greeting`, `client`, `small`, `info`, `describe` | what clients say before and between |
//! | `throttle` | `CL.THROTTLE` and `THROTTLE`: the numbers come with the call |
//! | `tg` | the gate's own verbs, on policies |
//! | `number` | numbers out of arguments |

mod client;
mod describe;
mod dispatch;
mod greeting;
mod info;
mod number;
mod small;
mod table;
mod tg;
mod throttle;

pub(crate) use dispatch::{Flow, answer};
