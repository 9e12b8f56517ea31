//! A lease, taken once, however often it is asked for.

use std::time::Duration;

use rand::RngExt;
use serde::Deserialize;
use tidegate::DEFAULT_WAIT;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::admission::Admission;
use crate::answer::Answer;
use crate::client::Client;
use crate::error::Error;
use crate::lease::{Granted, Lease};
use crate::lease_ref::LeaseRef;
use crate::report::Report;
use crate::request::Request;
use crate::verb::Verb;

/// The pauses before it is asked what a request was granted that was given up.
const GIVE_BACK: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_secs(1),
];

#[derive(Deserialize)]
struct Told {
    #[serde(flatten)]
    answer: Answer,
    lease: Option<Granted>,
}

impl Client {
    /// Takes a lease, in order of arrival: waits at the server for as long as the request is
    /// [`within`](Request::within), 30 seconds unless it says so.
    ///
    /// A request without an idempotency key gets one, so that one whose answer was lost with its
    /// connection is asked again and gets the same lease. If its future is dropped, or the
    /// deadline passes, its place in line is given up, and what was granted meanwhile is given
    /// back in the background, as far as the server can be reached; else it expires.
    ///
    /// # Errors
    /// The server did not decide ([`Error`]). A refusal is an answer.
    pub async fn acquire(&self, request: &Request) -> Result<Admission, Error> {
        let longest = request.within.unwrap_or(DEFAULT_WAIT);
        self.acquire_within(request.clone(), longest).await
    }

    /// As [`acquire`](Self::acquire), but never waits.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self, request: &Request) -> Result<Admission, Error> {
        self.acquire_within(request.clone(), Duration::ZERO).await
    }

    async fn acquire_within(
        &self,
        mut request: Request,
        within: Duration,
    ) -> Result<Admission, Error> {
        let is_ours = request.idempotency_key.is_none();
        if is_ours {
            let word: u128 = rand::rng().random();
            request.idempotency_key = Some(format!("{word:032x}"));
        }
        let begun = Instant::now();
        let make = || {
            let left = within.saturating_sub(begun.elapsed());
            let request = request.clone().within(left);
            Verb::Acquire.of(&request).repeatable(true)
        };
        let longest = within.saturating_add(self.0.deadline);
        let mut unseen = Unseen {
            client: self,
            request: is_ours.then_some(&request),
        };
        let reply = self.exchange_anew(longest, make).await;
        if !matches!(reply, Err(Error::Timeout { .. })) {
            unseen.request = None;
        }
        drop(unseen);
        let (reply, sent) = reply?;
        self.told(reply.read()?, &request, sent)
    }

    fn told(&self, told: Told, request: &Request, sent: Instant) -> Result<Admission, Error> {
        let Told { answer, lease } = told;
        Ok(match lease {
            Some(granted) => {
                let lease = lease_ref(request, &granted);
                let (client, term) = (self.clone(), (sent, request.ttl));
                Admission::Granted(Lease::hold(client, lease, answer, granted, term))
            }
            None if answer.admitted => Admission::Degraded(answer),
            None => Admission::Refused(answer),
        })
    }

    /// Gives back what a request was granted that nobody was told of. Until the server has seen
    /// that its connection ended, it may still be granted: so who is refused asks again.
    async fn give_back(&self, request: Request) -> Result<(), Error> {
        let request = request.within(Duration::ZERO);
        for pause in GIVE_BACK {
            sleep(pause).await;
            let acquire = Verb::Acquire.of(&request).repeatable(true);
            let told: Told = self.exchange(&acquire).await?.read()?;
            if let Some(granted) = told.lease {
                let lease = lease_ref(&request, &granted);
                return self.cancel(&lease, Report::new()).await.map(drop);
            }
        }
        Ok(())
    }
}

fn lease_ref(request: &Request, granted: &Granted) -> LeaseRef {
    LeaseRef::new(request.policy(), request.key().clone(), granted.id.as_str())
}

/// A request whose answer nobody has seen. Under its idempotency key the server keeps what it
/// granted for the retry that does not come: dropped, this asks for it, and cancels it.
struct Unseen<'a> {
    client: &'a Client,
    request: Option<&'a Request>,
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        let runtime = Handle::try_current();
        if let (Some(request), Ok(runtime)) = (self.request, runtime) {
            let (client, request) = (self.client.clone(), request.clone());
            // If it fails, the lease expires.
            runtime.spawn(async move { client.give_back(request).await });
        }
    }
}
