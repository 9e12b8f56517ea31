//! Why something is changed.

use clap::Args;
use serde_json::{Map, Value, json};
use tidegate_client::Exchange;

/// Why something is done.
#[derive(Clone, Debug, Args)]
pub struct Reason {
    /// Why; `tidegate audit` tells it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Reason {
    /// Puts it into the body of a request.
    pub fn put(&self, body: &mut Map<String, Value>) {
        if let Some(reason) = &self.reason {
            body.insert("reason".to_owned(), json!(reason));
        }
    }

    /// Puts it into the query of a request that has no body.
    pub fn query(&self, exchange: Exchange) -> Exchange {
        match &self.reason {
            Some(reason) => exchange.query(&[("reason", reason)]),
            None => exchange,
        }
    }
}
