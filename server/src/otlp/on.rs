//! Spans of requests, on their way to a collector.

use std::time::Duration;

use axum::middleware;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider,
};
use tidegate_grpc::Trace;
use tidegate_http::Server;
use tidegate_service::spans;
use tracing::debug;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Layer;

use super::wanted::{Listener, Wanted};
use super::{collector, requests};
use crate::trouble::Outcome;

/// How many spans wait to be sent; what comes beyond is dropped.
const QUEUE: usize = 4_096;

/// How many are sent at once.
const BATCH: usize = 512;

/// How long a span waits for others at most.
const DELAY: Duration = Duration::from_secs(1);

/// How long a server that stops waits for its collector.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether requests are traced, and by whom.
#[derive(Clone, Debug)]
pub struct Traces(Option<SdkTracerProvider>);

impl Traces {
    pub(super) fn begin(wanted: Option<Wanted>) -> Outcome<(Self, Option<Listener>)> {
        let Some(wanted) = wanted else {
            return Ok((Self(None), None));
        };
        spans::tell_keys(wanted.keys);
        let provider = provider(&wanted)?;
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("tidegate"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_level(false)
            .with_tracked_inactivity(false);
        let only = Targets::new().with_target(spans::TARGET, LevelFilter::TRACE);
        Ok((Self(Some(provider)), Some(layer.with_filter(only).boxed())))
    }

    /// The server, with each request in a span.
    pub fn http(&self, server: Server) -> Server {
        let spans = || middleware::from_fn(requests::over_http);
        match self.0 {
            Some(_) => server.behind(|router| router.layer(spans())),
            None => server,
        }
    }

    /// What makes the span of a call.
    pub fn grpc(&self) -> Option<Trace> {
        self.0.as_ref().map(|_| Trace(requests::over_grpc))
    }

    /// Sends what waits to be sent, unless that takes too long.
    pub fn finish(self) {
        if let Some(Err(error)) = self
            .0
            .map(|provider| provider.shutdown_with_timeout(PATIENCE))
        {
            debug!(%error, "the last traces were not taken");
        }
    }
}

fn provider(wanted: &Wanted) -> Outcome<SdkTracerProvider> {
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let collector = collector::at(&wanted.url)?;
    let processor = BatchSpanProcessor::builder(collector).with_batch_config(config);
    // A caller's own trace is kept if, and only if, the caller keeps it.
    let of_ours = Sampler::TraceIdRatioBased(1.0 / f64::from(wanted.one_in));
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_service_name("tidegate");
    Ok(SdkTracerProvider::builder()
        .with_span_processor(processor.build())
        .with_sampler(Sampler::ParentBased(Box::new(of_ours)))
        .with_resource(resource.with_attribute(version).build())
        .build())
}
