//! Requests as traces, for an OpenTelemetry collector: built with the feature
//! `otlp`, or else refused when asked for.
//!
//! | room | holds |
//! |---|---|
//! | [`OtlpArgs`] | where traces are sent to, and which |
//! | `collector` | how spans are sent, and what is said when nobody takes them |
//! | `requests` | the span of a request over each protocol, and whose child it is |
//! | `on`, `off` | with the feature, and without |

#[cfg(feature = "otlp")]
mod collector;
#[cfg(not(feature = "otlp"))]
mod off;
#[cfg(feature = "otlp")]
mod on;
#[cfg(feature = "otlp")]
mod requests;
mod wanted;

use tidegate_policy::ServerSettings;

use crate::trouble::Outcome;

#[cfg(not(feature = "otlp"))]
pub use off::Traces;
#[cfg(feature = "otlp")]
pub use on::Traces;
pub use wanted::{Listener, OtlpArgs};

use wanted::Wanted;

/// Begins to trace, if that is asked for.
pub fn begin(args: &OtlpArgs, file: &ServerSettings) -> Outcome<(Traces, Option<Listener>)> {
    Traces::begin(Wanted::choose(args, file))
}
