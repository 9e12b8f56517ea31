//! What is counted of a policy, by the names that Prometheus users know.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Label, SharedString, counter, describe_counter, describe_gauge,
};
use metrics::{describe_histogram, gauge, histogram};

use super::series::Series;
use tidegate::{Limit, TierStatistics};
use tidegate_policy::Policy;
use tidegate_store::sync::Mutex;

/// One decision in so many is timed.
const TIMED: u32 = 16;

/// One policy's meters, looked up once.
pub(super) struct Meters {
    series: Series,
    /// What tells its series from others: its name, and its namespace.
    labels: Vec<Label>,
    admitted: Counter,
    refused: Counter,
    /// By the limit that refused: each of the policy's.
    refusals: Box<[(String, Counter)]>,
    failed: Counter,
    invalid: Counter,
    full: Counter,
    degraded: Counter,
    shadowed: Counter,
    decision: Histogram,
    wait: Histogram,
    waiting: Gauge,
    keys: Held,
    leases: Held,
    remembered: Held,
    tier_keys: Held,
    /// What was told of its tier, which counts on when the policy is exchanged, or begins anew.
    told_of_tier: Arc<Mutex<TierStatistics>>,
    /// How many decisions might have been timed.
    seen: AtomicU32,
}

/// What a policy holds, where its store counts that; else there is no such series, for a 0
/// would not be true.
struct Held {
    name: &'static str,
    gauge: OnceLock<Gauge>,
}

impl Held {
    const fn called(name: &'static str) -> Self {
        let gauge = OnceLock::new();
        Self { name, gauge }
    }

    fn observe(&self, labels: &[Label], count: Option<usize>) {
        let Some(count) = count else { return };
        let gauge = || gauge!(self.name, labels.to_vec());
        self.gauge.get_or_init(gauge).set(count as f64);
    }

    /// There is nothing any more.
    fn gone(&self) {
        if let Some(gauge) = self.gauge.get() {
            gauge.set(0.0);
        }
    }
}

/// What only the sets themselves know; `None` where they do not say.
pub(super) struct Observed {
    pub(super) waiting: u64,
    pub(super) keys: Option<usize>,
    /// Leases that are held, and those that are remembered after their end.
    pub(super) leases: Option<usize>,
    pub(super) remembered: Option<usize>,
    /// Of a policy that counts near the caller.
    pub(super) tier: Option<TierStatistics>,
}

impl Meters {
    pub(super) fn of(policy: &Policy, namespace: Option<&str>) -> Self {
        let limits = policy.limit_lists().flatten().map(Limit::name);
        // The members of a pool mostly have the same.
        let limits: BTreeSet<_> = limits.collect();
        let series = Series::of(&policy.name, namespace);
        let labels = series.labels();
        let refusals = limits.into_iter().map(|limit| {
            let counter = refusals(&labels, series.limit(limit));
            (limit.to_owned(), counter)
        });
        let refusals = refusals.collect();
        let decisions = |outcome: &'static str| {
            counter!("tidegate_decisions_total", and(&labels, "outcome", outcome))
        };
        Self {
            admitted: decisions("admitted"),
            refused: decisions("refused"),
            failed: decisions("failed"),
            invalid: decisions("invalid"),
            refusals,
            full: counter!("tidegate_full_total", labels.clone()),
            degraded: counter!("tidegate_degraded_total", labels.clone()),
            shadowed: counter!("tidegate_shadowed_total", labels.clone()),
            decision: histogram!("tidegate_decision_seconds", labels.clone()),
            wait: histogram!("tidegate_wait_seconds", labels.clone()),
            waiting: match series.is_shared() {
                true => Gauge::noop(),
                false => gauge!("tidegate_waiting", labels.clone()),
            },
            keys: Held::called("tidegate_keys"),
            leases: Held::called("tidegate_leases"),
            remembered: Held::called("tidegate_leases_remembered"),
            tier_keys: Held::called("tidegate_tier_keys"),
            told_of_tier: Arc::default(),
            seen: AtomicU32::new(0),
            series,
            labels,
        }
    }

    pub(super) fn admitted(&self) {
        self.admitted.increment(1);
    }

    /// By this limit, if it was one: a member of a pool that cools down is none.
    pub(super) fn refused(&self, limit: Option<&str>) {
        self.refused.increment(1);
        let Some(name) = limit else { return };
        match self.refusals.iter().find(|(limit, _)| limit == name) {
            Some((_, counter)) => counter.increment(1),
            // The limits have been exchanged since the policy was looked up.
            None => refusals(&self.labels, self.series.limit(name)).increment(1),
        }
    }

    /// Whether the next decision is to be timed: one in [`TIMED`] is, the first
    /// among them. To time each would cost as much as a tenth of it.
    #[inline]
    pub(super) fn wants_time(&self) -> bool {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        seen.is_multiple_of(TIMED)
    }

    pub(super) fn took(&self, took: Duration) {
        self.decision.record(took.as_secs_f64());
    }

    pub(super) fn failed(&self) {
        self.failed.increment(1);
    }

    /// The request could not be decided, whatever the store says: it is the caller's to mend.
    pub(super) fn invalid(&self) {
        self.invalid.increment(1);
    }

    /// There was no room for the key or the lease.
    pub(super) fn full(&self) {
        self.full.increment(1);
    }

    pub(super) fn degraded(&self) {
        self.degraded.increment(1);
    }

    /// Admitted, though a shadow limit would have refused.
    pub(super) fn shadowed(&self) {
        self.shadowed.increment(1);
    }

    pub(super) fn waited(&self, wait: Duration) {
        self.wait.record(wait.as_secs_f64());
    }

    /// The policy is gone, and holds nothing.
    pub(super) fn gone(&self) {
        self.waiting.set(0.0);
        let all = [&self.keys, &self.leases, &self.remembered, &self.tier_keys];
        all.into_iter().for_each(Held::gone);
    }

    /// What only the sets themselves know, as of now: told of series that are of no other policy.
    pub(super) fn observe(&self, now: &Observed) {
        if self.series.is_shared() {
            return;
        }
        self.waiting.set(now.waiting as f64);
        let tier_keys = now.tier.as_ref().map(|tier| tier.keys as usize);
        let held = [
            (&self.keys, now.keys),
            (&self.leases, now.leases),
            (&self.remembered, now.remembered),
            (&self.tier_keys, tier_keys),
        ];
        for (held, count) in held {
            held.observe(&self.labels, count);
        }
        if let Some(tier) = &now.tier {
            self.observe_tier(tier);
        }
    }

    /// Goes on with the tier of `before`: what of it was told is told.
    pub(super) fn go_on(&mut self, before: &Self) {
        self.told_of_tier = Arc::clone(&before.told_of_tier);
    }

    /// Tells what its tier has counted since that was told.
    pub(super) fn observe_tier(&self, tier: &TierStatistics) {
        let mut told = self.told_of_tier.lock();
        // Another may have told later counts meanwhile.
        let of = |name: &'static str, outcome: &'static str, count: u64, told: &mut u64| {
            let more = count.saturating_sub(*told);
            *told = count.max(*told);
            counter!(name, and(&self.labels, "outcome", outcome)).increment(more);
        };
        let decisions = "tidegate_tier_decisions_total";
        of(decisions, "admitted", tier.admitted, &mut told.admitted);
        of(decisions, "refused", tier.refused, &mut told.refused);
        let grants = "tidegate_grants_total";
        of(grants, "requested", tier.requested, &mut told.requested);
        of(grants, "granted", tier.granted, &mut told.granted);
        of(grants, "late", tier.late, &mut told.late);
        of(grants, "returned", tier.returned, &mut told.returned);
    }
}

/// Counts a client that one of the protocols `http`, `grpc` and `resp` has given up, because
/// it took too long to send its first bytes or a request, or to take its answers.
pub fn count_timeout(protocol: &'static str) {
    counter!("tidegate_timeouts_total", "protocol" => protocol).increment(1);
}

/// Counts a request that was not let in: without a token where one is needed, or by one that is
/// not known.
pub(super) fn count_unauthenticated() {
    counter!("tidegate_unauthenticated_total").increment(1);
}

fn refusals(labels: &[Label], limit: &str) -> Counter {
    counter!(
        "tidegate_refusals_total",
        and(labels, "limit", limit.to_owned())
    )
}

fn and(labels: &[Label], name: &'static str, value: impl Into<SharedString>) -> Vec<Label> {
    let mut labels = labels.to_vec();
    labels.push(Label::new(name, value));
    labels
}

/// Says once what the names mean.
pub(super) fn describe() {
    describe_counter!(
        "tidegate_decisions_total",
        "Decisions, by policy and outcome: admitted, refused, invalid (the caller must change the request), failed (the store could not tell, or there was no room)"
    );
    describe_counter!(
        "tidegate_refusals_total",
        "Refusals, by policy and by the limit that binds: of several that did not admit, the one for which the wait is longest"
    );
    describe_counter!(
        "tidegate_full_total",
        "Requests answered by an error because the policy, or the key's first segment, holds as many keys or leases as it may"
    );
    describe_counter!(
        "tidegate_degraded_total",
        "Answers given by the failure mode because the store could not tell"
    );
    describe_counter!(
        "tidegate_shadowed_total",
        "Requests admitted that a shadow limit would have refused"
    );
    describe_counter!(
        "tidegate_timeouts_total",
        "Clients given up because they took too long to send their first bytes or a request, or (RESP) to take their answers"
    );
    describe_counter!(
        "tidegate_unauthenticated_total",
        "Requests not let in: without a token where one is needed, or by one that is not known"
    );
    describe_counter!(
        "tidegate_tier_decisions_total",
        "Requests decided by units that this server took in advance, or by a refusal that it remembers; of policies with a tier alone"
    );
    describe_counter!(
        "tidegate_grants_total",
        "Grants of units in advance: requested, granted, of those too late to be spent, and given back in part or whole; of policies with a tier alone"
    );
    describe_histogram!(
        "tidegate_decision_seconds",
        metrics::Unit::Seconds,
        "Time from the request to the answer, without waiting, of one decision in sixteen"
    );
    describe_histogram!(
        "tidegate_wait_seconds",
        metrics::Unit::Seconds,
        "Time that admitted requests have waited for their turn"
    );
    describe_gauge!("tidegate_waiting", "Requests waiting now");
    describe_gauge!(
        "tidegate_tier_keys",
        "Keys of which this server holds units in advance, or remembers a refusal; of policies with a tier alone"
    );
    describe_gauge!(
        "tidegate_keys",
        "Keys whose state is held; of memory and file stores alone"
    );
    describe_gauge!(
        "tidegate_leases",
        "Leases held now; of memory and file stores alone"
    );
    describe_gauge!(
        "tidegate_leases_remembered",
        "Leases remembered after their end; of memory and file stores alone"
    );
}
