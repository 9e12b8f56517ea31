//! A lease, taken once, however often it is asked for.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde::Deserialize;
use tidegate::DEFAULT_WAIT;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::admission::Admission;
use crate::answer::Answer;
use crate::client::{Client, UNSEEN, pause};
use crate::error::Error;
use crate::lease::{Granted, Lease};
use crate::lease_ref::LeaseRef;
use crate::report::Report;
use crate::request::Request;
use crate::verb::Verb;

/// So many times it is asked what a request was granted whose answer was lost, while the server
/// says that it was granted nothing.
const ASKED: u32 = 5;

/// A lease whose request does not say how long it lasts lasts about so long.
const USUAL: Duration = Duration::from_mins(10);

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
    /// connection is asked again and gets the same lease. If its future is dropped, or no answer
    /// comes that says whether it was granted ([`Error::Unavailable`] and an error of a proxy do
    /// not), its place in line is given up, and what was granted meanwhile is given back in the
    /// background as soon as the server can be reached, of at most 64 requests at a time; else it
    /// expires.
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
        let replied = self.exchange_anew(longest, make).await;
        let told = replied.and_then(|(reply, sent)| Ok((reply.read()?, sent)));
        if !matches!(&told, Err(error) if error.may_have_been_done()) {
            unseen.request = None;
        }
        drop(unseen);
        let (told, sent) = told?;
        self.told(told, &request, sent)
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

    /// Gives back what a request was granted that nobody was told of, as soon as the server can
    /// be reached, and no later than what it was granted has expired. Until the server has seen
    /// that its connection ended, it may still be granted: so who is refused asks again.
    async fn give_back(&self, request: Request) {
        let by = Instant::now() + request.ttl.unwrap_or(USUAL).min(USUAL);
        let request = request.within(Duration::ZERO);
        let (mut refused, mut tried) = (0, 0);
        while refused < ASKED && Instant::now() < by {
            match self.give_back_now(&request).await {
                Ok(true) => return,
                Ok(false) => refused += 1,
                Err(error) if error.is_passing() => {}
                Err(_) => return,
            }
            sleep(pause(tried)).await;
            tried += 1;
        }
    }

    /// Whether there was anything.
    async fn give_back_now(&self, request: &Request) -> Result<bool, Error> {
        let acquire = Verb::Acquire.of(request).repeatable(true);
        let told: Told = self.exchange(&acquire).await?.read()?;
        let Some(granted) = told.lease else {
            return Ok(false);
        };
        let lease = lease_ref(request, &granted);
        self.cancel(&lease, Report::new()).await.map(|_| true)
    }

    /// Ends when all has been given back that was granted to requests without an answer.
    pub(crate) async fn settled(&self) {
        // It is never closed.
        let _ = self.0.unseen.acquire_many(UNSEEN).await;
    }
}

fn lease_ref(request: &Request, granted: &Granted) -> LeaseRef {
    LeaseRef::new(request.policy(), request.key().clone(), granted.id.as_str())
}

/// A request of which nobody has seen what it was granted. Under its idempotency key the server keeps what it
/// granted for the retry that does not come: dropped, this asks for it, and cancels it.
struct Unseen<'a> {
    client: &'a Client,
    request: Option<&'a Request>,
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request else { return };
        let place = Arc::clone(&self.client.0.unseen).try_acquire_owned();
        // Where there is no place, the lease expires.
        if let (Ok(place), Ok(runtime)) = (place, Handle::try_current()) {
            let (client, request) = (self.client.clone(), request.clone());
            runtime.spawn(async move {
                client.give_back(request).await;
                drop(place);
            });
        }
    }
}
