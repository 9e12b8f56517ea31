//! Who goes over to other policies: the service, if the gateway before it can serve them too.

use std::fmt::{self, Display};

use tidegate_gateway::{CostChange, Gateway};
use tidegate_llm::Costs;
use tidegate_policy::PolicyFile;
use tidegate_service::{Change, Service, is_store_away};

use crate::trouble::Trouble;

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
    pub fn exchange(&self, by: &str, policies: &PolicyFile) -> Result<Vec<Change>, NotServed> {
        self.check(policies, None)?;
        let changes = self.service.exchange(by, policies);
        changes.map_err(|why| NotServed {
            is_store_away: is_store_away(&why),
            why: why.to_string(),
        })
    }
}

/// Why policies did not come into force.
#[derive(Debug)]
pub struct NotServed {
    /// In words.
    pub why: String,
    /// The store did not answer: they may, once it does.
    pub is_store_away: bool,
}

impl From<String> for NotServed {
    fn from(why: String) -> Self {
        Self {
            why,
            is_store_away: false,
        }
    }
}

impl From<Trouble> for NotServed {
    fn from(trouble: Trouble) -> Self {
        trouble.to_string().into()
    }
}

impl Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<NotServed> for String {
    fn from(not: NotServed) -> Self {
        not.why
    }
}
