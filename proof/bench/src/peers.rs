//! The peers, each set up as its own documentation would have it.

use crate::quota::Quota;
use governor::clock::{Clock, QuantaClock};
use governor::middleware::{StateInformationMiddleware, StateSnapshot};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, RateLimiter};
use limitador::limit::{Context, Limit, Namespace};
use std::collections::HashMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

pub fn governor_quota(quota: Quota) -> governor::Quota {
    governor::Quota::with_period(quota.interval())
        .expect("an interval above zero")
        .allow_burst(quota.burst_u32())
}

pub fn governor_direct(quota: Quota) -> DefaultDirectRateLimiter {
    RateLimiter::direct(governor_quota(quota))
}

/// With the middleware that reports what remains, as our full decision does.
pub fn governor_informed(quota: Quota) -> DefaultDirectRateLimiter<StateInformationMiddleware> {
    governor_direct(quota).with_middleware()
}

pub fn governor_keyed(quota: Quota) -> DefaultKeyedRateLimiter<String> {
    RateLimiter::keyed(governor_quota(quota))
}

/// As a caller would: goes on if admitted, and otherwise looks when to return.
#[inline]
pub fn admitted<T, R>(answer: Result<T, R>) -> bool {
    match answer {
        Ok(_) => true,
        Err(refusal) => {
            black_box(refusal);
            false
        }
    }
}

/// Looks at what remains, as one who asked for it does.
#[inline]
pub fn informed<R>(answer: &Result<StateSnapshot, R>) -> bool {
    match answer {
        Ok(snapshot) => black_box(snapshot.remaining_burst_capacity()) > 0,
        Err(_) => false,
    }
}

/// Starts full, like everybody else here.
pub fn ratelimit(quota: Quota) -> ratelimit::Ratelimiter {
    ratelimit::Ratelimiter::builder(quota.amount)
        .period(quota.period)
        .max_tokens(quota.burst)
        .initial_available(quota.burst)
        .build()
        .expect("a sound configuration")
}

pub fn leaky_bucket(quota: Quota) -> leaky_bucket::RateLimiter {
    let burst = usize::try_from(quota.burst).expect("a 64-bit machine");
    leaky_bucket::RateLimiter::builder()
        .max(burst)
        .initial(burst)
        .refill(1)
        .interval(quota.interval())
        .build()
}

/// Throttlecrab's library is for one thread (`&mut self`); it is measured bare,
/// without the lock that sharing it would need.
pub struct Throttlecrab {
    limiter: throttlecrab::RateLimiter<throttlecrab::PeriodicStore>,
    burst: i64,
    amount: i64,
    period: i64,
}

impl Throttlecrab {
    pub fn new(quota: Quota, keys: usize) -> Self {
        Throttlecrab {
            limiter: throttlecrab::RateLimiter::new(throttlecrab::PeriodicStore::with_capacity(
                keys,
            )),
            burst: i64::try_from(quota.burst).expect("a small burst"),
            amount: i64::try_from(quota.amount).expect("a small amount"),
            period: i64::try_from(quota.period.as_secs()).expect("a short period"),
        }
    }

    pub fn check(&mut self, key: &str) -> bool {
        let now = SystemTime::now();
        let Throttlecrab {
            limiter,
            burst,
            amount,
            period,
        } = self;
        limiter
            .rate_limit(key, *burst, *amount, *period, 1, now)
            .expect("sound parameters")
            .0
    }
}

/// Limitador in memory, without async: one namespace, some limits by user.
/// It has fixed windows only, so `burst` is what a window admits.
pub struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    pub fn new(ceilings: &[u64], keys: u64) -> Self {
        let limiter = limitador::RateLimiter::new(keys * ceilings.len() as u64);
        let variable = "user".try_into().expect("a name is an expression");
        for (index, ceiling) in (0_u64..).zip(ceilings) {
            // Two limits of the same window would be one limit to it.
            limiter.add_limit(Limit::new(
                "bench",
                *ceiling,
                3600 + index,
                vec![],
                vec![std::clone::Clone::clone(&variable)],
            ));
        }
        Limitador {
            limiter,
            namespace: Namespace::from("bench"),
        }
    }

    /// What its callers build for each request.
    pub fn context(key: &str) -> Context<'static> {
        Context::from(HashMap::from([("user".to_owned(), key.to_owned())]))
    }

    pub fn check(&self, context: &Context<'_>, amount: u64) -> bool {
        let result = self
            .limiter
            .check_rate_limited_and_update(&self.namespace, context, amount);
        !result.expect("an expression that evaluates").limited
    }
}

/// What no exact limiter on a shared word can beat: one clock reading and one
/// compare-and-swap.
pub struct Floor {
    clock: QuantaClock,
    start: governor::clock::QuantaInstant,
    arrival: AtomicU64,
}

impl Floor {
    pub fn new() -> Self {
        let clock = QuantaClock::default();
        Floor {
            start: clock.now(),
            clock,
            arrival: AtomicU64::new(0),
        }
    }

    pub fn check(&self) -> bool {
        use governor::clock::Reference;
        let now = self.clock.now().duration_since(self.start).as_u64();
        let step = |arrival: u64| Some(arrival.max(now) + 1);
        self.arrival
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step)
            .is_ok()
    }
}
