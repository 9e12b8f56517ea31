//! Units to spend without asking, and how they are given back.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use serde::Deserialize;
use tidegate::Timestamp;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::answer::Answer;
use crate::client::{Client, pause};
use crate::error::Error;
use crate::instant;
use crate::lease_ref::LeaseRef;
use crate::named::Named;
use crate::quantity::Quantity;
use crate::report::Report;
use crate::request::Request;
use crate::settlement::Settlement;
use crate::verb::Verb;

/// A grant is held for no longer.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

/// So many times a grant is returned whose answer was lost, while the server says that it granted
/// none: the request may be on its way still.
const ASKED: u32 = 5;

/// What a request for a grant is answered.
#[derive(Debug)]
#[must_use]
pub enum GrantAnswer {
    /// Units to spend.
    Granted(Grant),
    /// Not now.
    Refused(Box<Answer>),
}

impl GrantAnswer {
    /// The units, if there are any.
    #[must_use]
    pub fn granted(self) -> Option<Grant> {
        match self {
            Self::Granted(grant) => Some(grant),
            Self::Refused(_) => None,
        }
    }
}

/// Units of a key's limits, to be spent here without asking until they are over. Dropped, it is
/// not returned: what it has is then used, as far as the server knows.
#[derive(Clone, Debug)]
#[must_use = "what is not spent is to be returned"]
pub struct Grant {
    lease: LeaseRef,
    units: Units,
    answer: Box<Answer>,
    sent: Instant,
}

/// What the server says of it.
#[derive(Clone, Debug, Deserialize)]
struct Units {
    amounts: Named<Quantity>,
    calls: Vec<String>,
    good_for_ms: u64,
    #[serde(deserialize_with = "instant::instant")]
    good_until: Timestamp,
    #[serde(deserialize_with = "instant::instant")]
    granted_at: Timestamp,
    #[serde(deserialize_with = "instant::instant")]
    expires_at: Timestamp,
}

#[derive(Deserialize)]
struct Told {
    #[serde(flatten)]
    answer: Answer,
    grant: Option<Units>,
}

impl Grant {
    /// Which lease it is.
    #[must_use]
    pub const fn lease_ref(&self) -> &LeaseRef {
        &self.lease
    }

    /// What a server says of one of this id, to a request that was sent then.
    #[cfg(test)]
    pub(crate) fn told(id: u128, sent: Instant, said: serde_json::Value) -> Self {
        let told: Told = serde_json::from_value(said).expect("as a server says it");
        Self {
            lease: LeaseRef::new("chat", "alice", format!("{id:032x}")),
            units: told.grant.expect("units"),
            answer: Box::new(told.answer),
            sent,
        }
    }

    /// Its id as a number.
    pub(crate) fn number(&self) -> u128 {
        u128::from_str_radix(self.lease.id(), 16).unwrap_or(0)
    }

    /// How much was granted of each limit that the key has: 0 of one that was not asked for.
    #[must_use]
    pub const fn amounts(&self) -> &Named<Quantity> {
        &self.units.amounts
    }

    /// The limits that count calls: of each, a request that does not name it spends 1.
    #[must_use]
    pub fn calls(&self) -> &[String] {
        &self.units.calls
    }

    /// When its request was sent, by this machine's clock.
    #[must_use]
    pub const fn sent(&self) -> Instant {
        self.sent
    }

    /// For how long it is good from when its request was [sent](Self::sent), by the server's
    /// clock.
    #[must_use]
    pub const fn good_for(&self) -> Duration {
        Duration::from_millis(self.units.good_for_ms)
    }

    /// From when on nothing of it is to be spent, by this machine's clock: a thousandth before
    /// [`good_for`](Self::good_for) is over.
    #[must_use]
    pub fn sure_until(&self) -> Instant {
        self.sent + (self.good_for() - self.good_for() / 1_000)
    }

    /// Until when it is good, by the server's clock.
    #[must_use]
    pub const fn good_until(&self) -> Timestamp {
        self.units.good_until
    }

    /// When it was granted, by the server's clock.
    #[must_use]
    pub const fn granted_at(&self) -> Timestamp {
        self.units.granted_at
    }

    /// When its lease expires, by the server's clock: what was not returned by then was used.
    #[must_use]
    pub const fn expires_at(&self) -> Timestamp {
        self.units.expires_at
    }

    /// The answer that granted it: where every limit stood then.
    #[must_use]
    pub const fn answer(&self) -> &Answer {
        &self.answer
    }
}

impl Client {
    /// Takes units in advance, to be spent here without asking: of each limit as much of what is
    /// requested as is there, and its [`least`](Request::least) at least; for
    /// [`hold`](Request::hold) at most, and never beyond the window that was charged.
    /// [`spender`](Self::spender) does this by itself, as often as it is needed.
    ///
    /// If its future is dropped, or no answer comes that says whether it was granted, what was
    /// granted meanwhile is given back in the background as soon as the server can be reached, of
    /// at most 64 requests at a time; else it expires.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`Error::InvalidRequest`]: a limit of the key holds slots, or
    /// the policy is a pool's; [`Error::Unavailable`], whatever the policy's failure mode: a
    /// server that cannot tell grants nothing.
    pub async fn grant(&self, request: &Request) -> Result<GrantAnswer, Error> {
        let word: u128 = rand::rng().random();
        let mut request = request.clone();
        let id = format!("{word:032x}");
        let lease = LeaseRef::new(request.policy(), request.key().clone(), id.as_str());
        request.lease = Some(id);
        let mut unseen = Unseen {
            client: self,
            grant: Some((&lease, request.hold.unwrap_or(LONGEST_HOLD))),
        };
        let make = || Verb::Grant.of(&request);
        let replied = self.exchange_anew(self.0.deadline, make).await;
        let told = replied.and_then(|(reply, sent)| Ok((reply.read::<Told>()?, sent)));
        if !matches!(&told, Err(error) if error.may_have_been_done()) {
            unseen.grant = None;
        }
        drop(unseen);
        let (Told { answer, grant }, sent) = told?;
        let answer = Box::new(answer);
        Ok(match grant {
            Some(units) => GrantAnswer::Granted(Grant {
                lease,
                units,
                answer,
                sent,
            }),
            None => GrantAnswer::Refused(answer),
        })
    }

    /// Ends a grant with what was used of it: nothing of what `used` does not name. The rest goes
    /// back where it was charged; more than was granted becomes debt. Of the report, what was
    /// used. Asked again, the server gives the first answer.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub async fn return_grant(
        &self,
        grant: &LeaseRef,
        used: impl Into<Report>,
    ) -> Result<Settlement, Error> {
        let back = Verb::Return.of_lease(grant, &used.into());
        self.exchange(&back).await?.read()
    }

    /// Gives back what nobody was told of, as soon as the server can be reached, and no later
    /// than it has expired.
    async fn give_grant_back(&self, grant: LeaseRef, hold: Duration) {
        let by = Instant::now() + hold + self.0.deadline;
        let (mut unknown, mut tried) = (0, 0);
        while unknown < ASKED && Instant::now() < by {
            match self.return_grant(&grant, Report::new()).await {
                Err(Error::NotFound(_)) => unknown += 1,
                Err(error) if error.is_passing() => {}
                _ => return,
            }
            sleep(pause(tried)).await;
            tried += 1;
        }
    }
}

/// A grant of which nobody has seen the answer. Dropped, this gives it back.
struct Unseen<'a> {
    client: &'a Client,
    /// Which, and for how long it is held.
    grant: Option<(&'a LeaseRef, Duration)>,
}

impl Drop for Unseen<'_> {
    fn drop(&mut self) {
        let Some((grant, hold)) = self.grant else {
            return;
        };
        let place = Arc::clone(&self.client.0.unseen).try_acquire_owned();
        // Where there is no place, it expires.
        if let (Ok(place), Ok(runtime)) = (place, Handle::try_current()) {
            let (client, grant) = (self.client.clone(), grant.clone());
            runtime.spawn(async move {
                client.give_grant_back(grant, hold).await;
                drop(place);
            });
        }
    }
}
