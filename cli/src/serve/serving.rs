//! Who goes over to other policies: the service, if the gateway before it can serve them too.

use tidegate_gateway::Gateway;
use tidegate_policy::PolicyFile;
use tidegate_service::{Change, Service};

/// A service, and the gateway that stands before providers with its limits.
#[derive(Clone)]
pub struct Serving {
    pub service: Service,
    pub gateway: Option<Gateway>,
}

impl Serving {
    /// Whether what stands before providers could serve `policies`.
    ///
    /// # Errors
    /// Why it could not: that does not pass by itself.
    pub fn check(&self, policies: &PolicyFile) -> Result<(), String> {
        let could = self.gateway.as_ref().map(|gateway| gateway.check(policies));
        could.transpose().map_err(|why| why.to_string()).map(drop)
    }

    /// Goes over to `policies`, wholly or not at all, as `by` said; what has changed.
    ///
    /// # Errors
    /// Why they cannot be served, by the gateway or by the service.
    pub fn exchange(&self, by: &str, policies: &PolicyFile) -> Result<Vec<Change>, String> {
        self.check(policies)?;
        let changes = self.service.exchange(by, policies);
        changes.map_err(|why| why.to_string())
    }
}
