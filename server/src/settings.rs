//! What each listener keeps to: its own defaults, and what the file says instead.

use std::time::Duration;

use tidegate_http::{Apply, Ready, Render};
use tidegate_policy::ServerSettings;

/// How long the requests in flight may take when the server stops.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// A listener of its own accord cuts no client off: one timer does for all listeners, and
/// says so in the log.
const DRAIN: Duration = Duration::MAX;

pub fn shutdown(file: &ServerSettings) -> Duration {
    file.shutdown_timeout.unwrap_or(SHUTDOWN)
}

pub fn http(
    file: &ServerSettings,
    render: Render,
    ready: Ready,
    apply: Option<Apply>,
) -> tidegate_http::Settings {
    let mut settings = tidegate_http::Settings {
        metrics: Some(render),
        ready,
        apply,
        drain: DRAIN,
        ..tidegate_http::Settings::default()
    };
    if let Some(most) = file.max_connections {
        settings.max_connections = most;
    }
    if let Some(most) = file.max_in_flight {
        settings.max_in_flight = most;
    }
    settings
}

pub fn grpc(file: &ServerSettings) -> tidegate_grpc::Settings {
    let mut settings = tidegate_grpc::Settings::default();
    if let Some(most) = file.max_connections {
        settings.max_connections = most;
    }
    if let Some(most) = file.max_in_flight {
        settings.max_in_flight = most;
    }
    settings
}

pub fn resp(file: &ServerSettings) -> tidegate_resp::Settings {
    let settings = tidegate_resp::Settings::default().drain(DRAIN);
    match file.max_connections {
        Some(most) => settings.max_connections(most),
        None => settings,
    }
}

/// The gateway's own settings are those of its flags.
pub fn gateway(file: &ServerSettings, settings: &mut tidegate_gateway::Settings) {
    settings.drain = DRAIN;
    if let Some(most) = file.max_connections {
        settings.max_connections = most;
    }
}
