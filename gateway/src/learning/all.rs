//! All learnt limits: before a call is admitted, and when it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{Decision, Limit, LimitSet, Span, Timestamp};
use tidegate_llm::learnt::{Granted, News, Order};
use tidegate_service::{Acquired, ActivePolicy, Amounts, Number, Service};
use tidegate_store::Follower;
use tokio::time::timeout;
use tracing::warn;

use super::account::{concurrencies, said};
use super::concurrency::{Concurrency, InFlight, Went};
use super::known::Known;
use super::limit::LearntLimit;
use super::told::{OWNER, Told};
use crate::settings::ConcurrencyBy;

/// A store that could not keep what was learnt is told again after that.
const AGAIN: Duration = Duration::from_secs(1);

/// All learnt limits.
pub struct Learning {
    limits: Known<LearntLimit>,
    concurrencies: Known<Concurrency>,
    by: ConcurrencyBy,
    told: Arc<Told>,
    /// How many calls were granted.
    nth: AtomicU64,
}

/// What was counted when a call was granted, limit by limit.
#[derive(Default)]
pub struct Sent {
    /// When its grant was known here, by this gateway's clock; the grant itself has the store's.
    at: Timestamp,
    /// In the order of their addresses.
    pub(super) limits: SmallVec<[(Arc<LearntLimit>, Granted); 2]>,
    in_flight: SmallVec<[InFlight; 1]>,
}

impl Sent {
    /// An instant of this gateway's clock, by the store's.
    pub(super) fn by_store(&self, call: &Granted, at: Timestamp) -> Timestamp {
        call.order.at + at.since(self.at)
    }

    /// Its call is to be sent now: how long it waits yet, and for which limit's sake. That has fallen,
    /// and the provider still counts what was used before. To be asked again then. Nothing if no limit
    /// holds it up: then it counts as sent at all of them.
    pub fn wait_to_send(&mut self, now: Timestamp) -> Option<(&str, Span)> {
        let passed = now.since(self.at);
        // Between the question and the answer no other call is sent.
        let limits = self.limits.iter_mut().map(|(limit, granted)| {
            let (limit, now): (&LearntLimit, _) = (limit, granted.order.at + passed);
            (limit, limit.learnt(), granted, now)
        });
        let mut limits: SmallVec<[_; 2]> = limits.collect();
        let waits = limits
            .iter_mut()
            .filter_map(|(limit, learnt, granted, now)| {
                let until = learnt.waits(granted, *now)?;
                Some((limit.limit().name(), until.since(*now)))
            });
        let waits = waits.max_by_key(|(_, after)| *after);
        if waits.is_none() {
            for (_, learnt, granted, now) in &mut limits {
                learnt.sends(granted, *now);
            }
        }
        waits
    }

    /// The provider has not counted its call: it counts as sent no longer.
    pub fn cancelled(&self) {
        for (limit, granted) in &self.limits {
            limit.learnt().cancelled(granted);
        }
    }

    /// Its call went so, as far as its concurrency tells. Of one that nothing is said of (its caller
    /// went away, or the provider failed) nothing is learnt.
    pub fn went(&self, learning: &Learning, active: &Arc<ActivePolicy>, went: Went) {
        let now = active.now();
        let changes = self.in_flight.iter().filter(|one| one.went(went, now));
        if changes.count() > 0 {
            learning.prepare(active);
        }
    }
}

impl Learning {
    /// What is learnt from now on; what other gateways of the store have learnt is known.
    pub fn begin(service: &Service, by: ConcurrencyBy) -> Self {
        let told = Arc::new(Told::begin(service.store().cloned()));
        if let Some(store) = service.store() {
            let weak: Weak<Told> = Arc::downgrade(&told);
            store.follow(OWNER, weak as Weak<dyn Follower>);
        }
        Self {
            limits: Known::default(),
            concurrencies: Known::default(),
            by,
            told,
            nth: AtomicU64::new(0),
        }
    }

    fn limit(&self, active: &Arc<ActivePolicy>, member: &str, limit: &Limit) -> Arc<LearntLimit> {
        let whose = (&*active.policy().name, member);
        let new = |others: &[Arc<LearntLimit>]| LearntLimit::new(whose, limit, others);
        self.limits.of(active, member, limit, new)
    }

    fn concurrency(
        &self,
        active: &Arc<ActivePolicy>,
        member: &str,
        limit: &Limit,
    ) -> Arc<Concurrency> {
        let whose = (&*active.policy().name, member);
        let new = |others: &[Arc<Concurrency>]| Concurrency::new(whose, limit, self.by, others);
        self.concurrencies.of(active, member, limit, new)
    }

    /// The sets of a policy go by what is known.
    pub fn prepare(&self, active: &Arc<ActivePolicy>) {
        for (member, set, limit) in said(active) {
            let known = self.limit(active, member, limit);
            known.hear(&self.told);
            put(set, limit, known.capacity());
        }
        for (member, set, limit) in concurrencies(active) {
            let known = self.concurrency(active, member, limit);
            put(set, limit, known.capacity());
        }
    }

    /// A call was refused. Of a pool nobody says where each member stands.
    pub fn refused(&self, active: &Arc<ActivePolicy>, decision: Option<&Decision>) {
        let Some(decision) = decision.filter(|_| !active.policy().is_pool()) else {
            return;
        };
        for (member, _, limit) in concurrencies(active) {
            if let Some(standing) = decision.standing(limit.name()) {
                self.concurrency(active, member, limit).refused(&standing);
            }
        }
    }

    /// What was counted when a call was granted.
    pub fn granted(
        &self,
        active: &Arc<ActivePolicy>,
        acquired: &Acquired,
        amounts: &Amounts<'_>,
    ) -> Sent {
        let Acquired::Granted(granted) = acquired else {
            return Sent::default();
        };
        let Some(decision) = granted.decision().filter(|_| !granted.degraded) else {
            return Sent::default();
        };
        let now = active.now();
        let order = Order {
            at: granted.granted_at,
            nth: self.nth.fetch_add(1, Ordering::Relaxed),
        };
        let of_member = granted.member().unwrap_or_default();
        let is_of = |(member, ..): &(&str, &LimitSet, &Limit)| *member == of_member;
        let in_flight = concurrencies(active).filter(is_of);
        let in_flight = in_flight.filter_map(|(member, _, limit)| {
            let standing = decision.standing(limit.name())?;
            Some(self.concurrency(active, member, limit).granted(&standing))
        });
        let sent = said(active).filter(is_of).filter_map(|(member, _, limit)| {
            let standing = decision.standing(limit.name())?;
            let named = amounts.iter().find(|(name, _)| *name == limit.name());
            let amount = match named {
                Some((_, Number::Units(units))) => *units,
                _ => 1,
            };
            let known = self.limit(active, member, limit);
            let granted = known.granted((order, now), amount, &standing);
            Some((known, granted))
        });
        let mut limits: SmallVec<[_; 2]> = sent.collect();
        limits.sort_unstable_by_key(|(limit, _)| Arc::as_ptr(limit));
        Sent {
            at: now,
            limits,
            in_flight: in_flight.collect(),
        }
    }

    /// A call was refused at `now` because `limit` never grants what it wants. How long it is until it
    /// may, at least; nothing if it never does, as far as is known.
    pub fn wanted(
        &self,
        active: &Arc<ActivePolicy>,
        (name, amount): (&str, u64),
        now: Timestamp,
    ) -> Option<Span> {
        let named = said(active).filter(|(_, _, limit)| limit.name() == name);
        let wanted = named.filter_map(|(member, _, limit)| {
            let known = self.limit(active, member, limit);
            let (after, news) = known.wanted(amount, now)?;
            if let Some(news) = news {
                self.tell(known.name(), news);
            }
            Some(after)
        });
        let after = wanted.min();
        self.prepare(active);
        after
    }

    /// Tells other gateways of the store, unless they know newer.
    pub(super) fn tell(&self, limit: &str, news: News) {
        self.told.tell(limit, news);
    }

    /// Keeps the store at what is newest, and the policies in use at what was heard, those too whose
    /// calls wait; until it is [closed](Self::close) and all is told.
    pub async fn follow(&self) {
        loop {
            let closes = self.told.is_closed();
            let told = self.told.tell_all().await;
            if closes {
                return;
            }
            match told {
                Ok(()) => self.told.changes().await,
                Err(error) => {
                    warn!(
                        %error,
                        "a learnt limit could not be written to the store; other gateways do not know it yet; trying again"
                    );
                    let _ = timeout(AGAIN, self.told.changes()).await;
                }
            }
            self.limits
                .in_use()
                .iter()
                .for_each(|active| self.prepare(active));
        }
    }

    /// Nothing is learnt any more.
    pub fn close(&self) {
        self.told.close();
    }
}

/// A set goes by that capacity from now on.
fn put(set: &LimitSet, limit: &Limit, capacity: u64) {
    if set.capacity(limit.name()) == Some(capacity) {
        return;
    }
    if let Err(error) = set.set_capacity(limit.name(), capacity) {
        warn!(
            limit = limit.name(),
            capacity,
            %error,
            "a learnt limit could not be put in force; the limit before it stays"
        );
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Standing;
    use tidegate_llm::learnt::{Came, Learnt};
    use tidegate_llm::{Provider, Received, Signals, Unit};

    use super::*;

    /// A gateway whose clock was an hour ahead of its store's took every answer for one of a window
    /// that had ended.
    #[test]
    fn instants_of_answers_are_by_the_stores_clock() {
        let at = |seconds| Timestamp::default() + Span::from_secs(seconds);
        let order = Order {
            at: at(100),
            nth: 0,
        };
        let call = Learnt::new(10, Span::SECOND).granted(order, 1, &Standing::full(10));
        let sent = Sent {
            at: at(3_700),
            ..Sent::default()
        };
        assert_eq!(sent.by_store(&call, at(3_707)), at(107));
        assert_eq!(
            sent.by_store(&call, at(3_600)),
            at(100),
            "never before the grant"
        );
    }

    /// It held up calls that had room at the other limit.
    #[test]
    fn a_call_that_waits_for_one_limit_does_not_count_as_sent_at_another() {
        const MINUTE: Duration = Duration::from_secs(60);
        let at = |seconds: u64| Timestamp::default() + Span::from_secs(1_000 + seconds);
        let limit = |name| {
            let start = Limit::rate(name, 1_000, MINUTE);
            Arc::new(LearntLimit::new(("llm", ""), &start, &[]))
        };
        let limits = [limit("tokens"), limit("output-tokens")];
        let call = |nth: u64, seconds: u64, of: &[Arc<LearntLimit>], amount: u64| {
            let at = at(seconds);
            let granted = |limit: &Arc<LearntLimit>| {
                let order = (Order { at, nth }, at);
                let standing = Standing {
                    full_at: Some(at + Span::from_secs(600)),
                    ..Standing::full(1_000)
                };
                let granted = limit.granted(order, amount, &standing);
                (Arc::clone(limit), granted)
            };
            Sent {
                at,
                limits: of.iter().map(granted).collect(),
                ..Sent::default()
            }
        };
        let mut first = call(1, 0, &limits, 10);
        assert_eq!(first.wait_to_send(at(0)), None);
        // Both fall to 100, of which the one counts 100 now, and the other 1,000.
        for ((limit, granted), reset) in first.limits.iter().zip(["60s", "600s"]) {
            let headers = [("limit", "100"), ("remaining", "0"), ("reset", reset)];
            let headers = headers.map(|(what, value)| {
                let name = format!("x-ratelimit-{what}-tokens");
                let name = http::HeaderName::try_from(name).unwrap();
                (name, http::HeaderValue::from_static(value))
            });
            let headers = headers.into_iter().collect();
            let received = Received::new(at(0), &headers);
            let signals = Signals::read(Provider::OpenAi, &headers, received);
            let told = (&signals, Some(Unit::Tokens));
            limit.answered((granted, Came::Accepted), told, at(0), |at| at);
        }
        let mut waits = call(2, 40, &limits, 50);
        let (limit, _) = waits.wait_to_send(at(40)).expect("it waits");
        assert_eq!(limit, "output-tokens");
        let mut goes = call(3, 40, &limits[..1], 50);
        assert_eq!(goes.wait_to_send(at(40)), None);
        // Once nobody holds it up any more, it counts at both.
        assert_eq!(waits.wait_to_send(at(700)), None);
    }
}
