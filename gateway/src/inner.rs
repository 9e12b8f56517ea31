//! What all calls share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tidegate_llm::{Cost, Costs, Estimator, Price, Provider, Request, Reserved, Usage};
use tidegate_service::Service;
use tokio_util::task::TaskTracker;

use crate::bodies::Bodies;
use crate::fair::Queues;
use crate::health::Health;
use crate::learning::Learning;
use crate::meters::Meters;
use crate::reach::Reach;
use crate::reservations::Reservations;
use crate::settings::Settings;
use crate::upstream::Client;
use crate::usage::ByKey;

/// An answer waits for so long at most until the store has been told of it, which goes on by itself.
pub const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// What all calls share.
pub struct Inner {
    pub service: Service,
    pub settings: Settings,
    pub client: Client,
    pub meters: Meters,
    pub health: Health,
    pub reach: Reach,
    pub usage: ByKey,
    pub reservations: Reservations,
    pub learning: Learning,
    pub bodies: Arc<Bodies>,
    /// Ends of leases that are on their way.
    pub tasks: TaskTracker,
    pub estimator: Mutex<Estimator>,
    /// What models cost by the file that was read last.
    pub file_costs: RwLock<Costs>,
    /// Where callers queue fairly.
    pub fair: Option<Queues>,
}

impl Inner {
    /// What tokens of a model cost and how much they count; no price if nobody says one.
    pub fn cost(&self, model: &str) -> (Option<Price>, Cost) {
        let by_file = self.file_costs.read();
        let by_file = by_file.unwrap_or_else(PoisonError::into_inner);
        let price = self.settings.prices.of(model);
        let price = price.or_else(|| by_file.prices.of(model));
        let cost = Cost {
            price: price.unwrap_or_default(),
            weight: by_file.weights.of(model).unwrap_or_default(),
        };
        (price, cost)
    }

    pub fn reserve(&self, provider: Provider, model: &str, key: &str, call: &Request) -> Reserved {
        let estimator = self
            .estimator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        estimator.reserve(provider, model, key, call)
    }

    pub fn learn(&self, model: &str, key: &str, call: &Request, used: &Usage) {
        let mut estimator = self
            .estimator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        estimator.learn(model, key, call, used);
    }
}
