//! How spans are sent: on a thread of their own, with the client that the rest of
//! the command has. A collector that is away is waited for by nobody else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use reqwest::Url;
use tidegate_client::Tls;
use tokio::runtime::Runtime;
use tracing::{info, warn};

use crate::trouble::{Outcome, Trouble};

/// How long a collector may take for a batch.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most that is read of what it says, in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// The collector at `url`: its base, or where it takes traces.
pub fn at(url: &str) -> Outcome<impl SpanExporter + 'static> {
    let endpoint = endpoint(url)?;
    let builder = opentelemetry_otlp::SpanExporter::builder().with_http();
    let exporter = builder
        .with_http_client(Poster::to(&endpoint)?)
        .with_endpoint(endpoint.as_str())
        .with_protocol(Protocol::HttpBinary)
        .with_timeout(PATIENCE)
        .build();
    Ok(Telling {
        exporter: exporter.map_err(Trouble::failure)?,
        is_away: AtomicBool::new(false),
    })
}

fn endpoint(url: &str) -> Outcome<Url> {
    let bad = || {
        let example = "http://127.0.0.1:4318";
        Trouble::failure(format!(
            "`{url}` is no collector; write `otlp` as {example}"
        ))
    };
    let mut endpoint = Url::parse(url).map_err(|_| bad())?;
    if !matches!(endpoint.scheme(), "http" | "https") || !endpoint.has_host() {
        return Err(bad());
    }
    if endpoint.path() == "/" {
        endpoint.set_path("/v1/traces");
    }
    Ok(endpoint)
}

/// Says once that spans are not taken, and once that they are again.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    is_away: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let taken = self.exporter.export(batch).await;
        let was_away = self.is_away.swap(taken.is_err(), Ordering::Relaxed);
        match &taken {
            Err(error) if !was_away => {
                warn!(%error, "the collector takes no traces: they are dropped until it does");
            }
            Ok(()) if was_away => info!("the collector takes traces again"),
            _ => {}
        }
        taken
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Posts what is encoded. It has a runtime of its own, on the thread that sends:
/// the last spans are sent when the server's has ended.
#[derive(Debug)]
struct Poster {
    runtime: Runtime,
    client: reqwest::Client,
}

impl Poster {
    fn to(endpoint: &Url) -> Outcome<Self> {
        let client = reqwest::Client::builder().timeout(PATIENCE);
        let tls = Tls::default().config(endpoint.scheme() == "https");
        let client = client.tls_backend_preconfigured(tls.map_err(Trouble::failure)?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Ok(Self {
            runtime: runtime.map_err(Trouble::failure)?,
            client: client.build().map_err(Trouble::failure)?,
        })
    }

    async fn post(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut said = self.client.execute(request.try_into()?).await?;
        let mut body = Vec::new();
        while let Some(chunk) = said.chunk().await? {
            if body.len() + chunk.len() > MOST_BYTES {
                return Err("the collector says too much".into());
            }
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = said.status();
        *response.headers_mut() = said.headers().clone();
        Ok(response)
    }
}

#[async_trait]
impl HttpClient for Poster {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // Nothing else is done on this thread.
        self.runtime.block_on(self.post(request))
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn a_collector_is_named_by_its_base_or_in_full() {
        let at = |url| endpoint(url).map(|url| url.to_string()).ok();
        let in_full = Some("http://c:4318/v1/traces".to_owned());
        assert_eq!(at("http://c:4318"), in_full);
        assert_eq!(at("http://c:4318/v1/traces"), in_full);
        assert_eq!(
            at("https://c/in/here").as_deref(),
            Some("https://c/in/here")
        );
        assert!(at("c:4318").is_none() && at("").is_none() && at("redis://c").is_none());
    }
}
