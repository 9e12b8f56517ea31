//! What every handler shares.

use std::sync::Arc;

use tidegate_protocol::{Share, Shares};
use tidegate_service::{Crowded, Service};

use crate::connection::Connection;
use crate::error::Problem;
use crate::settings::Settings;

/// The service, what the server keeps to, and how many requests are inside.
#[derive(Clone)]
pub(crate) struct App {
    shared: Arc<Shared>,
    /// Where its requests come from, if they are not told it one by one.
    pub(crate) connection: Option<Arc<Connection>>,
}

struct Shared {
    service: Service,
    settings: Settings,
    inside: Shares,
}

impl App {
    pub(crate) fn new(service: Service, settings: Settings) -> Self {
        let inside = Shares::new(settings.max_in_flight);
        Self {
            shared: Arc::new(Shared {
                service,
                settings,
                inside,
            }),
            connection: None,
        }
    }

    pub(crate) fn service(&self) -> &Service {
        &self.shared.service
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// A permit to be inside, which is no token's yet.
    pub(crate) fn enter(&self) -> Result<Share, Problem> {
        let share = self.shared.inside.take();
        share.ok_or_else(|| Problem::busy(Crowded::Requests))
    }
}
