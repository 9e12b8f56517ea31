//! A server's HTTP door, seen from the command line.

use std::time::Duration;

use reqwest::{Response, Url};
use serde_json::Value;

use crate::trouble::{Outcome, Trouble};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

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
    pub fn new(base: &str, token: Option<String>) -> Outcome<Self> {
        let help = || Trouble::usage(format!("`{base}` is no server; write http://HOST:PORT"));
        let base = Url::parse(base).map_err(|_| help())?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(help());
        }
        let http = reqwest::Client::builder().connect_timeout(CONNECT).build();
        Ok(Self {
            http: http.map_err(Trouble::failure)?,
            base,
            token,
        })
    }

    /// Sends something.
    pub async fn post(&self, path: &str, body: &Value) -> Outcome<Reply> {
        let url = self.base.join(path).map_err(Trouble::usage)?;
        self.send(self.http.post(url).json(body)).await
    }

    /// Asks for something.
    pub async fn get(&self, path: &str) -> Outcome<Reply> {
        let url = self.base.join(path).map_err(Trouble::usage)?;
        self.send(self.http.get(url)).await
    }

    /// Sends a text of this type in place of what is there.
    pub async fn put(&self, path: &str, kind: &str, text: String) -> Outcome<Reply> {
        let url = self.base.join(path).map_err(Trouble::usage)?;
        let request = self.http.put(url).header("content-type", kind);
        self.send(request.body(text)).await
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Outcome<Reply> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        match request.send().await {
            Ok(response) => read(response).await,
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Trouble {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        Trouble::failure(format!(
            "no answer from {}: {cause}; is `tidegate serve` running there?",
            self.base
        ))
    }
}

async fn read(response: Response) -> Outcome<Reply> {
    let status = response.status().as_u16();
    let bytes = response.bytes().await.map_err(Trouble::failure)?;
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Ok(Reply { status, body })
}

impl Reply {
    /// Whether the server did what was asked.
    pub const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    /// What went wrong, in the server's words.
    pub fn trouble(&self) -> Trouble {
        let words = |name: &str| self.body.get(name).and_then(Value::as_str);
        let detail = words("detail")
            .or_else(|| words("title"))
            .unwrap_or("no reason given");
        Trouble::failure(format!("the server answers {}: {detail}", self.status))
    }
}
