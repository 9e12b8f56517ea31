//! Sockets, and what is served on them.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tidegate::Limit;
use tidegate_gateway::Gateway;
use tidegate_http::Apply;
use tidegate_policy::{Policy, PolicyFile, ServerSettings};
use tidegate_protocol::{Listener, Offer, Tls};
use tidegate_remote::offered::Offered;
use tidegate_service::Service;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::address::{Address, choose};
use super::args::Serve;
use super::denied;
use super::otlp::Traces;
use super::settings;
use super::signals::Signals;
use super::supervisor;
use crate::trouble::{Outcome, Trouble};

/// Histogram bounds, in seconds: from a decision in memory to a long wait.
const SECONDS: [f64; 14] = [
    1e-6, 5e-6, 2e-5, 1e-4, 5e-4, 2e-3, 1e-2, 5e-2, 0.2, 1.0, 5.0, 15.0, 60.0, 300.0,
];

/// Open sockets.
pub struct Listeners {
    http: Option<TcpListener>,
    grpc: Option<TcpListener>,
    resp: Option<TcpListener>,
    gateway: Option<(Gateway, TcpListener)>,
    settings: ServerSettings,
    tls: Option<Arc<Tls>>,
    traces: Traces,
}

type Serving = JoinSet<std::io::Result<()>>;

/// A request that a policy can answer: a key of its levels, and the least of each rate and budget.
struct Example {
    policy: String,
    key: String,
    amounts: Vec<(String, String)>,
}

impl Example {
    fn of(policy: &Policy) -> Self {
        let key = match &policy.levels[..] {
            [] | [_] => "alice".to_owned(),
            levels => levels.join("/"),
        };
        // Any member of a pool may answer it that has all that is named.
        let limits = policy.limit_lists().next().unwrap_or_default().iter();
        let measured = limits.filter(|limit| !limit.is_counted() && !limit.is_concurrency());
        let least = |limit: &Limit| {
            let least = limit.amounts().show(1).to_string();
            (limit.name().to_owned(), least)
        };
        Self {
            policy: policy.name.clone(),
            key,
            amounts: measured.map(least).collect(),
        }
    }

    fn json(&self) -> String {
        let Self { policy, key, .. } = self;
        let amounts = self.amounts.iter();
        let amounts: Vec<_> = amounts
            .map(|(limit, least)| match least.contains('.') {
                // A decimal is text: a number of JSON need not be exact.
                true => format!("\"{limit}\":\"{least}\""),
                false => format!("\"{limit}\":{least}"),
            })
            .collect();
        match amounts.is_empty() {
            true => format!("{{\"policy\":\"{policy}\",\"key\":\"{key}\"}}"),
            false => format!(
                "{{\"policy\":\"{policy}\",\"key\":\"{key}\",\"amounts\":{{{}}}}}",
                amounts.join(",")
            ),
        }
    }

    fn resp(&self) -> String {
        let amounts = self.amounts.iter();
        let amounts = amounts.map(|(limit, least)| format!(" AMOUNT {limit} {least}"));
        format!(
            "{} {}{}",
            self.policy,
            self.key,
            amounts.collect::<String>()
        )
    }
}

/// Begins to record what `/metrics` shows.
pub fn recorder() -> Outcome<PrometheusHandle> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &SECONDS);
    let recorder = builder.and_then(PrometheusBuilder::install_recorder);
    recorder.map_err(Trouble::failure)
}

impl Listeners {
    /// Binds every address, before anything is said or done.
    pub async fn open(
        args: &Serve,
        file: &ServerSettings,
        tls: Option<Arc<Tls>>,
        traces: Traces,
    ) -> Outcome<Self> {
        Ok(Self {
            http: bind("http", args.http, file.http.as_deref(), "127.0.0.1:7400").await?,
            grpc: bind("grpc", args.grpc, file.grpc.as_deref(), "127.0.0.1:7401").await?,
            resp: bind("resp", args.resp, file.resp.as_deref(), "127.0.0.1:7402").await?,
            gateway: None,
            settings: file.clone(),
            tls,
            traces,
        })
    }

    /// Whether a request could arrive.
    pub fn is_any(&self) -> Outcome<()> {
        match [&self.http, &self.grpc, &self.resp]
            .iter()
            .any(|one| one.is_some())
        {
            true => Ok(()),
            false => Err(Trouble::usage(
                "every listener is off, and no request could arrive: leave http, grpc or resp on",
            )),
        }
    }

    /// The same, with what stands before providers.
    pub fn with_gateway(self, gateway: Gateway, listener: TcpListener) -> Self {
        Self {
            gateway: Some((gateway, listener)),
            ..self
        }
    }

    /// Whether anyone beyond this machine can reach a listener, or that of a gateway.
    pub fn are_public(&self, gateway: Option<&TcpListener>) -> bool {
        let listeners = [&self.http, &self.grpc, &self.resp];
        let listeners = listeners.into_iter().flatten().chain(gateway);
        let mut addresses = listeners.filter_map(address);
        addresses.any(|address| !address.ip().is_loopback())
    }

    /// Says where the listeners are, and how to try one, with a token where it needs one: a gateway,
    /// if it can be asked as OpenAI is.
    pub fn announce(&self, policies: &PolicyFile, store: &str, like_openai: bool, tokens: bool) {
        let mut words = format!(
            "tidegate serves {} from {store}\n",
            policies.names().collect::<Vec<_>>().join(", ")
        );
        let at = |listener: &Option<TcpListener>| listener.as_ref().and_then(address);
        // A gateway's policy wants what a call uses: that is tried through the gateway.
        let first = self
            .gateway
            .is_none()
            .then(|| Example::of(&policies.policies[0]));
        let (https, flag) = match self.tls {
            Some(_) => ("https", " --tls"),
            None => ("http", ""),
        };
        let (bearer, password) = match tokens {
            true => (
                " -H \"authorization: Bearer $TIDEGATE_TOKEN\"",
                "REDISCLI_AUTH=\"$TIDEGATE_TOKEN\" ",
            ),
            false => ("", ""),
        };
        if let Some(at) = at(&self.http) {
            words += &format!("  HTTP  {https}://{at}  (/openapi.json, /metrics, /healthz)\n");
            if let Some(first) = &first {
                words += &format!(
                    "        curl -s {https}://{at}/v1/acquire -H 'content-type: application/json'{bearer} \
                     -d '{}'\n",
                    first.json()
                );
            }
        }
        if let Some(at) = at(&self.grpc) {
            words += &format!("  gRPC  {at}  (tidegate.v1.Tidegate, reflection, health)\n");
        }
        if let Some(at) = at(&self.resp) {
            let (host, port) = (at.ip(), at.port());
            words += &format!("  RESP  {at}\n");
            if let Some(first) = &first {
                words += &format!(
                    "        {password}redis-cli{flag} -h {host} -p {port} TG.ACQUIRE {}\n",
                    first.resp()
                );
            }
        }
        if let Some(at) = self.gateway.as_ref().and_then(|(_, at)| address(at)) {
            words += &format!(
                "  LLM   {https}://{at}  (the base URL of an SDK; of OpenAI's with /v1)\n"
            );
            if like_openai {
                // Who has a token of ours sends that: the upstream's own secret takes its place.
                let bearer = match tokens {
                    true => bearer,
                    false => " -H \"authorization: Bearer $OPENAI_API_KEY\"",
                };
                words += &format!("        curl -s {https}://{at}/v1/models{bearer}\n");
            }
        }
        // Whoever does not read it has not asked.
        let _ = std::io::stdout().write_all(words.as_bytes());
    }

    /// Serves until SIGINT or SIGTERM; then nobody new is let in, and everyone
    /// inside is answered, for as long as that may take. A second signal ends
    /// it at once.
    pub async fn serve(
        self,
        service: Service,
        recorder: PrometheusHandle,
        signals: &mut Signals,
        apply: Option<Apply>,
    ) -> Outcome<()> {
        let (close, closing) = watch::channel(false);
        let patience = settings::shutdown(&self.settings);
        let ready = tidegate_http::Ready::default();
        let render = render(service.clone(), recorder);
        let http = settings::http(&self.settings, render, ready.clone(), apply);
        let mut serving = self.begin(&service, http, &closing);
        supervisor::tell("READY=1");
        tokio::select! {
            () = signals.told_to_stop() => info!("stopping: finishing requests in flight"),
            Some(ended) = serving.join_next() => return ended_early(ended),
        }
        supervisor::tell("STOPPING=1");
        ready.set(false);
        service.close();
        // Whoever is gone already need not be told.
        let _ = close.send(true);
        tokio::select! {
            ended = all_ended(&mut serving, patience) => ended,
            () = signals.told_to_stop() => Err(Trouble::failure(
                "told to stop again: requests in flight were not answered"
            )),
        }
    }

    fn begin(
        self,
        service: &Service,
        http: tidegate_http::Settings,
        closing: &watch::Receiver<bool>,
    ) -> Serving {
        let mut serving = Serving::new();
        let settings = &self.settings;
        let listening = |listener, offer| {
            let tls = self.tls.clone().map(|tls| (tls, offer));
            Listener::new(listener, tls)
        };
        let closed = || closed(closing.clone());
        if let Some(listener) = self.http {
            let server = tidegate_http::Server::new(service.clone(), http);
            let connections = listening(listener, Offer::Http).in_turn();
            let served = self.traces.http(server).serve(connections, closed());
            serving.spawn(async move {
                served.await;
                Ok(())
            });
        }
        if let Some(listener) = self.grpc {
            let connections = listening(listener, Offer::Grpc).in_turn();
            let mut settings = settings::grpc(settings);
            settings.trace = self.traces.grpc();
            let server = tidegate_grpc::Server::new(service.clone(), settings);
            let server = match offered(self.settings.offers_store, service) {
                Some(store) => server.offering(store),
                None => server,
            };
            let served = server.serve(connections, closed());
            serving.spawn(async move { served.await.map_err(std::io::Error::other) });
        }
        if let Some(listener) = self.resp {
            let connections = listening(listener, Offer::Resp).connections();
            let server = tidegate_resp::Server::new(service.clone(), settings::resp(settings));
            let served = server.serve(connections, closed());
            serving.spawn(async move {
                served.await;
                Ok(())
            });
        }
        if let Some((gateway, listener)) = self.gateway {
            let connections = listening(listener, Offer::Http).connections();
            let served = gateway.serve(connections, closed());
            serving.spawn(async move {
                served.await;
                Ok(())
            });
        }
        serving
    }
}

/// The server's store, if others may use it as theirs.
fn offered(offers_store: Option<bool>, service: &Service) -> Option<Offered> {
    let store = service.store().filter(|_| offers_store == Some(true))?;
    let clock = Arc::new(service.clock().clone());
    Some(Offered::new(Arc::clone(store), clock))
}

/// Waits until every listener has answered the requests in flight, and no longer than that
/// may take: slow clients hold nobody up for ever.
async fn all_ended(serving: &mut Serving, patience: Duration) -> Outcome<()> {
    let all = async {
        while let Some(ended) = serving.join_next().await {
            ended.map_err(Trouble::failure)?.map_err(Trouble::failure)?;
        }
        Ok(())
    };
    let ended = tokio::time::timeout(patience, all).await;
    ended.unwrap_or_else(|_| {
        warn!("some clients did not take their answers in time");
        Ok(())
    })
}

fn render(service: Service, recorder: PrometheusHandle) -> tidegate_http::Render {
    Arc::new(move || {
        service.observe();
        recorder.render() + &denied::exposition(&service)
    })
}

async fn bind(
    protocol: &str,
    said: Option<Address>,
    file: Option<&str>,
    usual: &str,
) -> Outcome<Option<TcpListener>> {
    let address = choose(said, file, usual);
    let address = match address.map_err(|error| Trouble::usage(format!("{protocol}: {error}")))? {
        Address::Off => return Ok(None),
        Address::At(address) => address,
    };
    let listener = TcpListener::bind(address).await;
    listener.map(Some).map_err(|error| {
        Trouble::failure(format!(
            "cannot listen for {protocol} at {address}: {error}; choose another with --{protocol} HOST:PORT, or --{protocol} off"
        ))
    })
}

fn address(listener: &TcpListener) -> Option<SocketAddr> {
    listener.local_addr().ok()
}

async fn closed(mut closing: watch::Receiver<bool>) {
    // An error says that the server is gone altogether.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// A listener that ends by itself has failed.
fn ended_early(ended: Result<std::io::Result<()>, tokio::task::JoinError>) -> Outcome<()> {
    match ended {
        Ok(Ok(())) => Err(Trouble::failure("a listener has closed by itself")),
        Ok(Err(error)) => Err(Trouble::failure(error)),
        Err(error) => Err(Trouble::failure(error)),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_policy::parse;

    use super::Example;

    fn example(text: &str) -> (String, String) {
        let file = parse("p.toml", text).expect("a sound policy");
        let example = Example::of(&file.policies[0]);
        (example.json(), example.resp())
    }

    /// A cost of 1 was printed for limits of different units, and a key of one level for any.
    #[test]
    fn what_is_printed_to_try_fits_the_policy() {
        let (json, resp) = example(
            "[policy.llm]\nkey = 'account/caller'\n[policy.llm.limits]\n\
             calls = { calls = 5, per = '1m' }\ntokens = { rate = 9, per = '1m' }\n\
             usd = { budget = 5, per = '1d', unit = '0.01' }\nrunning = { concurrency = 2 }",
        );
        assert_eq!(
            json,
            r#"{"policy":"llm","key":"account/caller","amounts":{"tokens":1,"usd":"0.01"}}"#
        );
        assert_eq!(resp, "llm account/caller AMOUNT tokens 1 AMOUNT usd 0.01");
        let (json, resp) = example("[policy.chat.limits]\nrpm = { calls = 5, per = '1m' }");
        assert_eq!(json, r#"{"policy":"chat","key":"alice"}"#);
        assert_eq!(resp, "chat alice");
    }
}
