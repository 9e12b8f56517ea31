//! Bounds, and what the caller brings.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_policy::PolicyFile;
use tidegate_service::Change;

/// Renders what was measured, as Prometheus reads it.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Policies that are to be gone over to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Application {
    /// The name of the token that asks for it.
    pub by: String,
    /// A file name that tells the language of the text.
    pub name: String,
    /// The policies as they were sent.
    pub text: String,
    /// The same, read.
    pub policies: PolicyFile,
}

/// Goes over to policies and keeps them, or says why not and changes nothing.
/// It may block: it is called where that harms nobody.
pub type Apply = Arc<dyn Fn(Application) -> Result<Vec<Change>, String> + Send + Sync>;

/// What a server keeps to.
#[derive(Clone)]
pub struct Settings {
    /// The most connections at once; one more is told so and closed.
    pub max_connections: usize,
    /// How many requests of one HTTP/2 connection may be open at once.
    pub max_streams: u32,
    /// The most that is read ahead of one connection, and so the longest head,
    /// in bytes; not less than 8 KiB.
    pub max_head_bytes: usize,
    /// How long a client may take to send a request's head; and how long a
    /// connection may lie idle.
    pub head_timeout: Duration,
    /// How long requests may take to be answered when the server stops.
    pub drain: Duration,
    /// The longest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// How many requests are read and answered at once; more are told to come
    /// again. Who waits for a lease does not count: those are bounded by each
    /// policy's `max_waiting`.
    pub max_in_flight: usize,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Whether every answer carries `X-RateLimit-*` too; a request can ask for
    /// them with `?headers=legacy`.
    pub legacy_headers: bool,
    /// What `/metrics` shows; nothing is there if not said.
    pub metrics: Option<Render>,
    /// What `PUT /v1/policies` does; policies are not applied here if not said.
    pub apply: Option<Apply>,
    /// What `/readyz` says.
    pub ready: Ready,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_streams: 256,
            max_head_bytes: 32 * 1024,
            head_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            max_body_bytes: 64 * 1024,
            max_in_flight: 4_096,
            body_timeout: Duration::from_secs(10),
            legacy_headers: false,
            metrics: None,
            apply: None,
            ready: Ready::default(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("max_connections", &self.max_connections)
            .field("max_streams", &self.max_streams)
            .field("max_head_bytes", &self.max_head_bytes)
            .field("head_timeout", &self.head_timeout)
            .field("drain", &self.drain)
            .field("max_body_bytes", &self.max_body_bytes)
            .field("max_in_flight", &self.max_in_flight)
            .field("body_timeout", &self.body_timeout)
            .field("legacy_headers", &self.legacy_headers)
            .field("metrics", &self.metrics.is_some())
            .field("apply", &self.apply.is_some())
            .field("ready", &self.ready)
            .finish()
    }
}

/// Whether requests should be sent here. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Ready(Arc<AtomicBool>);

impl Ready {
    /// A flag that stands at `ready`.
    #[must_use]
    pub fn new(ready: bool) -> Self {
        Self(Arc::new(AtomicBool::new(ready)))
    }

    /// Says so from now on.
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Relaxed);
    }

    /// What was said last.
    #[must_use]
    pub fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Default for Ready {
    /// Ready.
    fn default() -> Self {
        Self::new(true)
    }
}
