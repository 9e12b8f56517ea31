//! What an answer's headers tell of limits.
//!
//! | file | knows |
//! |---|---|
//! | `observation` | what one answer said of one limit |
//! | `table` | the names by provider |
//! | `reader` | values, and those that are none |
//! | `fields` | the IETF draft's two fields, in its present and its former form |
//! | `signals` | all that one answer said |
//! | `event` | the event of a WebSocket that says the same |

mod event;
mod fields;
mod observation;
mod reader;
mod signals;
mod table;

pub use observation::{MOST_OBSERVATIONS, Observation};
pub use signals::Signals;
