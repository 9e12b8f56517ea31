//! Sockets, and what is served on them.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::serve::{Listener, ListenerExt};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tidegate::gate::Gate;
use tidegate::policy::{PolicyFile, ServerSettings};
use tidegate_http::Apply;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::info;

use super::address::{Address, choose};
use super::args::Serve;
use crate::trouble::{Outcome, Trouble};

/// Histogram bounds, in seconds: from a decision in memory to a long wait.
const SECONDS: [f64; 14] = [
    1e-6, 5e-6, 2e-5, 1e-4, 5e-4, 2e-3, 1e-2, 5e-2, 0.2, 1.0, 5.0, 15.0, 60.0, 300.0,
];

/// Open sockets.
pub struct Doors {
    http: Option<TcpListener>,
    grpc: Option<TcpListener>,
    resp: Option<TcpListener>,
    settings: ServerSettings,
}

/// Begins to record what `/metrics` shows.
pub fn recorder() -> Outcome<PrometheusHandle> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS);
    let recorder = builder.and_then(PrometheusBuilder::install_recorder);
    recorder.map_err(Trouble::failure)
}

impl Doors {
    /// Binds every address, before anything is said or done.
    pub async fn open(args: &Serve, file: &ServerSettings) -> Outcome<Self> {
        Ok(Self {
            http: bind("http", args.http, file.http.as_deref(), "127.0.0.1:7400").await?,
            grpc: bind("grpc", args.grpc, file.grpc.as_deref(), "127.0.0.1:7401").await?,
            resp: bind("resp", args.resp, file.resp.as_deref(), "127.0.0.1:7402").await?,
            settings: file.clone(),
        })
    }

    /// Whether anyone beyond this machine can reach a door.
    pub fn are_public(&self) -> bool {
        let listeners = [&self.http, &self.grpc, &self.resp];
        let mut addresses = listeners.into_iter().flatten().filter_map(address);
        addresses.any(|address| !address.ip().is_loopback())
    }

    /// Says where the doors are, and how to try one.
    pub fn announce(&self, policies: &PolicyFile, store: &str) {
        let mut words = format!(
            "tidegate serves {} from {store}\n",
            policies.names().collect::<Vec<_>>().join(", ")
        );
        let at = |listener: &Option<TcpListener>| listener.as_ref().and_then(address);
        let first = &policies.policies[0].name;
        if let Some(at) = at(&self.http) {
            words += &format!(
                "  HTTP  http://{at}  (/openapi.json, /metrics, /healthz)\n        \
                 curl -s http://{at}/v1/acquire -H 'content-type: application/json' \
                 -d '{{\"policy\":\"{first}\",\"key\":\"alice\",\"cost\":1}}'\n"
            );
        }
        if let Some(at) = at(&self.grpc) {
            words += &format!("  gRPC  {at}  (tidegate.v1.Tidegate, reflection, health)\n");
        }
        if let Some(at) = at(&self.resp) {
            let (host, port) = (at.ip(), at.port());
            words += &format!(
                "  RESP  {at}\n        \
                 redis-cli -h {host} -p {port} TG.ACQUIRE {first} alice COST 1\n"
            );
        }
        // Whoever does not read it has not asked.
        let _ = std::io::stdout().write_all(words.as_bytes());
    }

    /// Serves until SIGINT or SIGTERM; then nobody new is let in, and everyone
    /// inside is answered.
    pub async fn serve(
        self,
        gate: Gate,
        recorder: PrometheusHandle,
        apply: Option<Apply>,
    ) -> Outcome<()> {
        let (close, closing) = watch::channel(false);
        let mut serving: JoinSet<std::io::Result<()>> = JoinSet::new();
        if let Some(listener) = self.http {
            let settings = http_settings(&self.settings, &gate, recorder, apply);
            let router = tidegate_http::router(gate.clone(), settings);
            let served = tidegate_http::serve(quick(listener), router, closed(closing.clone()));
            serving.spawn(async move {
                served.await;
                Ok(())
            });
        }
        if let Some(listener) = self.grpc {
            let settings = grpc_settings(&self.settings);
            let closing = closed(closing.clone());
            let served = tidegate_grpc::serve(gate.clone(), settings, listener, closing);
            serving.spawn(async move { served.await.map_err(std::io::Error::other) });
        }
        if let Some(listener) = self.resp {
            let door = tidegate_resp::Door::new(gate.clone(), resp_settings(&self.settings));
            let closing = closed(closing.clone());
            serving.spawn(async move { door.serve(listener, closing).await });
        }
        tokio::select! {
            () = told_to_stop() => info!("stopping: answering who is inside"),
            Some(ended) = serving.join_next() => return ended_early(ended),
        }
        gate.close();
        // Whoever is gone already need not be told.
        let _ = close.send(true);
        while let Some(ended) = serving.join_next().await {
            ended.map_err(Trouble::failure)?.map_err(Trouble::failure)?;
        }
        Ok(())
    }
}

async fn bind(
    door: &str,
    said: Option<Address>,
    file: Option<&str>,
    usual: &str,
) -> Outcome<Option<TcpListener>> {
    let address = choose(said, file, usual);
    let address = match address.map_err(|error| Trouble::usage(format!("{door}: {error}")))? {
        Address::Off => return Ok(None),
        Address::At(address) => address,
    };
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|error| {
        Trouble::failure(format!(
            "cannot listen for {door} at {address}: {error}; choose another with --{door} HOST:PORT, or --{door} off"
        ))
    })
}

fn address(listener: &TcpListener) -> Option<SocketAddr> {
    listener.local_addr().ok()
}

fn http_settings(
    file: &ServerSettings,
    gate: &Gate,
    recorder: PrometheusHandle,
    apply: Option<Apply>,
) -> tidegate_http::Settings {
    let gate = gate.clone();
    let mut settings = tidegate_http::Settings {
        metrics: Some(Arc::new(move || {
            gate.observe();
            recorder.render()
        })),
        apply,
        ..tidegate_http::Settings::default()
    };
    if let Some(max_in_flight) = file.max_in_flight {
        settings.max_in_flight = max_in_flight;
    }
    if let Some(longest_wait) = file.longest_wait {
        settings.longest_wait = longest_wait;
    }
    settings
}

fn grpc_settings(file: &ServerSettings) -> tidegate_grpc::Settings {
    let mut settings = tidegate_grpc::Settings::default();
    if let Some(longest_wait) = file.longest_wait {
        settings.longest_wait = longest_wait;
    }
    settings
}

/// An answer is one small packet: it must not be kept back for another.
fn quick(listener: TcpListener) -> impl Listener {
    listener.tap_io(|stream| {
        // Without it, answers come later and are right all the same.
        let _ = stream.set_nodelay(true);
    })
}

fn resp_settings(file: &ServerSettings) -> tidegate_resp::Settings {
    let settings = tidegate_resp::Settings::default();
    match file.max_connections {
        Some(most) => settings.max_connections(most),
        None => settings,
    }
}

async fn closed(mut closing: watch::Receiver<bool>) {
    // An error says that the server is gone altogether.
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn told_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        drop(interrupt.await);
        return;
    };
    tokio::select! {
        _ = interrupt => {}
        _ = terminate.recv() => {}
    }
}

/// A door that ends by itself has failed.
fn ended_early(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Outcome<()> {
    match ended {
        Ok(Ok(())) => Err(Trouble::failure("a door has closed by itself")),
        Ok(Err(error)) => Err(Trouble::failure(error)),
        Err(error) => Err(Trouble::failure(error)),
    }
}
