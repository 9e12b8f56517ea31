//! Where leases come from.

use std::time::Duration;

use serde_json::json;
use tidegate_client::internal::millis;
use tidegate_client::{Admission, Answer, Key, LeaseRef, RETRIES, Report, Request, Verb};
use tokio::time::{Instant, timeout};

use super::args::Run;
use crate::client::arguments::Amounts;
use crate::client::exit::{Exit, Outcome, Stop};
use crate::client::server::{Client, exit, stop};
use crate::client::words::length;

/// How long what was granted without an answer is given back, before the command ends.
const GIVEN_UP: Duration = Duration::from_secs(2);

/// The longest pause between two asks while what gives leases does not answer.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Gives leases, and takes them back.
pub trait Leases {
    /// Takes a lease, waiting for it as long as was said.
    ///
    /// Dropping the future gives up the place in line.
    async fn acquire(&self) -> Outcome<Held>;

    /// After an [`acquire`](Self::acquire) that failed or was dropped: ends, soon, when nothing
    /// is held by it any more.
    async fn given_up(&self);

    /// Moves the expiry of a lease to its length from now on.
    async fn renew(&self, held: &Held) -> Renewal;

    /// Ends a lease: what it took was used if the work was begun, and all of it
    /// comes back if not. An end that is not answered `within` this time has failed.
    async fn end(&self, held: &Held, begun: bool, within: Duration) -> Outcome<()>;
}

/// A lease.
#[derive(Clone, Debug)]
pub struct Held {
    /// What ends it.
    pub id: String,
    /// Larger than that of every earlier lease on the same slots; `None` without.
    pub fence: Option<u64>,
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
    ttl: Duration,
    /// What a refused caller may do.
    advice: &'static str,
}

impl Remote {
    /// Leases of the server, as `run` was told.
    pub fn new(run: &Run) -> Outcome<Self> {
        let subject = run.subject();
        let amounts = Amounts {
            amounts: run.amounts().cloned().collect(),
            cost: run.cost.clone(),
        };
        let wait = run.wait.unwrap_or_default();
        let request = amounts.put(subject.request()?)?.within(wait).ttl(run.ttl);
        let mut request = request.priority(run.priority);
        if run.wait_for_refunds {
            request = request.wait_for_refunds();
        }
        Ok(Self {
            client: run.options.connect_with(RETRIES)?,
            key: subject.key()?,
            policy: subject.policy,
            request,
            ttl: run.ttl,
            advice: run.advice(),
        })
    }

    fn lease(&self, held: &Held) -> LeaseRef {
        LeaseRef::new(&self.policy, self.key.clone(), &held.id)
    }
}

impl Leases for Remote {
    async fn acquire(&self) -> Outcome<Held> {
        match self.client.acquire(&self.request).await? {
            Admission::Granted(lease) => Ok(Held {
                fence: lease.fence(),
                sure_until: lease.sure_until(),
                id: lease.detach().id().to_owned(),
            }),
            Admission::Refused(answer) => {
                Err(Stop::new(Exit::Refused, refusal(&answer, self.advice)))
            }
            Admission::Degraded(_) => Err(Stop::failed(
                "admitted without a lease: the server's store did not answer, and the policy admits \
                 then (failure_mode = \"admit\"), so that nothing would be held; run the command \
                 by itself, or give the policy failure_mode = \"deny\"",
            )),
        }
    }

    async fn given_up(&self) {
        // Whoever stops waiting is not to wait for a server.
        let _ = timeout(GIVEN_UP, self.client.settled()).await;
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

    async fn end(&self, held: &Held, begun: bool, within: Duration) -> Outcome<()> {
        let verb = if begun { Verb::Release } else { Verb::Cancel };
        let end = verb.of_lease(&self.lease(held), &Report::new());
        self.client.done(end.within(within)).await.map(drop)
    }
}

fn refusal(answer: &Answer, advice: &str) -> String {
    let binding = answer.binding.as_deref();
    let again = answer.retry_after.zip(answer.not_until);
    refused(
        binding,
        again.map(|(after, at)| (after, at.to_string())),
        advice,
    )
}

/// By what a request was refused, after how long and at which instant it may be asked for again,
/// and what its caller may do.
pub fn refused(binding: Option<&str>, again: Option<(Duration, String)>, advice: &str) -> String {
    let by = binding.unwrap_or("a limit");
    let again =
        again.map(|(after, at)| format!("; retry after {}, at {at}", length(millis(after))));
    format!("refused by {by}{}; {advice}", again.unwrap_or_default())
}
