//! Where leases come from.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::args::Run;
use crate::client::arguments::{Amounts, Members, millis};
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::server::{Client, PATIENCE, Reply};

/// Gives leases, and takes them back.
pub trait Leases {
    /// Takes a lease, waiting for it as long as was said.
    ///
    /// Dropping the future gives up the place in line.
    async fn acquire(&self) -> Outcome<Held>;

    /// Moves the expiry of a lease to its length from now on.
    async fn renew(&self, held: &Held) -> Renewal;

    /// Ends a lease: what it took was used if the work was begun, and all of it
    /// comes back if not.
    async fn end(&self, held: &Held, begun: bool) -> Outcome<()>;
}

/// A lease.
#[derive(Clone, Debug)]
pub struct Held {
    /// What ends it.
    pub id: String,
    /// Larger than that of every earlier lease on the same slots.
    pub fence: u64,
    /// It surely lasts until then, if it is not renewed.
    pub sure_until: Instant,
}

/// What came of a renewal.
#[derive(Clone, Debug)]
pub enum Renewal {
    /// It surely lasts until then.
    Until(Instant),
    /// It is not ours any more.
    Lost(String),
    /// Nobody can tell.
    Unsure(String),
}

/// Leases of a server's policy.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    /// Whose limits: what every request begins with.
    subject: Members,
    request: Value,
    wait: Duration,
    ttl: Duration,
    /// What a refused caller may do.
    advice: &'static str,
}

impl Remote {
    /// Leases of the server, as `run` was told.
    pub fn new(run: &Run) -> Outcome<Self> {
        let subject = run.subject().request()?;
        let mut request = subject.clone();
        let amounts = Amounts {
            amounts: run.amounts.clone(),
            cost: run.cost.clone(),
        };
        amounts.put(&mut request)?;
        let wait = run.wait.unwrap_or_default();
        if !wait.is_zero() {
            request.insert("wait_ms".to_owned(), millis(wait).into());
        }
        if run.wait_for_refunds {
            request.insert("wait_for_refunds".to_owned(), true.into());
        }
        request.insert("ttl_ms".to_owned(), millis(run.ttl).into());
        request.insert("priority".to_owned(), run.priority.into());
        Ok(Self {
            client: run.options.connect()?,
            subject,
            request: Value::Object(request),
            wait,
            ttl: run.ttl,
            advice: run.advice(),
        })
    }

    fn about(&self, held: &Held) -> Members {
        let mut request = self.subject.clone();
        request.insert("lease".to_owned(), held.id.as_str().into());
        request
    }

    /// The lease in an answer. It lasts from when it was granted, which is not
    /// later than now, nor earlier than when the request was sent: but who waited
    /// was granted it near the end. What is sure is found at the first renewal,
    /// which comes at once then.
    fn granted(&self, reply: &Reply, sent: Instant) -> Outcome<Held> {
        let lease = &reply.body["lease"];
        match lease["id"].as_str() {
            Some(id) => Ok(Held {
                id: id.to_owned(),
                fence: lease["fence"].as_u64().unwrap_or(0),
                sure_until: sent + self.ttl,
            }),
            None => Err(Stop::failed(
                "admitted without a lease: the server's store fails, and the policy \
                 admits then; there is nothing to hold",
            )),
        }
    }
}

impl Leases for Remote {
    async fn acquire(&self) -> Outcome<Held> {
        let sent = Instant::now();
        let longest = self.wait.saturating_add(PATIENCE);
        let posted = self
            .client
            .post_within("/v1/acquire", &self.request, longest);
        let reply = posted.await?;
        match reply.exit() {
            Exit::Done => self.granted(&reply, sent),
            Exit::Refused => Err(Stop::new(Exit::Refused, refusal(&reply, self.advice))),
            _ => Err(reply.stop()),
        }
    }

    async fn renew(&self, held: &Held) -> Renewal {
        let sent = Instant::now();
        let mut request = self.about(held);
        request.insert("ttl_ms".to_owned(), millis(self.ttl).into());
        let request = Value::Object(request);
        let longest = self.ttl / 3;
        let posted = self.client.post_within("/v1/renew", &request, longest);
        match posted.await {
            Ok(reply) if reply.is_success() => Renewal::Until(sent + self.ttl),
            Ok(reply) if reply.exit() == Exit::Gone => Renewal::Lost(reply.stop().message),
            Ok(reply) => Renewal::Unsure(reply.stop().message),
            Err(stop) => Renewal::Unsure(stop.message),
        }
    }

    async fn end(&self, held: &Held, begun: bool) -> Outcome<()> {
        let path = if begun { "/v1/release" } else { "/v1/cancel" };
        let request = Value::Object(self.about(held));
        // Whoever waits for the command is not to wait for a server: the lease
        // expires by itself.
        let longest = self.ttl.min(PATIENCE);
        let reply = self.client.post_within(path, &request, longest).await?;
        match reply.is_success() {
            true => Ok(()),
            false => Err(reply.stop()),
        }
    }
}

fn refusal(reply: &Reply, advice: &str) -> String {
    let detail = reply.text("detail").unwrap_or("not now");
    format!("refused: {detail}; {advice}")
}
