//! All learnt limits: before a call is admitted, and when it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{Limit, Span, Timestamp};
use tidegate_llm::learnt::{Granted, News, Order};
use tidegate_service::{Acquired, ActivePolicy, Amounts, Number, Service};
use tidegate_store::Follower;
use tokio::time::timeout;
use tracing::warn;

use super::account::learnt;
use super::limit::LearntLimit;
use super::told::{OWNER, Told};

/// A store that could not keep what was learnt is told again after that.
const AGAIN: Duration = Duration::from_secs(1);

/// All learnt limits.
pub struct Learning {
    /// A few: the learnt ones of the policies that were asked.
    limits: RwLock<Vec<Arc<LearntLimit>>>,
    told: Arc<Told>,
    /// How many calls were granted.
    nth: AtomicU64,
}

/// What was counted when a call was granted, limit by limit.
#[derive(Default)]
pub struct Sent {
    /// When its grant was known here, by this gateway's clock; the grant itself has the store's.
    at: Timestamp,
    pub(super) limits: SmallVec<[(Arc<LearntLimit>, Granted); 2]>,
}

impl Sent {
    /// An instant of this gateway's clock, by the store's.
    pub(super) fn by_store(&self, call: &Granted, at: Timestamp) -> Timestamp {
        call.order.at + at.since(self.at)
    }
}

impl Learning {
    /// What is learnt from now on; what other gateways of the store have learnt is known.
    pub fn begin(service: &Service) -> Self {
        let told = Arc::new(Told::begin(service.store().cloned()));
        if let Some(store) = service.store() {
            let weak: Weak<Told> = Arc::downgrade(&told);
            store.follow(OWNER, weak as Weak<dyn Follower>);
        }
        Self {
            limits: RwLock::default(),
            told,
            nth: AtomicU64::new(0),
        }
    }

    fn limit(&self, active: &Arc<ActivePolicy>, member: &str, limit: &Limit) -> Arc<LearntLimit> {
        let policy = &*active.policy().name;
        let find = |limits: &Vec<Arc<LearntLimit>>| {
            let mut known = limits.iter();
            known.find(|known| known.is(policy, member, limit)).cloned()
        };
        let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&limits) {
            return known;
        }
        drop(limits);
        let mut limits = self.limits.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&limits) {
            return known;
        }
        // Of a file that was changed, once no call goes by that any more.
        limits.retain(|known| !known.in_use().is_empty());
        let new = Arc::new(LearntLimit::new(policy, member, limit, &limits));
        new.is_of(active);
        limits.push(Arc::clone(&new));
        new
    }

    /// The sets of a policy go by what is known.
    pub fn prepare(&self, active: &Arc<ActivePolicy>) {
        for (member, set, limit) in learnt(active) {
            let known = self.limit(active, member, limit);
            known.is_of(active);
            known.hear(&self.told);
            let capacity = known.capacity();
            if set.capacity(limit.name()) == Some(capacity) {
                continue;
            }
            if let Err(error) = set.set_capacity(limit.name(), capacity) {
                warn!(%error, "what was learnt of a limit does not hold");
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
        let of_member =
            learnt(active).filter(|(member, ..)| *member == granted.member().unwrap_or_default());
        let sent = of_member.filter_map(|(member, _, limit)| {
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
        Sent {
            at: now,
            limits: sent.collect(),
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
        let named = learnt(active).filter(|(_, _, limit)| limit.name() == name);
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
            let told = self.told.tell_all().await;
            if self.told.is_closed() {
                return;
            }
            match told {
                Ok(()) => self.told.changes().await,
                Err(error) => {
                    warn!(%error, "what was learnt of a limit is not told to other gateways yet");
                    let _ = timeout(AGAIN, self.told.changes()).await;
                }
            }
            let limits = self.limits.read().unwrap_or_else(PoisonError::into_inner);
            let in_use: Vec<_> = limits.iter().flat_map(|known| known.in_use()).collect();
            drop(limits);
            in_use.iter().for_each(|active| self.prepare(active));
        }
    }

    /// Nothing is learnt any more.
    pub fn close(&self) {
        self.told.close();
    }
}

#[cfg(test)]
mod tests {
    use tidegate::Standing;
    use tidegate_llm::Learnt;

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
            limits: SmallVec::new(),
        };
        assert_eq!(sent.by_store(&call, at(3_707)), at(107));
        assert_eq!(
            sent.by_store(&call, at(3_600)),
            at(100),
            "never before the grant"
        );
    }
}
