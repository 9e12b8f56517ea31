//! Which server, and how it is asked.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::HeaderValue;
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;

use crate::client::{Client, Inner, UNSEEN};
use crate::error::BuildError;
use crate::tls::Tls;

/// How long a server may take to answer, beyond what a request itself waits.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// How often a call is tried again whose connection fails: after 50 to 100 ms, and then after
/// twice as long each time.
pub const RETRIES: u32 = 3;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

/// So many connections are kept that nobody uses.
const IDLE: usize = 32;

/// Makes a [`Client`].
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    url: String,
    token: Option<String>,
    namespace: Option<String>,
    tls: Tls,
    deadline: Duration,
    retries: u32,
}

impl Client {
    /// The server at `url`, such as `http://127.0.0.1:7400`, without a token.
    ///
    /// # Errors
    /// [`BuildError`]: a URL that is no server's.
    pub fn new(url: &str) -> Result<Self, BuildError> {
        Self::builder(url).build()
    }

    /// The server at `url`, `http://HOST:PORT` or `https://HOST:PORT`, with or without a path
    /// that a proxy gives it.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder {
            url: url.to_owned(),
            token: None,
            namespace: None,
            tls: Tls::default(),
            deadline: DEADLINE,
            retries: RETRIES,
        }
    }
}

impl ClientBuilder {
    /// The token to authenticate with.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// The namespace that is asked in; a token for one is in that one anyway.
    pub fn namespace(mut self, name: impl Into<String>) -> Self {
        self.namespace = Some(name.into());
        self
    }

    /// How an `https` server is believed, in place of the system's authorities.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// How long a server may take to answer, beyond what a request itself waits:
    /// [`DEADLINE`] unless set.
    pub const fn deadline(mut self, longest: Duration) -> Self {
        self.deadline = longest;
        self
    }

    /// How often a call is tried again whose connection fails: [`RETRIES`] unless set.
    pub const fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`]: a URL that is no server's, a token or a namespace that cannot be sent, a file of
    /// certificates that cannot be used.
    pub fn build(self) -> Result<Client, BuildError> {
        let base = base(&self.url)?;
        let tls = self.tls.config(base.scheme() == "https")?;
        // Whoever sends us elsewhere is no server of ours, and gets no token; nor does a proxy that
        // the environment names for something else.
        let http = reqwest::Client::builder()
            .no_proxy()
            .pool_max_idle_per_host(IDLE)
            .connect_timeout(CONNECT)
            .redirect(Policy::none())
            .tls_backend_preconfigured(tls);
        let http = http.build();
        Ok(Client(Arc::new(Inner {
            http: http.map_err(|error| BuildError::System(error.to_string()))?,
            base,
            token: self.token.as_deref().map(bearer).transpose()?,
            namespace: self.namespace.as_deref().map(named).transpose()?,
            deadline: self.deadline,
            retries: self.retries,
            unseen: Arc::new(Semaphore::new(UNSEEN as usize)),
        })))
    }
}

fn base(url: &str) -> Result<Url, BuildError> {
    let is_secret = url.contains('@');
    let mut base = Url::parse(url).map_err(|_| match is_secret {
        true => BuildError::Credentials,
        false => BuildError::Url(url.to_owned()),
    })?;
    if !base.username().is_empty() || base.password().is_some() {
        return Err(BuildError::Credentials);
    }
    if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
        if is_secret {
            return Err(BuildError::Credentials);
        }
        return Err(BuildError::Url(url.to_owned()));
    }
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    base.set_query(None);
    base.set_fragment(None);
    Ok(base)
}

fn bearer(token: &str) -> Result<HeaderValue, BuildError> {
    let is_printable = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| BuildError::Token)?;
    value.set_sensitive(true);
    match is_printable {
        true => Ok(value),
        false => Err(BuildError::Token),
    }
}

fn named(namespace: &str) -> Result<HeaderValue, BuildError> {
    let is_plain = !namespace.is_empty() && namespace.bytes().all(|byte| byte.is_ascii_graphic());
    let value = HeaderValue::try_from(namespace).map_err(|_| BuildError::Namespace)?;
    match is_plain {
        true => Ok(value),
        false => Err(BuildError::Namespace),
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("tls", &self.tls)
            .field("deadline", &self.deadline)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_server_and_no_token_is_told_and_no_secret_is_shown() {
        let built = |url: &str, token: &str| Client::builder(url).token(token).build();
        let url = |url: &str| built(url, "tg-1").map(|_| ());
        assert_eq!(url("http://127.0.0.1:7400"), Ok(()));
        assert_eq!(url("ftp://x"), Err(BuildError::Url("ftp://x".to_owned())));
        assert!(matches!(url("127.0.0.1"), Err(BuildError::Url(_))));
        let secret = url("http://user:hush@127.0.0.1").expect_err("credentials");
        assert!(!secret.to_string().contains("hush"));
        for token in ["", "a\nb", "a b"] {
            let error = built("http://x", token).expect_err("no token");
            assert_eq!(error, BuildError::Token);
        }
        let builder = Client::builder("http://user:hush@x").token("hush");
        assert!(!format!("{builder:?}").contains("hush"));
        let client = built("http://x", "hush").expect("a client");
        assert!(!format!("{client:?}").contains("hush"));
    }

    #[test]
    fn what_can_be_no_namespace_is_told() {
        let built = |name: &str| Client::builder("http://x").namespace(name).build();
        assert!(built("acme").is_ok());
        for name in ["", "a b", "a\r\nx: y", "\u{e4}"] {
            assert_eq!(built(name).expect_err("no name"), BuildError::Namespace);
        }
    }

    #[test]
    fn a_path_that_a_proxy_gives_stays() {
        let base = |url| base(url).map(|base| base.to_string());
        assert_eq!(base("http://x/gate?a#b"), Ok("http://x/gate/".to_owned()));
        assert_eq!(base("http://x"), Ok("http://x/".to_owned()));
    }
}
