//! One request of the protocol, and what is answered.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{Error, Problem};

const JSON: &str = "application/json";

/// The longest answer that is read, in bytes: a page of 1,000 leases of the longest keys fits.
const LONGEST_ANSWER: usize = 16 << 20;

/// A request of the protocol as it is, for what has no verb here:
/// `GET /v1/keys`, say ([the list](https://github.com/tidegate/tidegate/blob/main/docs/reference/http.md)).
#[derive(Clone, Debug)]
pub struct Exchange {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) only_if: Option<(HeaderName, String)>,
    pub(crate) body: Option<(&'static str, String)>,
    pub(crate) longest: Option<Duration>,
    pub(crate) is_repeatable: bool,
    pub(crate) longest_answer: usize,
}

impl Exchange {
    fn new(method: Method, path: &str, is_repeatable: bool) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            only_if: None,
            body: None,
            longest: None,
            is_repeatable,
            longest_answer: LONGEST_ANSWER,
        }
    }

    /// Looks something up.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path, true)
    }

    /// Removes something.
    #[must_use]
    pub fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path, true)
    }

    /// Puts a text of this media type in place of what is there.
    #[must_use]
    pub fn put(path: &str, kind: &'static str, text: String) -> Self {
        let mut put = Self::new(Method::PUT, path, true);
        put.body = Some((kind, text));
        put
    }

    /// Changes some of what is there: what this names, as JSON.
    #[must_use]
    pub fn patch(path: &str, body: &impl Serialize) -> Self {
        let mut patch = Self::post(path, body);
        patch.method = Method::PATCH;
        patch
    }

    /// Sends something as JSON.
    #[must_use]
    pub fn post(path: &str, body: &impl Serialize) -> Self {
        let mut post = Self::new(Method::POST, path, false);
        let text = serde_json::to_string(body).expect("names are text, and numbers are finite");
        post.body = Some((JSON, text));
        post
    }

    /// Of what has this name below the path: any text, percent-encoded.
    #[must_use]
    pub fn of(mut self, name: &str) -> Self {
        self.path.push('/');
        for byte in name.bytes() {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' | b'~' => {
                    self.path.push(char::from(byte));
                }
                _ => self.path += &format!("%{byte:02X}"),
            }
        }
        self
    }

    /// With this query.
    #[must_use]
    pub fn query(mut self, said: &[(&str, &str)]) -> Self {
        let said = said.iter();
        self.query = said.map(|&(a, b)| (a.to_owned(), b.to_owned())).collect();
        self
    }

    /// Done only if this version is there. It is asked once: a repetition would find the
    /// version that it has made.
    #[must_use]
    pub fn if_version(mut self, version: u64) -> Self {
        self.only_if = Some((IF_MATCH, format!("\"{version}\"")));
        self.repeatable(false)
    }

    /// Done only if nothing is there; asked once, too.
    #[must_use]
    pub fn if_absent(mut self) -> Self {
        self.only_if = Some((IF_NONE_MATCH, "*".to_owned()));
        self.repeatable(false)
    }

    /// Given up after so long, in place of the client's deadline.
    #[must_use]
    pub const fn within(mut self, longest: Duration) -> Self {
        self.longest = Some(longest);
        self
    }

    /// Answered in so many bytes at most: 16 MiB unless it is said.
    pub(crate) const fn answered_in(mut self, bytes: usize) -> Self {
        self.longest_answer = bytes;
        self
    }

    /// Asking twice comes to the same as asking once: it is asked again when a connection
    /// breaks.
    #[must_use]
    pub const fn repeatable(mut self, is_repeatable: bool) -> Self {
        self.is_repeatable = is_repeatable;
        self
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The JSON that came with it; null if none did.
    pub body: Value,
    /// What came with it, if it was no JSON.
    pub text: String,
}

impl Reply {
    pub(crate) fn new(status: u16, bytes: &[u8]) -> Self {
        let (body, text) = match serde_json::from_slice(bytes) {
            Ok(body) => (body, String::new()),
            Err(_) => (Value::Null, String::from_utf8_lossy(bytes).into_owned()),
        };
        Self { status, body, text }
    }

    /// Whether the server did what was asked.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    /// Whether a limit refuses.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.status == 429 && self.body["code"] == "refused"
    }

    /// The answer, a refusal among them.
    ///
    /// # Errors
    /// What the server did not do; an answer that is no Tidegate's.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, Error> {
        if !self.is_success() && !self.is_refusal() {
            return Err(self.into_error());
        }
        let status = self.status;
        serde_json::from_value(self.body).map_err(|_| Error::NotTidegate { status })
    }

    /// That the server did it.
    ///
    /// # Errors
    /// What the server did not do; an answer that is no Tidegate's.
    pub fn done(self) -> Result<(), Error> {
        match self.is_success() {
            true => Ok(()),
            false => Err(self.into_error()),
        }
    }

    /// Why the server did not do it, of a reply that says so.
    #[must_use]
    pub fn into_error(self) -> Error {
        let status = self.status;
        let problem = serde_json::from_value::<Problem>(self.body);
        // Who stands before the server may have given the answer another status.
        problem.map_or(Error::NotTidegate { status }, |problem| {
            Error::from(Problem { status, ..problem })
        })
    }
}
