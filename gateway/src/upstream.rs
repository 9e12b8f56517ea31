//! Connections to providers.

use std::error::Error;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

use crate::caller;
use crate::credentials;
use crate::reach::Trip;
use crate::refuse::{REFUSED, Refusal};
use crate::settings::{BadSettings, Upstream};
use tidegate_llm::Provider;

/// How long a connection may take to come about, its name and its TLS included. It goes on for later calls
/// where the one that began it has found another.
pub const CONNECT: Duration = Duration::from_secs(10);

/// So many connections that end just as a call comes to them are followed by another.
const STALE: usize = 3;

/// How long one is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(60);

/// What the paths begin with that SDKs ask for.
const VERSIONS: [&str; 2] = ["/v1", "/v1beta"];

/// What is between two neighbours alone (RFC 9110, section 7.6.1), and what is made anew.
const NOT_FORWARDED: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
    // What a gateway before the provider says of its refusals is not said of this one's.
    REFUSED,
];

/// What some go by in place of the method or the path of a call, by which it counts here.
const OVERRIDES: [HeaderName; 5] = [
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
];

/// What names the account that a call is charged to, which goes with that account's credential.
const ACCOUNTS: [HeaderName; 3] = [
    HeaderName::from_static("openai-organization"),
    HeaderName::from_static("openai-project"),
    HeaderName::from_static("x-goog-user-project"),
];

/// Connections to providers, used again and again.
pub struct Client(Pool<Connector, Full<Bytes>>);

/// How long a call is waited for, from its beginning.
#[derive(Clone, Copy)]
pub struct Within {
    /// Until there is a connection for it.
    pub connected: Duration,
    /// Until its answer begins.
    pub answered: Duration,
}

impl Client {
    /// One that trusts as `tls` says.
    pub fn new(tls: rustls::ClientConfig) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        // Of several addresses each has a part of it.
        connector.set_connect_timeout(Some(CONNECT));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(connector);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .retry_canceled_requests(false)
            .build(Connector(connector));
        Self(pool)
    }

    /// What an upstream answers to a call, if it begins to in time; `trip` is told whether it was
    /// reached. On a connection that ended before it was written to, nothing was sent: then the call
    /// goes over another.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn send(
        &self,
        upstream: &Upstream,
        call: impl Fn() -> Request<Full<Bytes>>,
        trip: &mut Trip<'_>,
        within: Within,
    ) -> Result<Response<Incoming>, Unanswered> {
        let begun = Instant::now();
        let connected = within.connected.min(within.answered);
        let mut stale = 0;
        loop {
            let mut call = call();
            let connection = capture_connection(&mut call);
            let mut answer = pin!(self.0.request(call));
            let mut is_idle = None;
            let comes = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => {
                    let is_there = connection.connection_metadata().is_some();
                    // One that was idle is there at once, and its other end perhaps no more.
                    is_idle.get_or_insert(is_there);
                    match is_there {
                        true => Poll::Ready(None),
                        false => Poll::Pending,
                    }
                }
            });
            let answered = match timeout_at(begun + connected, comes).await {
                Ok(Some(answered)) => answered,
                Ok(None) => {
                    if is_idle == Some(false) {
                        trip.arrived();
                    }
                    match timeout_at(begun + within.answered, answer).await {
                        Ok(answered) => answered,
                        Err(_) => {
                            let refusal = Refusal::silent(&upstream.name, within.answered);
                            return Err(Unanswered::sent(refusal, true));
                        }
                    }
                }
                Err(_) => {
                    trip.failed();
                    let refusal = Refusal::unconnected(&upstream.name, connected);
                    return Err(Unanswered::unsent(refusal));
                }
            };
            let error = match answered {
                Ok(response) => {
                    trip.arrived();
                    return Ok(response);
                }
                Err(error) => error,
            };
            let has_connected = connection.connection_metadata().is_some();
            if has_connected && is_unwritten(&error) && stale < STALE {
                stale += 1;
                continue;
            }
            let refusal = Refusal::unreachable(&upstream.name, &cause(&error));
            if has_connected && !is_unwritten(&error) {
                return Err(Unanswered::sent(refusal, false));
            }
            trip.failed();
            return Err(Unanswered::unsent(refusal));
        }
    }
}

/// Whether a connection ended before anything of the call was written to it.
fn is_unwritten(error: &hyper_util::client::legacy::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    cause.is_some_and(hyper::Error::is_canceled)
}

/// Makes connections, each within [`CONNECT`].
#[derive(Clone)]
struct Connector(HttpsConnector<HttpConnector>);

type Broken = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connects = self.0.call(to);
        Box::pin(async move {
            let too_late = |_| format!("no connection came about within {CONNECT:?}");
            timeout(CONNECT, connects).await.map_err(too_late)?
        })
    }
}

/// A call without an answer.
pub struct Unanswered {
    /// What to tell the caller.
    pub refusal: Refusal,
    /// Whether the provider may have it.
    pub was_sent: bool,
    /// Whether its time was over.
    pub was_silent: bool,
}

impl Unanswered {
    const fn unsent(refusal: Refusal) -> Self {
        Self {
            refusal,
            was_sent: false,
            was_silent: false,
        }
    }

    const fn sent(refusal: Refusal, was_silent: bool) -> Self {
        Self {
            refusal,
            was_sent: true,
            was_silent,
        }
    }
}

/// The innermost cause says the most.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

impl Upstream {
    /// Whether calls can be sent there.
    ///
    /// # Errors
    /// [`BadSettings::Address`], [`BadSettings::Credentials`], [`BadSettings::Version`].
    pub(crate) fn check(&self) -> Result<(), BadSettings> {
        let name = || self.name.clone();
        let is_web = matches!(self.base.scheme_str(), Some("http" | "https"));
        let Some(authority) = self.base.authority().filter(|_| is_web) else {
            return Err(BadSettings::Address(name()));
        };
        if authority.as_str().contains('@') {
            return Err(BadSettings::Credentials(name()));
        }
        if self.base.query().is_some() {
            return Err(BadSettings::Address(name()));
        }
        let address = self.shown();
        let version = VERSIONS.iter().find(|version| address.ends_with(*version));
        version.map_or(Ok(()), |version| {
            Err(BadSettings::Version {
                name: name(),
                address: address.trim_end_matches(version).to_owned(),
                version: (*version).to_owned(),
            })
        })
    }

    /// A call, as this upstream is sent it.
    pub(crate) fn call(&self, head: &request::Parts, body: Bytes) -> Request<Full<Bytes>> {
        let mut call = Request::new(Full::new(body));
        *call.method_mut() = head.method.clone();
        *call.uri_mut() = self.address(&head.uri);
        let mut headers = forwarded(head.headers.clone());
        headers.remove(header::CONTENT_LENGTH);
        remove(&mut headers, &OVERRIDES);
        // What is compressed cannot be read on its way.
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        );
        if let Some(secret) = &self.secret {
            caller::strip(&mut headers);
            remove(&mut headers, &ACCOUNTS);
            let (name, _) = Self::credential_header(self.provider);
            headers.insert(name, secret.clone());
        }
        *call.headers_mut() = headers;
        call
    }

    /// The call's path behind the beginning of this upstream's. A key in the query of Gemini's is a
    /// credential, which a secret stands in place of.
    fn address(&self, uri: &Uri) -> Uri {
        let has_key = self.provider != Provider::Gemini || self.secret.is_none();
        let keys = if has_key { usize::MAX } else { 0 };
        let begin = self.base.path().trim_end_matches('/');
        let mut parts = self.base.clone().into_parts();
        parts.path_and_query = match uri.path_and_query() {
            // Nothing of it changes.
            Some(path) if begin.is_empty() && (path.query().is_none() || keys == usize::MAX) => {
                Some(path.clone())
            }
            path => {
                let path = caller::with_keys(path.map_or("/", PathAndQuery::as_str), keys);
                format!("{begin}{path}").parse().ok()
            }
        };
        Uri::from_parts(parts).unwrap_or_else(|_| self.base.clone())
    }
}

fn remove(headers: &mut HeaderMap, names: &[HeaderName]) {
    for name in names {
        headers.remove(name);
    }
}

/// What passes on to the next neighbour. `Connection` names what is between two neighbours alone;
/// that is never the credential that a call counts by. A length beside a coding is none (RFC 9112,
/// section 6.3).
pub fn forwarded(mut headers: HeaderMap) -> HeaderMap {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| !credentials::is_credential(name))
        .collect();
    remove(&mut headers, &NOT_FORWARDED);
    remove(&mut headers, &named);
    headers
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpSocket;

    use super::*;
    use crate::reach::Reach;

    #[test]
    fn a_call_goes_behind_the_upstreams_path_with_its_secret_and_without_the_callers() {
        let upstream = Upstream {
            name: "eu".into(),
            provider: Provider::Anthropic,
            base: "http://127.0.0.1:1/eu/".parse().unwrap(),
            secret: Some("ours".parse().unwrap()),
        };
        upstream.check().unwrap();
        let request = Request::post("http://gateway/v1/messages?beta=true")
            .header("host", "gateway")
            .header("authorization", "Bearer theirs")
            .header("connection", "close, x-hop")
            .header("x-hop", "1")
            .header("content-length", "7")
            .header("openai-organization", "theirs")
            .header("openai-project", "theirs")
            .header("anthropic-version", "2023-06-01");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let call = upstream.call(&head, Bytes::new());
        assert_eq!(call.uri(), "http://127.0.0.1:1/eu/v1/messages?beta=true");
        let names: Vec<&str> = call.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["anthropic-version", "accept-encoding", "x-api-key"]);
        assert_eq!(call.headers()["x-api-key"], "ours");
    }

    #[test]
    fn a_call_keeps_the_account_that_it_names_beside_a_credential_of_its_own() {
        let upstream = Upstream::of(Provider::OpenAi).unwrap();
        let request = Request::post("/v1/responses").header("openai-project", "theirs");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let call = upstream.call(&head, Bytes::new());
        assert_eq!(call.headers()["openai-project"], "theirs");
    }

    /// It was charged as sent: the connection that had just ended stood for the one that did not come about.
    #[tokio::test]
    async fn a_call_whose_second_connection_does_not_come_about_was_not_sent() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(0).unwrap();
        let at = listener.local_addr().unwrap();
        let upstream = Upstream {
            name: "one".into(),
            provider: Provider::OpenAi,
            base: format!("http://{at}").parse().unwrap(),
            secret: None,
        };
        let (head, ()) = Request::get("/v1/models").body(()).unwrap().into_parts();
        let (client, reach) = (
            Client::new(tls()),
            Reach::new(std::slice::from_ref(&upstream)),
        );
        let within = Within {
            connected: Duration::from_secs(1),
            answered: Duration::from_secs(60),
        };
        let send = async || {
            let call = || upstream.call(&head, Bytes::new());
            let mut trip = reach.trip("one");
            client.send(&upstream, call, &mut trip, within).await
        };
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.unwrap();
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            stream
        };
        let (answer, stream) = tokio::join!(send(), serve);
        drop(answer.unwrap_or_else(|_| panic!("it is answered")));
        // Nobody accepts any more, and what comes beyond these is not let in.
        let mut queue = Vec::new();
        let second = Duration::from_secs(1);
        while let Ok(stream) = timeout(second, TcpStream::connect(at)).await {
            queue.push(stream.unwrap());
        }
        // The runtime finds the connection's end and this byte at once, and goes on here first.
        let (mut there, here) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        let mut here = tokio::net::UnixStream::from_std(here).unwrap();
        std::io::Write::write_all(&mut there, b"1").unwrap();
        drop(stream);
        here.read_u8().await.unwrap();
        let unanswered = send().await.expect_err("nobody takes it");
        assert!(!unanswered.was_sent, "{:?}", unanswered.refusal);
        assert!(reach.is_passed_over("one"));
    }

    fn tls() -> rustls::ClientConfig {
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth()
    }

    #[test]
    fn an_address_without_scheme_or_host_is_refused() {
        for base in ["/v1", "localhost:80", "http://h/p?q"] {
            let upstream = Upstream {
                name: "x".into(),
                provider: Provider::OpenAi,
                base: base.parse().unwrap(),
                secret: None,
            };
            assert!(upstream.check().is_err(), "{base}");
        }
    }
}
