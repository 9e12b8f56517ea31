//! One limit of one account.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, counter, gauge};
use tidegate::{Error, Limit, MAX_AMOUNT, Period, Span, Standing, Timestamp};
use tidegate_llm::learnt::{Came, Elsewhere, Granted, Learnt, News, Order, Seen};
use tidegate_llm::{Observation, Signals, Unit};
use tidegate_service::Service;

use super::counted::Counted;
use super::told::Told;
use crate::counts::Counts;

const DAY: Duration = Duration::from_secs(86_400);

/// One limit of one account.
pub struct LearntLimit {
    policy: String,
    member: String,
    /// As the policy has it.
    limit: Limit,
    /// What a store knows it by.
    name: String,
    period: Span,
    learnt: Mutex<Learnt>,
    counted: Counted,
    shown: Shown,
}

impl LearntLimit {
    pub(super) fn new(policy: &str, member: &str, limit: &Limit) -> Self {
        let period = period(limit);
        let name = name(policy, member, limit);
        Self {
            policy: policy.to_owned(),
            member: member.to_owned(),
            limit: limit.clone(),
            counted: Counted::new(&name, limit),
            period,
            learnt: Mutex::new(Learnt::new(limit.capacity(), period)),
            shown: Shown::new(policy, member, limit.name()),
            name,
        }
    }

    pub(super) fn is(&self, policy: &str, member: &str, limit: &Limit) -> bool {
        self.is_called(policy, member, limit.name()) && self.limit == *limit
    }

    pub(super) fn is_called(&self, policy: &str, member: &str, limit: &str) -> bool {
        self.policy == policy && self.member == member && self.limit.name() == limit
    }

    pub(super) const fn limit(&self) -> &Limit {
        &self.limit
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn capacity(&self) -> u64 {
        self.learnt().capacity()
    }

    /// Goes by what another gateway has told.
    pub(super) fn hear(&self, told: &Told) {
        if let Some(news) = told.of(&self.name) {
            self.learnt().told(&news);
        }
    }

    pub(super) fn granted(&self, order: Order, amount: u64, standing: &Standing) -> Granted {
        self.shown.ours(standing);
        self.learnt().granted(order, amount, standing)
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
        let is_other = after.map(|news| news.capacity) != before.map(|news| news.capacity);
        (elsewhere, after.filter(|_| is_other))
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
    pub(super) fn charged(&self, amount: u64, standing: &Standing, now: Timestamp) {
        self.shown.elsewhere.increment(amount);
        self.learnt().charged(standing, now);
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

/// Another number to start from is another limit.
fn name(policy: &str, member: &str, limit: &Limit) -> String {
    let plain = |text: &str| text.replace('%', "%25").replace('/', "%2F");
    let (policy, of) = (plain(policy), plain(limit.name()));
    format!("{policy}/{member}/{of}/{}", limit.capacity())
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
