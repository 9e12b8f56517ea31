//! Connections to providers.

use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::caller;
use crate::credentials;
use crate::refuse::Refusal;
use crate::settings::{BadSettings, Upstream};
use tidegate_llm::Provider;

/// How long a connection may take to be made, before its TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(60);

/// What the paths begin with that SDKs ask for.
const VERSIONS: [&str; 2] = ["/v1", "/v1beta"];

/// What is between two neighbours alone (RFC 9110, section 7.6.1), and what is made anew.
const NOT_FORWARDED: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HOST,
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
pub struct Client(Pool<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Client {
    /// One that trusts as `tls` says.
    pub fn new(tls: rustls::ClientConfig) -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
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
            .build(connector);
        Self(pool)
    }

    /// What an upstream answers to a call, if it begins to within that time, in which a connection is made, too.
    ///
    /// # Errors
    /// [`Unanswered`].
    pub async fn send(
        &self,
        upstream: &Upstream,
        mut call: Request<Full<Bytes>>,
        within: Duration,
    ) -> Result<Response<Incoming>, Unanswered> {
        let connection = capture_connection(&mut call);
        match timeout(within, self.0.request(call)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(Unanswered {
                was_sent: !error.is_connect(),
                was_silent: false,
                refusal: Refusal::unreachable(&upstream.name, &cause(&error)),
            }),
            Err(_) if connection.connection_metadata().is_none() => Err(Unanswered {
                was_sent: false,
                was_silent: false,
                refusal: Refusal::unconnected(&upstream.name, within),
            }),
            Err(_) => Err(Unanswered {
                was_sent: true,
                was_silent: true,
                refusal: Refusal::silent(&upstream.name, within),
            }),
        }
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

/// The innermost cause says the most.
fn cause(error: &(dyn std::error::Error + 'static)) -> String {
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
    use super::*;

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
