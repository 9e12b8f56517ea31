//! Where leases come from.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_client::internal::millis;
use tidegate_client::{Key, LeaseRef, Reply, Report, Request, Verb};
use tokio::time::Instant;

use super::args::Run;
use crate::client::arguments::Amounts;
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::server::{Client, PATIENCE, exit, stop, text};

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

/// What came of a renewal; if it is lost, why.
pub type Renewal = tidegate_client::internal::Renewal<String>;

/// Leases of a server's policy.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    policy: String,
    key: Key,
    request: Request,
    wait: Duration,
    ttl: Duration,
    /// What a refused caller may do.
    advice: &'static str,
}

impl Remote {
    /// Leases of the server, as `run` was told.
    pub fn new(run: &Run) -> Outcome<Self> {
        let subject = run.subject();
        let amounts = Amounts {
            amounts: run.amounts.clone(),
            cost: run.cost.clone(),
        };
        let wait = run.wait.unwrap_or_default();
        let request = amounts.put(subject.request()?)?.within(wait).ttl(run.ttl);
        let mut request = request.priority(run.priority);
        if run.wait_for_refunds {
            request = request.wait_for_refunds();
        }
        Ok(Self {
            client: run.options.connect()?,
            key: subject.key()?,
            policy: subject.policy,
            request,
            wait,
            ttl: run.ttl,
            advice: run.advice(),
        })
    }

    fn lease(&self, held: &Held) -> LeaseRef {
        LeaseRef::new(&self.policy, self.key.clone(), &held.id)
    }

    /// The lease in an answer, to a request that was sent then.
    fn granted(&self, reply: &Reply, sent: Instant) -> Outcome<Held> {
        let lease = &reply.body["lease"];
        match lease["id"].as_str() {
            Some(id) => Ok(Held {
                id: id.to_owned(),
                fence: lease["fence"].as_u64().unwrap_or(0),
                sure_until: sent + lasts(lease),
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
        let acquire = Verb::Acquire.of(&self.request).within(longest);
        let reply = self.client.ask(acquire).await?;
        match exit(&reply) {
            Exit::Done => self.granted(&reply, sent),
            Exit::Refused => Err(Stop::new(Exit::Refused, refusal(&reply, self.advice))),
            _ => Err(stop(&reply)),
        }
    }

    async fn renew(&self, held: &Held) -> Renewal {
        let sent = Instant::now();
        let length = json!({"ttl_ms": millis(self.ttl)});
        let renew = Verb::Renew.of_lease(&self.lease(held), &length);
        match self.client.ask(renew.within(self.ttl / 3)).await {
            Ok(reply) if reply.is_success() => Renewal::Until(sent + self.ttl),
            Ok(reply) if exit(&reply) == Exit::Gone => Renewal::Lost(stop(&reply).message),
            Ok(reply) => Renewal::Unsure(stop(&reply).message),
            Err(stop) => Renewal::Unsure(stop.message),
        }
    }

    async fn end(&self, held: &Held, begun: bool) -> Outcome<()> {
        let verb = if begun { Verb::Release } else { Verb::Cancel };
        let end = verb.of_lease(&self.lease(held), &Report::new());
        // Whoever waits for the command is not to wait for a server: the lease
        // expires by itself.
        let longest = self.ttl.min(PATIENCE);
        self.client.done(end.within(longest)).await.map(drop)
    }
}

/// For how long a lease surely lasts from when its request was sent.
fn lasts(lease: &Value) -> Duration {
    let millis = |name: &str| lease[name].as_u64().unwrap_or(0);
    Duration::from_millis(millis("waited_ms").saturating_add(millis("expires_in_ms")))
}

fn refusal(reply: &Reply, advice: &str) -> String {
    let detail = text(reply, "detail").unwrap_or("not now");
    format!("refused: {detail}; {advice}")
}
