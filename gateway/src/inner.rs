//! What all calls share.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tidegate_llm::{Estimator, Price, Prices, Provider, Request, Reserved, Usage};
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
    pub file_prices: RwLock<Prices>,
    /// Where callers queue fairly.
    pub fair: Option<Queues>,
}

impl Inner {
    /// What tokens of a model cost.
    pub fn price(&self, model: &str) -> Option<Price> {
        let by_file = || {
            let prices = self.file_prices.read();
            prices.unwrap_or_else(PoisonError::into_inner).of(model)
        };
        self.settings.prices.of(model).or_else(by_file)
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
