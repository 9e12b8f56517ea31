//! Every verb of the server but `acquire`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::Timestamp;

use crate::adjustment::Adjustment;
use crate::answer::Answer;
use crate::client::Client;
use crate::error::{Error, Problem};
use crate::exchange::Exchange;
use crate::instant;
use crate::key::Key;
use crate::lease_ref::LeaseRef;
use crate::quantity::millis;
use crate::report::Report;
use crate::request::Request;
use crate::settlement::Settlement;
use crate::standing::Forecasts;
use crate::verb::Verb;

#[derive(Serialize)]
struct Many<'a> {
    checks: &'a [Request],
}

#[derive(Deserialize)]
struct Answers {
    answers: Vec<OneOfMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOfMany {
    Answer(Box<Answer>),
    Failed { problem: Problem },
}

#[derive(Serialize)]
struct Length {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Renewal {
    #[serde(deserialize_with = "instant::instant")]
    expires_at: Timestamp,
    expires_in_ms: u64,
}

impl Client {
    /// Takes what is requested, if it fits now, without a lease.
    ///
    /// # Errors
    /// As of every verb: the server did not decide ([`Error`]). A refusal is an answer.
    pub async fn check(&self, request: &Request) -> Result<Answer, Error> {
        self.exchange(&Verb::Check.of(request)).await?.read()
    }

    /// Several checks at once, answered in their order, each as it would have been alone. A
    /// server takes 1,000 at once, unless it was set up otherwise.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn check_many(
        &self,
        checks: &[Request],
    ) -> Result<Vec<Result<Answer, Error>>, Error> {
        let exchange = Exchange::post("/v1/check-many", &Many { checks });
        let answers: Answers = self.exchange(&exchange).await?.read()?;
        let answers = answers.answers.into_iter().map(|one| match one {
            OneOfMany::Answer(answer) => Ok(*answer),
            OneOfMany::Failed { problem } => Err(problem.into()),
        });
        Ok(answers.collect())
    }

    /// What a check would be answered now. Nothing changes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn peek(&self, request: &Request) -> Result<Answer, Error> {
        self.exchange(&Verb::Peek.of(request)).await?.read()
    }

    /// How many such requests fit, limit by limit, and when the next does. Nothing changes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn forecast(&self, request: &Request) -> Result<Forecasts, Error> {
        self.exchange(&Verb::Forecast.of(request)).await?.read()
    }

    /// Charges what was used already, whether it fits or not. The answer says whether the next
    /// request would be admitted.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn debit(&self, request: &Request) -> Result<Answer, Error> {
        self.exchange(&Verb::Debit.of(request)).await?.read()
    }

    /// Forgets what a key has used; what leases hold stays.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn reset(&self, policy: impl Into<String>, key: impl Into<Key>) -> Result<(), Error> {
        let all = Request::new(policy, key);
        self.exchange(&Verb::Reset.of(&all)).await?.done()
    }

    /// Ends a lease with what was really used. A lease is settled once: asked again, the server
    /// gives the first answer.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`Error::NotFound`]: the server does not know the lease.
    pub async fn settle(
        &self,
        lease: &LeaseRef,
        report: impl Into<Report>,
    ) -> Result<Settlement, Error> {
        let settle = Verb::Settle.of_lease(lease, &report.into());
        self.exchange(&settle).await?.read()
    }

    /// Ends a lease: what it took was used. Of the report, how the work went.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn release(&self, lease: &LeaseRef, report: Report) -> Result<Settlement, Error> {
        let release = Verb::Release.of_lease(lease, &report);
        self.exchange(&release).await?.read()
    }

    /// Gives all of a lease back: the work did not start.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn cancel(&self, lease: &LeaseRef, report: Report) -> Result<Settlement, Error> {
        let cancel = Verb::Cancel.of_lease(lease, &report);
        self.exchange(&cancel).await?.read()
    }

    /// Moves a lease's expiry to `ttl` (1 ms to 400 days) from now, and without to as long as a
    /// lease lasts that says none; answers when that is, by the server's clock.
    ///
    /// # Errors
    /// As [`settle`](Self::settle); [`Error::LeaseEnded`].
    pub async fn renew(
        &self,
        lease: &LeaseRef,
        ttl: impl Into<Option<Duration>>,
    ) -> Result<Timestamp, Error> {
        let renewed = self.renew_within(lease, ttl.into(), self.0.deadline);
        renewed.await.map(|(expires_at, _)| expires_at)
    }

    /// The same, given up after so long; with for how long it was renewed.
    pub(crate) async fn renew_within(
        &self,
        lease: &LeaseRef,
        ttl: Option<Duration>,
        longest: Duration,
    ) -> Result<(Timestamp, Duration), Error> {
        let length = Length {
            ttl_ms: ttl.map(millis),
        };
        let renew = Verb::Renew.of_lease(lease, &length).within(longest);
        let renewed: Renewal = self.exchange(&renew).await?.read()?;
        let expires_in = Duration::from_millis(renewed.expires_in_ms);
        Ok((renewed.expires_at, expires_in))
    }

    /// Changes how much a lease has taken: more if it fits, less in any case. If it is refused
    /// nothing has changed.
    ///
    /// # Errors
    /// As [`renew`](Self::renew).
    pub async fn adjust(
        &self,
        lease: &LeaseRef,
        to: impl Into<Adjustment>,
    ) -> Result<Answer, Error> {
        let adjust = Verb::Adjust.of_lease(lease, &to.into());
        self.exchange(&adjust).await?.read()
    }
}
