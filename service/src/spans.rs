//! What a request tells of itself, for traces.
//!
//! A protocol opens a span for each request ([`RequestSpan`]); the service writes into it
//! which policy was asked and what came of it. Without the feature `spans` all of
//! this is nothing at all. With it, and without a subscriber, it is a look at
//! an atomic: the spans are of the level TRACE, and of a target of their own.

#[cfg(feature = "spans")]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "spans")]
use tracing::{Level, Span, field::Empty};

use super::error::ServiceError;

/// The target of the spans.
pub const TARGET: &str = "tidegate::request";

/// Whether spans tell keys.
#[cfg(feature = "spans")]
static KEYS: AtomicBool = AtomicBool::new(false);

/// Whether the spans of this process tell keys, too: who was limited. They do not
/// unless this says so.
#[cfg(feature = "spans")]
pub fn tell_keys(tell: bool) {
    KEYS.store(tell, Ordering::Relaxed);
}

/// The span of one request over a protocol; nothing without a subscriber.
#[derive(Clone, Debug)]
pub struct RequestSpan(#[cfg(feature = "spans")] Span);

impl RequestSpan {
    /// Begins, as the child of the span that is current. A request that holds
    /// several tells of none of them.
    #[inline]
    #[must_use]
    #[cfg_attr(
        not(feature = "spans"),
        expect(unused_variables, reason = "spans are off")
    )]
    pub fn open(protocol: &'static str, verb: &str) -> Self {
        #[cfg(feature = "spans")]
        match verb {
            _ if !listened() => Self(Span::none()),
            "check-many" | "CheckMany" | "CheckStream" => Self(tracing::span!(
                target: TARGET, Level::TRACE, "request",
                otel.name = verb, otel.kind = "server", tidegate.protocol = protocol, tidegate.verb = verb,
            )),
            _ => Self(tracing::span!(
                target: TARGET, Level::TRACE, "request",
                otel.name = verb, otel.kind = "server", tidegate.protocol = protocol, tidegate.verb = verb,
                tidegate.policy = Empty, tidegate.outcome = Empty, tidegate.key = Empty,
            )),
        }
        #[cfg(not(feature = "spans"))]
        Self()
    }

    /// The one that the thread is in.
    #[inline]
    #[must_use]
    pub fn current() -> Self {
        #[cfg(feature = "spans")]
        match listened() {
            true => Self(Span::current()),
            false => Self(Span::none()),
        }
        #[cfg(not(feature = "spans"))]
        Self()
    }

    /// Does this within.
    #[inline]
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        #[cfg(feature = "spans")]
        return self.0.in_scope(work);
        #[cfg(not(feature = "spans"))]
        work()
    }

    /// Waits for this within.
    // No `async fn`: that moves what it is given once more.
    #[inline]
    pub fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        #[cfg(feature = "spans")]
        return tracing::Instrument::instrument(work, self.0.clone());
        #[cfg(not(feature = "spans"))]
        work
    }

    /// The span itself.
    #[cfg(feature = "spans")]
    #[must_use]
    pub fn into_inner(self) -> Span {
        self.0
    }
}

#[cfg(feature = "spans")]
#[inline]
fn listened() -> bool {
    tracing::enabled!(target: TARGET, Level::TRACE)
}

/// Which policy the request names, once it is known.
#[inline]
#[cfg_attr(
    not(feature = "spans"),
    expect(unused_variables, reason = "spans are off")
)]
pub(super) fn policy(name: &str) {
    #[cfg(feature = "spans")]
    if listened() {
        Span::current().record("tidegate.policy", name);
    }
}

/// What came of it, and for whom.
#[inline]
#[cfg_attr(
    not(feature = "spans"),
    expect(unused_variables, reason = "spans are off")
)]
pub(super) fn outcome(key: &[u8], word: &'static str) {
    #[cfg(feature = "spans")]
    if listened() {
        let span = Span::current();
        span.record("tidegate.outcome", word);
        if KEYS.load(Ordering::Relaxed) {
            span.record("tidegate.key", &*String::from_utf8_lossy(key));
        }
    }
}

/// Of what is neither admitted nor refused: whether it was done.
#[inline]
pub(super) fn done<T>(key: &[u8], answer: Result<T, ServiceError>) -> Result<T, ServiceError> {
    match &answer {
        Ok(_) => outcome(key, "done"),
        Err(error) => outcome(key, error.kind().code()),
    }
    answer
}

/// Writes the code of an error into the request's span; without a key, which may not be known
/// yet.
#[inline]
pub(super) fn record_error<T>(answer: Result<T, ServiceError>) -> Result<T, ServiceError> {
    if let Err(error) = &answer {
        outcome(&[], error.kind().code());
    }
    answer
}
