//! What every handler shares.

use std::sync::Arc;

use tidegate_service::Service;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;
use crate::settings::Settings;

/// The service, what the door keeps to, and how many are inside.
#[derive(Clone)]
pub(crate) struct Door(Arc<Shared>);

struct Shared {
    service: Service,
    settings: Settings,
    inside: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(service: Service, settings: Settings) -> Self {
        let most = settings.max_in_flight.min(Semaphore::MAX_PERMITS);
        Self(Arc::new(Shared {
            service,
            settings,
            inside: Arc::new(Semaphore::new(most)),
        }))
    }

    pub(crate) fn service(&self) -> &Service {
        &self.0.service
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// A place inside. Nobody queues for one: who is told at once can go
    /// elsewhere, and who queues holds memory.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let place = Arc::clone(&self.0.inside).try_acquire_owned();
        place.map_err(|_| Problem::busy())
    }
}
