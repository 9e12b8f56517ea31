//! Without the feature there are no traces, and whoever asks for them is told.

use tidegate_grpc::Trace;
use tidegate_http::Server;

use super::wanted::{Listener, Wanted};
use crate::trouble::{Outcome, Trouble};

/// None.
#[derive(Clone, Debug)]
pub struct Traces;

impl Traces {
    pub(super) fn begin(wanted: Option<Wanted>) -> Outcome<(Self, Option<Listener>)> {
        match wanted {
            None => Ok((Self, None)),
            Some(wanted) => Err(Trouble::failure(format!(
                "this tidegate was built without traces, so that nothing can be sent to {}; \
                 build it with `cargo build --release -p tidegate-cli --features otlp`, \
                 or leave `otlp` out",
                wanted.url
            ))),
        }
    }

    pub fn http(&self, server: Server) -> Server {
        server
    }

    pub fn grpc(&self) -> Option<Trace> {
        None
    }

    pub fn finish(self) {}
}
