//! A lease that is renewed while it is held.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use serde::Deserialize;
use tidegate::{Loss, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use crate::adjustment::Adjustment;
use crate::answer::Answer;
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::heartbeat::{Lost, Renewal, keep_renewing};
use crate::instant;
use crate::lease_ref::LeaseRef;
use crate::named::Named;
use crate::report::Report;
use crate::settlement::Settlement;

/// What the server says of a lease that it granted.
#[derive(Debug, Deserialize)]
pub(crate) struct Granted {
    pub(crate) id: String,
    #[serde(default)]
    fence: Option<u64>,
    #[serde(deserialize_with = "instant::instant")]
    granted_at: Timestamp,
    #[serde(deserialize_with = "instant::instant")]
    expires_at: Timestamp,
    expires_in_ms: u64,
    waited_ms: u64,
    repeated: bool,
    #[serde(default)]
    metadata: Named<String>,
}

impl Granted {
    /// Until when it surely lasts, granted to a request that was sent at this instant. What it
    /// waited is not the lease's; of one that was granted before, a part has passed.
    pub(crate) fn sure_until(&self, sent: Instant) -> Instant {
        let after = self.waited_ms.saturating_add(self.expires_in_ms);
        later(sent, Duration::from_millis(after))
    }
}

/// What is held, until it ends: renewed while it is, each time a third of its length has
/// passed.
///
/// [`settle`](Self::settle), [`release`](Self::release) and [`cancel`](Self::cancel) end it; once
/// begun they go on, also if nobody awaits them. Dropped, it is released in the background: that
/// is not certain (the process may end first, or the server be away), and then what it holds
/// comes back at its expiry.
#[must_use = "dropped, it is released"]
pub struct Lease {
    client: Client,
    lease: LeaseRef,
    /// As large as the rest, and seldom looked at.
    answer: Box<Answer>,
    granted: Granted,
    term: watch::Receiver<Term>,
    asks: mpsc::Sender<Ask>,
    heartbeat: AbortHandle,
    runtime: Handle,
    has_ended: bool,
}

/// For how long it is held, as far as is known.
#[derive(Clone, Debug)]
struct Term {
    sure_until: Instant,
    /// For how long it was granted or renewed last.
    length: Duration,
    /// For how long it is renewed; for as long as the server says, without.
    ttl: Option<Duration>,
    expires_at: Timestamp,
    loss: Option<Loss>,
}

impl Lease {
    /// That which was granted to a request sent at this instant. From here on it is renewed.
    pub(crate) fn hold(
        client: Client,
        lease: LeaseRef,
        answer: Answer,
        granted: Granted,
        (sent, ttl): (Instant, Option<Duration>),
    ) -> Self {
        let sure_until = granted.sure_until(sent);
        let (told, term) = watch::channel(Term {
            sure_until,
            length: Duration::from_millis(granted.expires_in_ms),
            ttl,
            expires_at: granted.expires_at,
            loss: None,
        });
        let (asks, asked) = mpsc::channel(1);
        let runtime = Handle::current();
        let beats = Beats {
            client: client.clone(),
            lease: lease.clone(),
            asked: Mutex::new(asked),
            told,
        };
        let heartbeat = runtime.spawn(beats.run()).abort_handle();
        Self {
            client,
            lease,
            answer: Box::new(answer),
            granted,
            term,
            asks,
            heartbeat,
            runtime,
            has_ended: false,
        }
    }

    /// Which lease it is, for whoever is to end or renew it by its id.
    #[must_use]
    pub const fn lease_ref(&self) -> &LeaseRef {
        &self.lease
    }

    /// Larger than that of every earlier lease on the same slots: what the lease guards refuses
    /// smaller ones. `None` without slots, and of one that a server gave by its tier.
    #[must_use]
    pub fn fence(&self) -> Option<u64> {
        self.granted.fence
    }

    /// Whether it was granted before, to a request with the same idempotency key.
    #[must_use]
    pub const fn is_repeated(&self) -> bool {
        self.granted.repeated
    }

    /// When it was granted, by the server's clock.
    #[must_use]
    pub const fn granted_at(&self) -> Timestamp {
        self.granted.granted_at
    }

    /// When it expires unless it is renewed again, by the server's clock.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.term.borrow().expires_at
    }

    /// Until when it surely lasts, by this machine's clock, unless it is renewed again.
    #[must_use]
    pub fn sure_until(&self) -> Instant {
        self.term.borrow().sure_until
    }

    /// The words of the policy, and of the member that gave it: region, account, endpoint.
    #[must_use]
    pub const fn metadata(&self) -> &Named<String> {
        &self.granted.metadata
    }

    /// The answer that granted it: where every limit stood then.
    #[must_use]
    pub const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Whether it may still be believed to be held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let term = self.term.borrow();
        term.loss.is_none() && Instant::now() < term.sure_until
    }

    /// Why it is held no more, if it is not and was not ended here.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.term.borrow().loss.clone()
    }

    /// Waits until it is lost, for as long as that takes.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut term = self.term.clone();
        async move {
            loop {
                if let Some(loss) = term.borrow_and_update().loss.clone() {
                    return loss;
                }
                if term.changed().await.is_err() {
                    // It was ended by its holder.
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Changes how much it has taken: more if it fits, less in any case. If it is refused
    /// nothing has changed.
    ///
    /// # Errors
    /// [`Error::LeaseEnded`]; the server did not decide.
    pub fn adjust<A: Into<Adjustment>>(
        &self,
        to: A,
    ) -> impl Future<Output = Result<Answer, Error>> + Send + use<A> {
        let (client, lease, to) = (self.client.clone(), self.lease.clone(), to.into());
        async move { client.adjust(&lease, to).await }
    }

    /// Moves its expiry to `ttl` from now (1 ms to 400 days, rounded up to milliseconds); from here
    /// on each renewal is for that.
    ///
    /// # Errors
    /// [`Error::LeaseEnded`]: it is lost. [`Error::InvalidRequest`]: a length that is none, and
    /// nothing has changed. A server that gave no answer may have renewed it: then it is held for as
    /// long as it surely lasts either way, and each renewal from here on is for `ttl`.
    pub fn renew(&self, ttl: Duration) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let (asks, term) = (self.asks.clone(), self.term.clone());
        async move {
            let why = || is_lost(term.borrow().loss.as_ref());
            let (told, answer) = oneshot::channel();
            let asked = asks.send(Ask { ttl, told }).await;
            asked.map_err(|_| why())?;
            answer.await.unwrap_or_else(|_| Err(why()))
        }
    }

    /// Ends it with what was really used: less than was taken comes back, more is debt, and what
    /// is not named was used as taken.
    ///
    /// # Errors
    /// The server did not answer. [`Client::settle`] with its [`lease_ref`](Self::lease_ref) can
    /// be tried again: it is settled once, however often it is asked for.
    pub async fn settle(mut self, report: impl Into<Report>) -> Result<Settlement, Error> {
        let (client, lease, report) = (self.client.clone(), self.lease.clone(), report.into());
        ended(self.end(async move { client.settle(&lease, report).await })).await
    }

    /// Ends it: what it took was used, and what it held comes back.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn release(mut self) -> Result<Settlement, Error> {
        let (client, lease) = (self.client.clone(), self.lease.clone());
        ended(self.end(async move { client.release(&lease, Report::new()).await })).await
    }

    /// Gives all of it back: the work did not start.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn cancel(mut self) -> Result<Settlement, Error> {
        let (client, lease) = (self.client.clone(), self.lease.clone());
        ended(self.end(async move { client.cancel(&lease, Report::new()).await })).await
    }

    /// Renews it no more, and does not end it: it is whoever's has the answer.
    #[must_use = "it expires unless somebody ends it"]
    pub fn detach(mut self) -> LeaseRef {
        self.has_ended = true;
        self.lease.clone()
    }

    fn end<T: Send + 'static>(
        &mut self,
        verb: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.has_ended = true;
        self.heartbeat.abort();
        self.runtime.spawn(verb)
    }
}

/// What an end came to.
pub(crate) async fn ended(
    ending: JoinHandle<Result<Settlement, Error>>,
) -> Result<Settlement, Error> {
    match ending.await {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and whoever awaits this with it.
            Err(_) => std::future::pending().await,
        },
    }
}

/// That a lease which is lost, for this reason, cannot be renewed.
fn is_lost(loss: Option<&Loss>) -> Error {
    let detail = loss.map_or_else(|| "it has ended".to_owned(), Loss::to_string);
    Error::LeaseEnded(Problem {
        status: 409,
        code: "lease_ended".to_owned(),
        detail,
        version: None,
        faults: Vec::new(),
    })
}

/// That a lease is to be renewed at once.
struct Ask {
    ttl: Duration,
    told: oneshot::Sender<Result<(), Error>>,
}

/// What renews a lease, one renewal after the other, and tells its holder.
struct Beats {
    client: Client,
    lease: LeaseRef,
    asked: Mutex<mpsc::Receiver<Ask>>,
    told: watch::Sender<Term>,
}

impl Beats {
    /// Renews it until it is lost.
    async fn run(self) {
        let sure_until = self.told.borrow().sure_until;
        let (asked, renew) = (|| self.asked(), |ask| self.once(ask));
        let lost = keep_renewing(sure_until, asked, renew, |_| {}).await;
        let loss = match lost {
            Lost::Told(loss) => loss,
            Lost::NotRenewed(why) => Loss::NotRenewed(why),
        };
        self.told.send_modify(|term| term.loss = Some(loss));
    }

    async fn asked(&self) -> Ask {
        match self.asked.lock().await.recv().await {
            Some(ask) => ask,
            // Nobody has the lease any more.
            None => std::future::pending().await,
        }
    }

    async fn once(&self, ask: Option<Ask>) -> Renewal<Loss> {
        let ttl = ask.as_ref().map(|ask| ask.ttl);
        let renewed = self.renewed(ttl).await;
        let renewal = match &renewed {
            Ok(sure_until) => Renewal::Until(*sure_until),
            Err(Error::LeaseEnded(_)) => Renewal::Lost(Loss::Ended),
            Err(Error::NotFound(_)) => Renewal::Lost(Loss::Forgotten),
            // Whoever asked is told; it goes on from what is sure.
            Err(_) if ttl.is_some() => Renewal::Until(self.told.borrow().sure_until),
            Err(error) => Renewal::Unsure(error.to_string()),
        };
        if let Some(ask) = ask {
            // Whoever asked may have gone.
            let _ = ask.told.send(renewed.map(|_| ()));
        }
        renewal
    }

    /// Until when it surely lasts, renewed for `ttl` or else for what was said last.
    async fn renewed(&self, ttl: Option<Duration>) -> Result<Instant, Error> {
        let sent = Instant::now();
        let (length, before) = {
            let term = self.told.borrow();
            (term.length, term.ttl)
        };
        let ttl = ttl.or(before);
        // Of two attempts in its time, one may hang.
        let renewed = self.client.renew_within(&self.lease, ttl, length / 3);
        let renewed = renewed.await;
        self.told.send_modify(|term| match &renewed {
            Ok((expires_at, expires_in)) => {
                term.sure_until = later(sent, *expires_in);
                term.length = *expires_in;
                term.ttl = ttl;
                term.expires_at = *expires_at;
            }
            // It may have been renewed, and for a shorter time than it would have lasted.
            Err(error) if error.may_have_been_done() => {
                let soonest = ttl.map_or(term.sure_until, |ttl| later(sent, ttl));
                term.sure_until = term.sure_until.min(soonest);
                term.ttl = ttl;
            }
            Err(_) => {}
        });
        renewed.map(|_| self.told.borrow().sure_until)
    }
}

/// So long after; of a length that no clock has, a year.
fn later(instant: Instant, length: Duration) -> Instant {
    let then = instant.checked_add(length);
    then.unwrap_or_else(|| instant + Duration::from_hours(24 * 365))
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.heartbeat.abort();
        if !self.has_ended {
            let (client, lease) = (self.client.clone(), self.lease.clone());
            drop(self.end(async move { client.release(&lease, Report::new()).await }));
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("lease", &self.lease)
            .field("fence", &self.fence())
            .field("expires_at", &self.expires_at())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that was waited for longer than it lasts was past its end when it came, and lost with
    /// the first renewal that failed.
    #[tokio::test]
    async fn what_its_request_waited_is_not_taken_off_a_lease() {
        let granted: Granted = serde_json::from_value(serde_json::json!({
            "id": "00112233445566778899aabbccddeeff",
            "fence": null,
            "granted_at": "2026-01-01T12:01:00Z",
            "expires_at": "2026-01-01T12:01:30Z",
            "expires_in_ms": 30_000,
            "waited_ms": 60_000,
            "repeated": false,
        }))
        .expect("as a server says it");
        let sent = Instant::now();
        assert_eq!(granted.sure_until(sent), sent + Duration::from_secs(90));
    }
}
