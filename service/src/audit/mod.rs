//! Who changed what: in a log of its own, and as events that the store keeps: of an override or
//! an entity in the same step, of all else before it is done.
//!
//! | room | holds |
//! |---|---|
//! | `log` | a line for each change, for `--audit PATH` |
//! | `event` | [`AuditEvent`]: before, after, who, from where, why, and its bytes |
//! | `sorts` | the five sorts of events, each kept by itself, as one list |
//! | `verbs` | events kept, and listed in pages |

mod event;
mod log;
mod sorts;
mod verbs;

pub use event::{Action, AuditEvent, AuditValue};
pub(crate) use event::{EventDraft, Retention};
pub(crate) use log::begin;
pub use log::{TARGET, note};
