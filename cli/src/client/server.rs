//! A server's HTTP listener, seen from the command line.

use std::error::Error;
use std::io;
use std::time::Duration;

use reqwest::{RequestBuilder, Response, Url};
use serde_json::Value;
use tokio_rustls::rustls;

use super::exit::{Exit, Outcome, Stop};
use super::tls::ClientTls;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take, beyond what the request itself may wait.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<String>,
}

/// What a server answered.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The JSON that came with it; null if none did.
    pub body: Value,
}

impl Client {
    /// The server at `base`, such as `http://127.0.0.1:7400`.
    pub fn new(base: &str, token: Option<String>, tls: &ClientTls) -> Outcome<Self> {
        let help = || Stop::usage(format!("`{base}` is no server; write http://HOST:PORT"));
        let base = Url::parse(base).map_err(|_| help())?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(help());
        }
        let http = reqwest::Client::builder().connect_timeout(CONNECT);
        let http = tls.apply(http, &base).map_err(Stop::failed)?;
        Ok(Self {
            http: http.build().map_err(Stop::failed)?,
            base,
            token,
        })
    }

    /// Sends something, and waits for the answer.
    pub async fn post(&self, path: &str, body: &Value) -> Outcome<Reply> {
        let request = self.http.post(self.url(path)?).json(body);
        self.send(request).await
    }

    /// As [`post`](Self::post), but gives up after so long.
    pub async fn post_within(&self, path: &str, body: &Value, longest: Duration) -> Outcome<Reply> {
        let request = self.http.post(self.url(path)?).json(body);
        self.send(request.timeout(longest)).await
    }

    /// Looks something up, with this query, and gives up after so long.
    pub async fn get(
        &self,
        path: &str,
        query: &[(&str, &str)],
        longest: Duration,
    ) -> Outcome<Reply> {
        let mut url = self.url(path)?;
        url.query_pairs_mut().extend_pairs(query);
        self.send(self.http.get(url).timeout(longest)).await
    }

    /// Sends a text of this type in place of what is there.
    pub async fn put(&self, path: &str, kind: &str, text: String) -> Outcome<Reply> {
        let request = self.http.put(self.url(path)?).header("content-type", kind);
        self.send(request.timeout(PATIENCE).body(text)).await
    }

    /// Removes what this query names.
    pub async fn delete(&self, path: &str, query: &[(&str, &str)]) -> Outcome<Reply> {
        let mut url = self.url(path)?;
        url.query_pairs_mut().extend_pairs(query);
        self.send(self.http.delete(url).timeout(PATIENCE)).await
    }

    /// What a path answers as text, if it does so.
    pub async fn text(&self, path: &str, longest: Duration) -> Outcome<String> {
        let request = self.http.get(self.url(path)?).timeout(longest);
        let response = self.let_in(request).send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        if !response.status().is_success() {
            return Err(self.read(response).await?.stop());
        }
        let text = response.text().await;
        text.map_err(|error| self.unreachable(&error))
    }

    fn url(&self, path: &str) -> Outcome<Url> {
        self.base.join(path).map_err(Stop::usage)
    }

    async fn send(&self, request: RequestBuilder) -> Outcome<Reply> {
        let response = self.let_in(request).send().await;
        let response = response.map_err(|error| self.unreachable(&error))?;
        self.read(response).await
    }

    fn let_in(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    async fn read(&self, response: Response) -> Outcome<Reply> {
        let status = response.status().as_u16();
        let bytes = response.bytes().await;
        let bytes = bytes.map_err(|error| self.unreachable(&error))?;
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Ok(Reply { status, body })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Stop {
        let mut cause: &dyn Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let help = if is_tls(error) {
            "TLS failed: for a server in the clear write http:// in --server, and for one whose \
             authority the system does not know say --ca FILE"
        } else if error.is_connect() || error.is_timeout() {
            "is it running? `tidegate serve` starts one, and --server or TIDEGATE_SERVER says \
             where it is"
        } else {
            "something is there, but is it the HTTP listener (default port: 7400), and \
             does it speak TLS (https://)? --server or TIDEGATE_SERVER says where it is"
        };
        Stop::failed(format!("no answer from {}: {cause}; {help}", self.base))
    }
}

/// Whether TLS has failed.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
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

impl Reply {
    /// Whether the server did what was asked.
    pub const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    /// How a command ends that was answered so.
    pub fn exit(&self) -> Exit {
        match (self.status, self.text("code")) {
            (200..300, _) => Exit::Done,
            (429, Some("refused")) => Exit::Refused,
            (422, _) => Exit::Never,
            (401 | 403, _) => Exit::NotAllowed,
            (404 | 409, Some("not_found" | "lease_ended")) => Exit::Gone,
            (400..500, Some(_)) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    /// What went wrong, in the server's words.
    pub fn stop(&self) -> Stop {
        let detail = self.text("detail").or_else(|| self.text("title"));
        let message = match detail {
            Some(detail) => format!("the server answers {}: {detail}", self.status),
            None => format!(
                "the server answers {}, and not as Tidegate does; is --server right?",
                self.status
            ),
        };
        Stop::new(self.exit(), message)
    }

    /// A member of the answer that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.body.get(name).and_then(Value::as_str)
    }
}

/// What asks the server: one request at a time.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(Stop::failed)
}
