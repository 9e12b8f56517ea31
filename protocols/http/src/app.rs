//! What every handler shares.

use std::sync::Arc;

use tidegate_protocol::Permits;
use tidegate_service::Service;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Problem;
use crate::settings::Settings;

/// The service, what the server keeps to, and how many requests are inside.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

struct Shared {
    service: Service,
    settings: Settings,
    inside: Permits,
}

impl App {
    pub(crate) fn new(service: Service, settings: Settings) -> Self {
        Self(Arc::new(Shared {
            inside: Permits::new(settings.max_in_flight),
            service,
            settings,
        }))
    }

    pub(crate) fn service(&self) -> &Service {
        &self.0.service
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// A permit to be inside.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.0.inside.take().ok_or_else(Problem::busy)
    }
}
