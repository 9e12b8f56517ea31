//! Who goes over to other policies: the service, if the gateway before it can serve them too.

use tidegate_gateway::{CostChange, Gateway};
use tidegate_llm::Costs;
use tidegate_policy::PolicyFile;
use tidegate_service::{Change, Service};

/// A service, and the gateway that stands before providers with its limits.
#[derive(Clone)]
pub struct Serving {
    pub service: Service,
    pub gateway: Option<Gateway>,
}

impl Serving {
    /// Whether what stands before providers could serve `policies`, where models cost that if they come
    /// with another file.
    ///
    /// # Errors
    /// Why it could not: that does not pass by itself.
    pub fn check(&self, policies: &PolicyFile, costs: Option<&Costs>) -> Result<(), String> {
        let gateway = self.gateway.as_ref();
        let could = gateway.map(|gateway| gateway.check(policies, costs));
        could.transpose().map_err(|why| why.to_string()).map(drop)
    }

    /// What other prices and weights of the file change: nothing where no gateway goes by them.
    pub fn cost_changes(&self, costs: &Costs) -> Vec<CostChange> {
        let gateway = self.gateway.as_ref();
        let changes = gateway.map(|gateway| gateway.cost_changes(costs));
        changes.unwrap_or_default()
    }

    /// Goes over to what models cost by the file that was read last; what they cost before.
    pub fn exchange_costs(&self, costs: Costs) -> Costs {
        let exchanged = self.gateway.as_ref();
        let exchanged = exchanged.map(|gateway| gateway.exchange_costs(costs));
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
