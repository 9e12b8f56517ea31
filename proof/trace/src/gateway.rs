//! The trace through the gateway: the product's own code from the caller's connection to the
//! provider's, with its limits, its learning and its further attempts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tidegate_gateway::{Gateway, Settings, Upstream};
use tidegate_llm::Provider as Dialect;
use tidegate_service::{Scope, Service};
use tidegate_sim::server::serve_sim;
use tokio::io::DuplexStream;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::LocalSet;

use crate::book::Book;
use crate::course::{Course, PACE, PATIENCE};
use crate::outcome::{Known, Outcome};
use crate::time::Time;
use crate::traffic::Ask;

/// Which limit the gateway keeps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeps {
    /// To what the provider says; it starts with that many tokens a minute.
    Learnt(u64),
    /// To that many tokens a minute, as a token bucket.
    Fixed(u64),
}

impl Keeps {
    fn policy(self) -> String {
        match self {
            Self::Learnt(start) => format!(
                "[policy.llm]\nkey = 'account/caller'\n[policy.llm.limits]\n\
                 tokens = {{ rate = {start}, per = '1m', level = 'account', learnt = true }}\n"
            ),
            Self::Fixed(rate) => {
                format!("[policy.llm.limits]\ntokens = {{ rate = {rate}, per = '1m' }}\n")
            }
        }
    }
}

/// The path of a call, as an SDK of Azure asks for it.
const PATH: &str = "/openai/deployments/m/chat/completions";

/// So much fits into a caller's connection before it is read.
const PIPE: usize = 64 * 1024;

/// So many callers connect at once; more wait.
const CONNECTING: usize = 1_024;

/// Plays a course.
///
/// # Errors
/// What could not be begun.
pub fn play(course: &Course, keeps: Keeps, seed: u64) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Sockets are looked at in every round.
        .event_interval(1)
        .build()
        .map_err(|error| error.to_string())?;
    LocalSet::new().block_on(&runtime, played(course, keeps, seed))
}

async fn played(course: &Course, keeps: Keeps, seed: u64) -> Result<Outcome, String> {
    let mut time = Time::begin();
    let book = Book::default();
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.map_err(|error| error.to_string())?;
    let at = listener.local_addr().map_err(|error| error.to_string())?;
    let provider = tokio::spawn(serve_sim(listener, book.provider(course, seed)));
    let before = Before::begin(&time, keeps, at)?;
    let calls = Calls::default();
    let mut waiting = course.calls.iter().peekable();
    loop {
        while let Some(ask) = waiting.next_if(|ask| ask.at <= time.now()) {
            calls.begin(&before, *ask, time.now());
        }
        time.settle(|| calls.moved() + book.len()).await;
        calls.note(time.now(), before.known());
        let busy = calls.open() > 0;
        if !busy && waiting.peek().is_none() {
            break;
        }
        let next = waiting.peek().map(|ask| ask.at);
        let answer = book.next_answer(time.now()).filter(|_| busy);
        time.advance(next.into_iter().chain(answer).min(), busy)
            .await;
        calls.now.set(time.now());
    }
    provider.abort();
    Ok(Outcome {
        decided: book.take(),
        waits: calls.waits.take(),
        known: calls.known.take(),
    })
}

/// A gateway that runs.
struct Before {
    service: Service,
    connect: tokio::sync::mpsc::Sender<DuplexStream>,
}

impl Before {
    fn begin(time: &Time, keeps: Keeps, provider: std::net::SocketAddr) -> Result<Self, String> {
        let policies = tidegate_policy::parse("llm.toml", &keeps.policy());
        let policies = policies.map_err(|error| error.to_string())?;
        let service = Service::builder().clock(time.clock()).build(&policies);
        let service = service.map_err(|error| error.to_string())?;
        let upstream = Upstream {
            name: "llm".to_owned(),
            provider: Dialect::AzureOpenAi,
            base: format!("http://{provider}")
                .parse()
                .map_err(|_| "no address")?,
            secret: Some(http::HeaderValue::from_static("ours")),
        };
        let mut settings = Settings::new("llm", vec![upstream]);
        settings.wait = PATIENCE;
        let gateway = Gateway::new(service.clone(), &policies, settings, trusting_nobody()?);
        let gateway = gateway.map_err(|error| error.to_string())?;
        let (connect, connections) = channel(CONNECTING);
        tokio::spawn(gateway.serve(accepted(connections), std::future::pending()));
        Ok(Self { service, connect })
    }

    /// The capacity that the limit has now.
    fn known(&self) -> Option<u64> {
        let caller = self.service.enter(None).ok()?;
        let active = self.service.policy(&caller, Scope::Decide, "llm").ok()?;
        active.sets().find_map(|set| set.capacity("tokens"))
    }
}

fn accepted(connections: Receiver<DuplexStream>) -> impl futures_util::Stream<Item = DuplexStream> {
    futures_util::stream::unfold(connections, async |mut connections| {
        let next = connections.recv().await?;
        Some((next, connections))
    })
}

fn trusting_nobody() -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| error.to_string())?;
    let nobody = rustls::RootCertStore::empty();
    Ok(versions
        .with_root_certificates(nobody)
        .with_no_client_auth())
}

/// The calls that callers make.
#[derive(Clone, Default)]
struct Calls {
    now: Rc<Cell<Duration>>,
    begun: Rc<Cell<usize>>,
    ended: Rc<Cell<usize>>,
    /// In the order of their ends: how long each waited; nothing of one that was given up.
    waits: Rc<RefCell<Vec<Option<Duration>>>>,
    known: Rc<RefCell<Vec<Known>>>,
}

impl Calls {
    fn moved(&self) -> usize {
        self.begun.get() + self.ended.get()
    }

    fn open(&self) -> usize {
        self.begun.get() - self.ended.get()
    }

    fn note(&self, at: Duration, limit: Option<u64>) {
        let mut known = self.known.borrow_mut();
        if let Some(limit) = limit
            && known.last().is_none_or(|last| last.limit != limit)
        {
            known.push(Known { at, limit });
        }
    }

    fn begin(&self, before: &Before, ask: Ask, now: Duration) {
        self.begun.set(self.begun.get() + 1);
        let (calls, connect) = (self.clone(), before.connect.clone());
        tokio::task::spawn_local(async move {
            let status = call(connect, ask).await;
            // All of it but the provider's own time.
            let took = calls.now.get().saturating_sub(now);
            let wait = took.saturating_sub(PACE.whole(ask.output).as_duration());
            let answered = status == Ok(StatusCode::OK);
            calls.waits.borrow_mut().push(answered.then_some(wait));
            calls.ended.set(calls.ended.get() + 1);
        });
    }
}

/// One call on a connection of its own, to the end of its answer.
async fn call(
    connect: tokio::sync::mpsc::Sender<DuplexStream>,
    ask: Ask,
) -> Result<StatusCode, String> {
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let told = |error: &dyn std::error::Error| error.to_string();
    connect.send(theirs).await.map_err(|error| told(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await;
    let (mut sender, connection) = handshake.map_err(|error| told(&error))?;
    let connection = tokio::spawn(connection);
    let request = Request::post(PATH)
        .header("host", "gateway")
        .header("api-key", "caller")
        .body(Full::new(body(ask)))
        .map_err(|error| told(&error))?;
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| told(&error))?;
    let status = response.status();
    let whole = response.into_body().collect().await;
    whole.map_err(|error| told(&error))?;
    connection.abort();
    Ok(status)
}

/// A message of so many tokens: four letters each, `user` among them, and three for the message. It has
/// words: a long text without any is taken for a picture.
fn body(ask: Ask) -> Bytes {
    let letters = usize::try_from((ask.prompt - 4) * 4).unwrap_or(0);
    let message = json!({ "role": "user", "content": "ebb ".repeat(letters / 4) });
    let body = json!({ "model": "m", "max_tokens": ask.output, "messages": [message] });
    Bytes::from(body.to_string())
}
