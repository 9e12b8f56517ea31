//! Who goes over to other policies: the service, if the gateway before it can serve them too.

use tidegate_gateway::{Gateway, PriceChange};
use tidegate_llm::Prices;
use tidegate_policy::PolicyFile;
use tidegate_service::{Change, Service};

/// A service, and the gateway that stands before providers with its limits.
#[derive(Clone)]
pub struct Serving {
    pub service: Service,
    pub gateway: Option<Gateway>,
}

impl Serving {
    /// Whether what stands before providers could serve `policies`, at these prices if they come
    /// with others of the file.
    ///
    /// # Errors
    /// Why it could not: that does not pass by itself.
    pub fn check(&self, policies: &PolicyFile, prices: Option<&Prices>) -> Result<(), String> {
        let gateway = self.gateway.as_ref();
        let could = gateway.map(|gateway| gateway.check(policies, prices));
        could.transpose().map_err(|why| why.to_string()).map(drop)
    }

    /// What other prices of the file change: nothing where no gateway goes by them.
    pub fn price_changes(&self, prices: &Prices) -> Vec<PriceChange> {
        let gateway = self.gateway.as_ref();
        let changes = gateway.map(|gateway| gateway.price_changes(prices));
        changes.unwrap_or_default()
    }

    /// Goes over to what models cost by the file that was read last; what they cost before.
    pub fn exchange_prices(&self, prices: Prices) -> Prices {
        let exchanged = self.gateway.as_ref();
        let exchanged = exchanged.map(|gateway| gateway.exchange_prices(prices));
        exchanged.unwrap_or_default()
    }

    /// Goes over to `policies`, wholly or not at all, as `by` said; what has changed.
    ///
    /// # Errors
    /// Why they cannot be served, by the gateway or by the service.
    pub fn exchange(&self, by: &str, policies: &PolicyFile) -> Result<Vec<Change>, String> {
        self.check(policies, None)?;
        let changes = self.service.exchange(by, policies);
        changes.map_err(|why| why.to_string())
    }
}
