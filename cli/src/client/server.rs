//! A server's HTTP listener, seen from the command line.

use std::time::Duration;

use serde_json::Value;
use tidegate_client::internal::settled;
use tidegate_client::{Admission, BuildError, Error, Exchange, Reply, Request, Why};

use super::exit::{Exit, Outcome, Stop};
use super::tls::ClientTls;

/// How long an answer may take, beyond what the request itself may wait.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server.
#[derive(Clone, Debug)]
pub struct Client(tidegate_client::Client);

impl Client {
    /// The server at `base`, such as `http://127.0.0.1:7400`.
    /// It is asked again so many times while it cannot be reached.
    pub fn new(base: &str, token: Option<String>, tls: &ClientTls, retries: u32) -> Outcome<Self> {
        let mut builder = tidegate_client::Client::builder(base)
            .deadline(PATIENCE)
            .retries(retries)
            .tls(tls.files());
        if let Some(token) = token {
            builder = builder.token(token);
        }
        match builder.build() {
            Ok(client) => Ok(Self(client)),
            Err(error @ (BuildError::Url(_) | BuildError::Credentials)) => Err(Stop::usage(error)),
            Err(error) => Err(Stop::failed(error)),
        }
    }

    /// Takes a lease, once, however often it is asked for.
    pub async fn acquire(&self, request: &Request) -> Outcome<Admission> {
        let admission = self.0.acquire(request).await;
        admission.map_err(|error| failed(&error))
    }

    /// Ends when what was granted without an answer has been given back.
    pub async fn settled(&self) {
        settled(&self.0).await;
    }

    /// Asks, and waits for the answer: whatever its status.
    pub async fn ask(&self, exchange: Exchange) -> Outcome<Reply> {
        let sent = self.0.exchange(&exchange).await;
        sent.map_err(|error| unanswered(&error))
    }

    /// Asks; what was not done is why the command stops.
    pub async fn done(&self, exchange: Exchange) -> Outcome<Reply> {
        let reply = self.ask(exchange).await?;
        match reply.is_success() {
            true => Ok(reply),
            false => Err(stop(&reply)),
        }
    }
}

/// Why there is no answer, and where to look.
fn unanswered(error: &Error) -> Stop {
    let help = match error {
        Error::Unreachable(lost) if lost.why == Why::Tls => {
            "TLS failed: for a server in the clear write http:// in --server, and for one whose \
             authority the system does not know say --ca FILE"
        }
        Error::Unreachable(lost) if lost.why == Why::Broken => {
            "something is there, but is it the HTTP listener (default port: 7400), and \
             does it speak TLS (https://)? --server or TIDEGATE_SERVER says where it is"
        }
        _ => {
            "is it running? `tidegate serve` starts one, and --server or TIDEGATE_SERVER says \
             where it is"
        }
    };
    Stop::failed(format!("{error}; {help}"))
}

/// How a command ends that the client was not answered.
fn failed(error: &Error) -> Stop {
    let Some(problem) = error.problem() else {
        return unanswered(error);
    };
    let exit = exit_of(problem.status, Some(&problem.code));
    Stop::new(exit, said(problem.status, &problem.detail))
}

/// How a command ends that was answered so.
pub fn exit(reply: &Reply) -> Exit {
    exit_of(reply.status, text(reply, "code"))
}

fn exit_of(status: u16, code: Option<&str>) -> Exit {
    match (status, code) {
        (200..300, _) => Exit::Done,
        (429, Some("refused")) => Exit::Refused,
        (422, _) => Exit::Never,
        (401 | 403, _) => Exit::NotAllowed,
        (404 | 409, Some("not_found" | "lease_ended")) => Exit::Gone,
        (412, Some("conflict")) => Exit::Conflict,
        (400..500, Some(_)) => Exit::Usage,
        _ => Exit::Failed,
    }
}

/// What went wrong, in the server's words.
pub fn stop(reply: &Reply) -> Stop {
    let detail = text(reply, "detail").or_else(|| text(reply, "title"));
    let message = match detail {
        Some(detail) => said(reply.status, detail),
        None => format!(
            "the server answers {}, and not as Tidegate does; is --server right?",
            reply.status
        ),
    };
    Stop::new(exit(reply), message)
}

fn said(status: u16, detail: &str) -> String {
    format!("the server answers {status}: {detail}")
}

/// A member of the answer that is a text.
pub fn text<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    reply.body.get(name).and_then(Value::as_str)
}

/// What asks the server: one request at a time.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(Stop::failed)
}
