//! The simulated provider: without limits, at a pace at which calls are caught in their middle.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use tidegate_core::Span;
use tidegate_sim::server;
use tidegate_sim::settings::{Pace, Settings};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::http;

/// What a token of a prompt costs, and one of an answer, in millionths of a dollar.
pub const PRICE: (u64, u64) = (100, 500);

/// A provider that answers until this is dropped.
#[derive(Debug)]
pub struct Provider {
    /// Where it listens.
    pub at: SocketAddr,
    _runtime: Runtime,
}

/// What one call has really used, in millionths of a dollar.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Used {
    /// Its prompt.
    pub prompt: u64,
    /// All of it.
    pub whole: u64,
}

impl Provider {
    /// One with an empty ledger.
    ///
    /// # Errors
    /// What the system says.
    pub fn start() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.map_err(|error| error.to_string())?;
        let at = listener.local_addr().map_err(|error| error.to_string())?;
        let settings = Settings {
            price: (PRICE.0 * 1_000_000, PRICE.1 * 1_000_000),
            pace: Pace {
                first: Span::from_millis(5),
                gap: Span::from_millis(1),
            },
            ..Settings::default()
        };
        runtime.spawn(server::serve(listener, settings, 1));
        Ok(Self {
            at,
            _runtime: runtime,
        })
    }

    /// What each call has used, by the credential that it came with; none of them is under way.
    ///
    /// # Errors
    /// If it does not tell, or calls do not end.
    pub fn ledger(&self) -> Result<HashMap<String, Used>, String> {
        let ledger = http::json(self.at, "GET", "/sim/ledger", "")?;
        let entries = ledger.as_object().ok_or("no ledger")?;
        let number = |entry: &serde_json::Value, name: &str| {
            let number = entry[name].as_u64();
            number.ok_or_else(|| format!("the ledger has no {name}"))
        };
        let mut used = HashMap::new();
        for (credential, entry) in entries {
            if number(entry, "open")? > 0 {
                return Err(format!("the call of {credential} is under way"));
            }
            let one = Used {
                prompt: number(entry, "input_tokens")? * PRICE.0,
                whole: number(entry, "spent_millionths")?,
            };
            used.insert(credential.clone(), one);
        }
        Ok(used)
    }
}
