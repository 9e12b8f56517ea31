//! A server, asked within a deadline, and again when a connection breaks.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::rustls;

use crate::error::{Error, Unreachable, Why};
use crate::exchange::{Exchange, Reply};

/// So many requests without an answer are given back at a time.
pub(crate) const UNSEEN: u32 = 64;

/// The pause before the first retry; the next is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A server. A clone shares its connections.
///
/// Every call ends by its deadline: [`DEADLINE`](crate::DEADLINE) unless it was set, beyond what
/// the request itself waits. A call whose connection fails is asked again, at most
/// [`RETRIES`](crate::RETRIES) times, if nothing was asked yet or asking twice comes to the same
/// as asking once. Its `Debug` shows no token.
#[derive(Clone)]
pub struct Client(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) http: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) token: Option<HeaderValue>,
    pub(crate) namespace: Option<HeaderValue>,
    pub(crate) deadline: Duration,
    pub(crate) retries: u32,
    /// Places for requests whose answer was lost, while what they were granted is given back.
    pub(crate) unseen: Arc<Semaphore>,
}

impl Client {
    /// Sends a request of the protocol as it is; any status is an answer.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Unreachable`].
    pub async fn exchange(&self, exchange: &Exchange) -> Result<Reply, Error> {
        let longest = exchange.longest.unwrap_or(self.0.deadline);
        let answered = self.exchange_anew(longest, || exchange.clone()).await;
        answered.map(|(reply, _)| reply)
    }

    /// As `exchange`, but builds the request anew for each try; also returns when the answered
    /// try was sent.
    pub(crate) async fn exchange_anew(
        &self,
        longest: Duration,
        make: impl Fn() -> Exchange,
    ) -> Result<(Reply, Instant), Error> {
        let begun = Instant::now();
        let by = begun.checked_add(longest);
        let by = by.unwrap_or_else(|| begun + Duration::from_hours(24 * 365));
        let (mut retries, mut broken) = (0, None);
        loop {
            let exchange = make();
            let (is_repeatable, bytes) = (exchange.is_repeatable, exchange.longest_answer);
            let sent = Instant::now();
            let Ok(answered) = timeout_at(by, self.send(exchange)).await else {
                let server = self.0.base.to_string();
                return Err(Error::Timeout { server, longest });
            };
            let lost = match answered {
                Ok(Some(reply)) => return Ok((reply, sent)),
                Ok(None) => return Err(Error::TooLong { bytes }),
                Err(lost) => lost,
            };
            let again = is_repeatable || lost.why == Why::NoConnection;
            let pause = pause(retries);
            if !again || retries == self.0.retries || Instant::now() + pause >= by {
                // What was asked at an earlier time may have been done.
                return Err(Error::Unreachable(broken.unwrap_or(lost)));
            }
            if lost.why == Why::Broken {
                broken = Some(lost);
            }
            retries += 1;
            sleep(pause).await;
        }
    }

    /// `None`: it answers more than is read.
    async fn send(&self, exchange: Exchange) -> Result<Option<Reply>, Unreachable> {
        let mut url = self.url(&exchange.path);
        if !exchange.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&exchange.query);
        }
        let mut request = self.0.http.request(exchange.method, url);
        if let Some(token) = &self.0.token {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(namespace) = &self.0.namespace {
            request = request.header("tidegate-namespace", namespace);
        }
        if let Some((name, value)) = exchange.only_if {
            request = request.header(name, value);
        }
        if let Some((kind, text)) = exchange.body {
            request = request.header(CONTENT_TYPE, kind).body(text);
        }
        let response = request.send().await.map_err(|error| self.lost(&error))?;
        self.read(response, exchange.longest_answer).await
    }

    fn url(&self, path: &str) -> Url {
        let path = path.trim_start_matches('/');
        let url = self.0.base.join(path);
        url.expect("the base ends with a slash, and the path is one of ours")
    }

    async fn read(
        &self,
        mut response: reqwest::Response,
        longest: usize,
    ) -> Result<Option<Reply>, Unreachable> {
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.lost(&error))? {
            if bytes.len() + chunk.len() > longest {
                return Ok(None);
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(Reply::new(status, &bytes)))
    }

    fn lost(&self, error: &reqwest::Error) -> Unreachable {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let why = match (is_tls(error), error.is_connect()) {
            (true, _) => Why::Tls,
            (false, true) => Why::NoConnection,
            (false, false) => Why::Broken,
        };
        self.unreachable(cause.to_string(), why)
    }

    fn unreachable(&self, fault: String, why: Why) -> Unreachable {
        let server = self.0.base.to_string();
        Unreachable { server, fault, why }
    }
}

/// How long before it is tried again; not all clients of a server at once.
pub(crate) fn pause(retries: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << retries.min(10));
    let share = rand::rng().random_range(0.5..=1.0);
    pause.min(LONGEST_PAUSE).mul_f64(share)
}

/// Whether TLS has failed.
fn is_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<rustls::Error>() {
            return true;
        }
        // The source of an I/O error is what caused the error that it carries.
        let carried = error.downcast_ref().and_then(io::Error::get_ref);
        next = match carried {
            Some(carried) => Some(carried),
            None => error.source(),
        };
    }
    false
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.0.base.as_str())
            .field("deadline", &self.0.deadline)
            .finish_non_exhaustive()
    }
}
