//! One limit of one account.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use tidegate::{Error, Limit, MAX_AMOUNT, Period, Span, Standing, Timestamp};
use tidegate_llm::learnt::{Came, Elsewhere, Granted, Learnt, News, Order, Seen};
use tidegate_llm::{Counts, Observation, Signals, Unit};
use tidegate_service::Service;

use super::counted::{Counted, Turn};
use super::told::Told;

const DAY: Duration = Duration::from_secs(86_400);

/// One limit of one account.
pub struct LearntLimit {
    /// As the policy has it.
    limit: Limit,
    /// What a store knows it by.
    name: String,
    period: Span,
    learnt: Mutex<Learnt>,
    counted: Arc<Counted>,
    /// By so many microseconds the store's clock is ahead of this gateway's, as of the last grant.
    ahead: AtomicI64,
    shown: Shown,
}

impl LearntLimit {
    /// `others` are in use, too.
    pub(super) fn new((policy, member): (&str, &str), limit: &Limit, others: &[Arc<Self>]) -> Self {
        let period = period(limit);
        let name = name(policy, member, limit);
        // As it was before the file was changed: what was charged stays charged.
        let same = others.iter().find(|other| other.name == name);
        let counted = match same {
            Some(same) => Arc::clone(&same.counted),
            None => Arc::new(Counted::new(&name)),
        };
        Self {
            ahead: AtomicI64::new(0),
            limit: limit.clone(),
            counted,
            period,
            learnt: Mutex::new(Learnt::new(limit.capacity(), period)),
            shown: Shown::new(policy, member, limit.name()),
            name,
        }
    }

    pub(super) const fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What is known of it. Whoever holds that of several at once has taken them in the order of their
    /// addresses.
    pub(super) fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.learnt().capacity()
    }

    /// Goes by what another gateway has told, or tells it better.
    pub(super) fn hear(&self, told: &Told) {
        let Some(news) = told.of(&self.name) else {
            return;
        };
        let mut learnt = self.learnt();
        if learnt.told(&news) {
            return;
        }
        let what = |news: &News| (news.capacity, news.is_said);
        let ours = learnt.news().filter(|ours| what(ours) != what(&news));
        drop(learnt);
        if let Some(ours) = ours {
            told.tell(&self.name, ours);
        }
    }

    /// A call of `amount` was granted, by this gateway's clock at `now`.
    pub(super) fn granted(
        &self,
        (order, now): (Order, Timestamp),
        amount: u64,
        standing: &Standing,
    ) -> Granted {
        let ahead = order.at.as_micros().saturating_sub(now.as_micros());
        self.ahead.store(ahead, Ordering::Relaxed);
        self.shown.ours(standing);
        self.learnt().granted(order, amount, standing)
    }

    /// A call of `amount` wants more than there is at all. How long it is, at least, until there may
    /// be as much; nothing if never, as far as is known, or if it is not this that is too little. And
    /// what to tell other gateways.
    pub(super) fn wanted(&self, amount: u64, now: Timestamp) -> Option<(Span, Option<News>)> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let now = Timestamp::from_micros(now.as_micros().saturating_add(ahead));
        let mut learnt = self.learnt();
        if amount <= learnt.capacity() || amount > learnt.most() {
            return None;
        }
        let before = learnt.news();
        let at = learnt.wanted(now)?;
        let news = learnt.news().filter(|_| learnt.news() != before);
        Some((at.since(now), news))
    }

    /// What an answer changes: what others have used, and what to tell other gateways.
    pub(super) fn answered(
        &self,
        (call, came): (&Granted, Came),
        (signals, unit): (&Signals, Option<Unit>),
        now: Timestamp,
        by_store: impl Fn(Timestamp) -> Timestamp,
    ) -> (Option<Elsewhere>, Option<News>) {
        let about = |seen: &&Observation| unit.is_some_and(|unit| is_about(seen, unit));
        let seen = Seen::of(signals.observations.iter().filter(about), self.period);
        let amounts = self.limit.amounts();
        let mut seen = seen.map(|tokens| amounts.ones(tokens).unwrap_or(MAX_AMOUNT));
        seen.reset_at = seen.reset_at.map(&by_store);
        let mut learnt = self.learnt();
        let before = learnt.news();
        let elsewhere = learnt.answered(call, seen, came, by_store(now));
        let after = learnt.news();
        self.shown.theirs(&seen);
        let what = |news: Option<News>| news.map(|news| (news.capacity, news.is_said));
        (elsewhere, after.filter(|_| what(after) != what(before)))
    }

    /// As [`Counted::turn`].
    pub(super) async fn turn(&self) -> Option<Turn<'_>> {
        self.counted.turn().await
    }

    /// As [`Counted::count`].
    pub(super) async fn count(
        &self,
        service: &Service,
        elsewhere: Elsewhere,
    ) -> Result<(u64, Option<Standing>), Error> {
        self.counted.count(service, elsewhere).await
    }

    /// So much was charged for others, who have used so much in all.
    pub(super) fn charged(&self, amount: u64, standing: &Standing) {
        self.shown.elsewhere.increment(amount);
        self.learnt().charged(standing);
    }
}

/// A calendar's day counts as one, whatever its length.
fn period(limit: &Limit) -> Span {
    let length = match limit.period() {
        Some(Period::Every(length)) => *length,
        Some(Period::Week { .. }) => 7 * DAY,
        Some(Period::Month { .. }) => 30 * DAY,
        Some(Period::Day { .. }) | None => DAY,
    };
    length.into()
}

/// What a provider says of a limit is about that, whatever number it starts with here.
fn name(policy: &str, member: &str, limit: &Limit) -> String {
    let plain = |text: &str| text.replace('%', "%25").replace('/', "%2F");
    let (policy, of) = (plain(policy), plain(limit.name()));
    let (period, places) = (period(limit).as_micros(), limit.amounts().places());
    format!("{policy}/{member}/{of}/{period}/{places}")
}

/// Of what is no unit of ours, the name tells.
fn is_about(seen: &Observation, unit: Unit) -> bool {
    let named = match seen.unit {
        Unit::Other => Counts::named(&seen.name),
        known => return known == unit,
    };
    match named {
        Some(Counts::Tokens) => unit == Unit::Tokens,
        Some(Counts::Input) => unit == Unit::InputTokens,
        Some(Counts::Output) => unit == Unit::OutputTokens,
        Some(Counts::Money) | None => false,
    }
}

/// The provider's view beside ours.
struct Shown {
    limit: Gauge,
    remaining: Gauge,
    their_limit: Gauge,
    their_remaining: Gauge,
    elsewhere: Counter,
}

impl Shown {
    fn new(policy: &str, member: &str, limit: &str) -> Self {
        let of = [
            ("policy", policy.to_owned()),
            ("member", member.to_owned()),
            ("limit", limit.to_owned()),
        ];
        Self {
            limit: gauge!("tidegate_gateway_limit", &of),
            remaining: gauge!("tidegate_gateway_remaining", &of),
            their_limit: gauge!("tidegate_gateway_provider_limit", &of),
            their_remaining: gauge!("tidegate_gateway_provider_remaining", &of),
            elsewhere: counter!("tidegate_gateway_used_elsewhere_total", &of),
        }
    }

    fn ours(&self, standing: &Standing) {
        self.limit.set(standing.limit as f64);
        self.remaining.set(standing.remaining as f64);
    }

    fn theirs(&self, seen: &Seen) {
        if let Some(limit) = seen.limit {
            self.their_limit.set(limit as f64);
        }
        if let Some(remaining) = seen.remaining {
            self.their_remaining.set(remaining as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Waker};

    use super::*;

    /// A gateway whose provider had said the same again told nobody; of another one, which was told
    /// an older limit late, it did not hear what it knew better, and the store kept that.
    #[test]
    fn who_hears_what_is_older_than_what_it_knows_tells_that() {
        let (told, start) = (Told::begin(None), Limit::rate("tokens", 100, DAY));
        let limit = LearntLimit::new(("llm", ""), &start, &[]);
        let news = |capacity, nth| News {
            capacity,
            order: Order {
                nth,
                ..Order::default()
            },
            is_said: true,
            start: 100,
        };
        assert!(limit.learnt().told(&news(500, 9)));
        told.tell(limit.name(), news(1_000, 7));
        limit.hear(&told);
        assert_eq!(
            (limit.capacity(), told.of(limit.name())),
            (500, Some(news(500, 9)))
        );
        told.tell(limit.name(), news(700, 11));
        limit.hear(&told);
        assert_eq!(
            (limit.capacity(), told.of(limit.name())),
            (700, Some(news(700, 11)))
        );
    }

    #[tokio::test]
    async fn no_more_than_so_many_charges_wait() {
        let limit = LearntLimit::new(("llm", ""), &Limit::rate("tokens", 100, DAY), &[]);
        let first = limit.turn().await.expect("nobody waits");
        let mut waiting: Vec<_> = (1..64).map(|_| Box::pin(limit.turn())).collect();
        for turn in &mut waiting {
            let mut context = Context::from_waker(Waker::noop());
            assert!(turn.as_mut().poll(&mut context).is_pending());
        }
        assert!(limit.turn().await.is_none());
        drop(first);
        assert!(waiting.remove(0).await.is_some());
    }
}
