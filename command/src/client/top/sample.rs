//! What a server has counted at one moment.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidegate_client::Exchange;
use tidegate_policy::DEFAULT_NAMESPACE;

use super::exposition::{self, Line};
use super::quantile::Buckets;
use crate::client::exit::Outcome;
use crate::client::listing;
use crate::client::server::Client;

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// By policy.
    pub policies: BTreeMap<String, Counts>,
    /// The keys refused most often, the most frequent first.
    pub denied: Vec<Denied>,
    /// Its store gives no answers now.
    pub is_store_away: bool,
}

/// Of one policy; what is counted is counted since the server's start.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub admitted: f64,
    pub refused: f64,
    pub failed: f64,
    /// Admitted although the store could not tell.
    pub degraded: f64,
    /// Who waits now.
    pub waiting: f64,
    /// Leases held now; `None` where the store does not say.
    pub leases: Option<f64>,
    /// Keys held now, likewise.
    pub keys: Option<f64>,
    /// How long those who were granted a lease have waited.
    pub waits: Buckets,
}

/// A key that is refused often.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    pub policy: String,
    /// As it can be shown.
    pub key: String,
    /// How often, at most.
    pub count: u64,
}

impl Sample {
    /// Asks the server.
    /// In that namespace: of others the metrics tell, too.
    pub async fn take(
        client: &Client,
        namespace: &str,
        longest: Duration,
        denied: u16,
    ) -> Outcome<Self> {
        let metrics = client
            .done(Exchange::get("/metrics").within(longest))
            .await?;
        let mut sample = Self::read(&metrics.text, namespace);
        if denied > 0 {
            let limit = denied.to_string();
            let query = [("limit", limit.as_str())];
            let asked = Exchange::get("/v1/denied").query(&query);
            let reply = client.done(asked.within(longest)).await?;
            sample.denied = read_denied(&reply.body);
        }
        Ok(sample)
    }

    /// What the metrics say of a namespace.
    pub fn read(metrics: &str, namespace: &str) -> Self {
        let mut sample = Self::default();
        for line in exposition::lines(metrics) {
            if line.name == "tidegate_store_up" {
                sample.is_store_away = line.value == 0.0;
            }
            let Some(policy) = line.labels.get("policy") else {
                continue;
            };
            let label = line.labels.get("namespace");
            if label.map_or(DEFAULT_NAMESPACE, String::as_str) != namespace {
                continue;
            }
            if line.name.starts_with("tidegate_") && line.name != "tidegate_denied_keys" {
                sample
                    .policies
                    .entry(policy.clone())
                    .or_default()
                    .count(&line);
            }
        }
        sample
    }
}

impl Counts {
    fn count(&mut self, line: &Line) {
        let label = |name: &str| line.labels.get(name).map_or("", String::as_str);
        let place = match (line.name.as_str(), label("outcome")) {
            ("tidegate_decisions_total", "admitted") => &mut self.admitted,
            ("tidegate_decisions_total", "refused") => &mut self.refused,
            ("tidegate_decisions_total", "failed") => &mut self.failed,
            ("tidegate_degraded_total", _) => &mut self.degraded,
            ("tidegate_waiting", _) => &mut self.waiting,
            ("tidegate_leases", _) => self.leases.get_or_insert_default(),
            ("tidegate_keys", _) => self.keys.get_or_insert_default(),
            ("tidegate_wait_seconds_bucket", _) => {
                return self.waits.add(label("le"), line.value);
            }
            _ => return,
        };
        // A pool's members are counted one by one.
        *place += line.value;
    }
}

fn read_denied(body: &Value) -> Vec<Denied> {
    let denied = body["denied"].as_array().map_or(&[][..], Vec::as_slice);
    let read = |one: &Value| Denied {
        policy: one["policy"].as_str().unwrap_or("?").to_owned(),
        key: listing::key(one),
        count: one["count"].as_u64().unwrap_or(0),
    };
    denied.iter().map(read).collect()
}
