//! A server's HTTP listener, seen from the command line.

use std::time::Duration;

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
    pub fn new(
        base: &str,
        (token, namespace): (Option<String>, Option<&str>),
        tls: &ClientTls,
        retries: u32,
    ) -> Outcome<Self> {
        let mut builder = tidegate_client::Client::builder(base)
            .deadline(PATIENCE)
            .retries(retries)
            .tls(tls.files());
        if let Some(token) = token {
            builder = builder.token(token);
        }
        if let Some(namespace) = namespace {
            builder = builder.namespace(namespace);
        }
        match builder.build() {
            Ok(client) => Ok(Self(client)),
            Err(error @ BuildError::System(_)) => Err(Stop::failed(error)),
            Err(error) => Err(Stop::usage(error)),
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
        sent.map_err(|error| failed(&error))
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

/// Why what was asked was not done, and how the command ends.
fn failed(error: &Error) -> Stop {
    let message = match error {
        Error::Unauthorized(problem) => format!(
            "{}; give the command one that the server knows with --token-file FILE, or in \
             TIDEGATE_TOKEN (`tidegate token NAME` makes one)",
            problem.detail
        ),
        error => match where_to_look(error) {
            Some(help) => format!("{error}; {help}"),
            None => error.to_string(),
        },
    };
    Stop::new(Exit::from(error), message)
}

/// Where to look if no server has answered.
fn where_to_look(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Unreachable(lost) if lost.why == Why::Tls => {
            "TLS failed: for a server without TLS write http:// in --server, and for one whose \
             authority the system does not know say --ca FILE"
        }
        Error::Unreachable(lost) if lost.why == Why::Broken => {
            "something is there, but is it the HTTP listener (default port: 7400), and \
             does it speak TLS (https://)? --server or TIDEGATE_SERVER says where it is"
        }
        Error::Unreachable(_) | Error::Timeout { .. } => {
            "is it running? `tidegate serve` starts one, and --server or TIDEGATE_SERVER says \
             where it is"
        }
        Error::NotTidegate { .. } | Error::TooLong { .. } => {
            "--server or TIDEGATE_SERVER says where the server is"
        }
        _ => return None,
    })
}

/// How a command ends that was answered so.
pub fn exit(reply: &Reply) -> Exit {
    match (reply.is_success(), reply.is_refusal()) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Refused,
        (false, false) => Exit::from(&reply.clone().into_error()),
    }
}

/// What went wrong, in the server's words.
pub fn stop(reply: &Reply) -> Stop {
    failed(&reply.clone().into_error())
}

/// What asks the server: one request at a time.
pub fn runtime() -> Outcome<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().map_err(Stop::failed)
}
