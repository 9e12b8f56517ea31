//! Limits as plain data: made at random, changed at random, printed.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::discriminant;
use std::sync::Arc;

use tidegate_core::{
    Align, Amount, Bounds, Bucket, Log, Payment, Ring, Rule, Slots, Span, Timestamp, Window,
};
use tidegate_store::{Adaptive, KeyPath, Overrides, OwnedKey, Plan, PlanLimit};

use crate::rng::Rng;

/// The most limits that a plan has.
pub(crate) const MAX_LIMITS: usize = 5;

/// A kernel with its numbers: units and microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Bucket {
        amount: Amount,
        period: u64,
        burst: Amount,
    },
    Window {
        capacity: Amount,
        period: u64,
    },
    FirstUse {
        capacity: Amount,
        period: u64,
    },
    /// Follows one of two made-up calendars.
    Calendar {
        capacity: Amount,
        weeks: bool,
    },
    Ring {
        capacity: Amount,
        period: u64,
        parts: u32,
    },
    Log {
        capacity: Amount,
        period: u64,
        entries: u32,
    },
    Slots {
        capacity: Amount,
        ttl: u64,
    },
}

/// One limit of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LimitData {
    pub(crate) uid: u32,
    pub(crate) kind: Kind,
    pub(crate) level: usize,
    pub(crate) postpaid: bool,
    pub(crate) shadow: bool,
    pub(crate) refund: bool,
    pub(crate) adaptive: bool,
}

/// A plan without its version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlanData {
    pub(crate) levels: usize,
    pub(crate) keep: u64,
    /// Outermost level first.
    pub(crate) limits: Vec<LimitData>,
    /// What keys have for themselves, by the limits' numbers. It has no effect
    /// on a limit of another level or kind.
    pub(crate) own: BTreeMap<&'static [u8], Vec<(u32, Kind)>>,
}

impl Kind {
    fn random(rng: &mut Rng) -> Self {
        let capacity = rng.between(1, 12);
        let period = rng.between(1_000, 6_000);
        match rng.below(8) {
            0 => Self::Window { capacity, period },
            1 => Self::FirstUse { capacity, period },
            2 => Self::Calendar {
                capacity,
                weeks: rng.percent(50),
            },
            3 => Self::Ring {
                capacity,
                period,
                parts: rng.between(1, 5) as u32,
            },
            4 => Self::Log {
                capacity,
                period,
                entries: rng.between(2, 6) as u32,
            },
            5 | 6 => Self::slots(rng),
            _ => Self::bucket(rng),
        }
    }

    /// Of the kinds that stores have faster ways for.
    fn plain(rng: &mut Rng) -> Self {
        let (capacity, period) = (rng.between(1, 12), rng.between(1_000, 6_000));
        match rng.below(8) {
            0..4 => Self::bucket(rng),
            4..6 => Self::slots(rng),
            6 => Self::Window { capacity, period },
            _ => Self::FirstUse { capacity, period },
        }
    }

    fn slots(rng: &mut Rng) -> Self {
        Self::Slots {
            capacity: rng.between(1, 5),
            ttl: rng.between(1_000, 6_000),
        }
    }

    fn bucket(rng: &mut Rng) -> Self {
        Self::Bucket {
            amount: rng.between(1, 12),
            period: rng.between(1_000, 6_000),
            burst: rng.between(1, 12),
        }
    }

    fn rule(self) -> Rule {
        let span = Span::from_micros;
        let rule = match self {
            Self::Bucket {
                amount,
                period,
                burst,
            } => Bucket::new(amount, span(period), burst).map(Rule::Bucket),
            Self::Window { capacity, period } => {
                Window::new(capacity, Align::Epoch(span(period))).map(Rule::Window)
            }
            Self::FirstUse { capacity, period } => {
                Window::new(capacity, Align::FirstUse(span(period))).map(Rule::Window)
            }
            Self::Calendar { capacity, .. } => {
                Window::new(capacity, Align::Calendar).map(Rule::Window)
            }
            Self::Ring {
                capacity,
                period,
                parts,
            } => Ring::new(capacity, span(period), parts).map(Rule::Ring),
            Self::Log {
                capacity,
                period,
                entries,
            } => Log::new(capacity, span(period), entries).map(Rule::Log),
            Self::Slots { capacity, ttl } => Slots::new(capacity, span(ttl)).map(Rule::Slots),
        };
        rule.expect("numbers within their ranges")
    }

    /// Where its calendar stands at `now`: a short day and a long one by turns,
    /// or weeks of 11 milliseconds.
    fn bounds(self, now: i64) -> Option<Bounds> {
        let Self::Calendar { weeks, .. } = self else {
            return None;
        };
        let lengths: [i64; 2] = if weeks {
            [11_000, 11_000]
        } else {
            [3_000, 5_000]
        };
        let both = lengths[0] + lengths[1];
        let start = now.div_euclid(both) * both;
        let middle = start + lengths[0];
        let [start, end, next_end] = if now < middle {
            [start, middle, start + both]
        } else {
            [middle, start + both, middle + both]
        };
        Some(Bounds {
            start: Timestamp::from_micros(start),
            end: Timestamp::from_micros(end),
            next_end: Timestamp::from_micros(next_end),
        })
    }
}

impl LimitData {
    fn random(rng: &mut Rng, uid: u32, levels: usize) -> Self {
        Self {
            uid,
            kind: Kind::random(rng),
            level: rng.below(levels as u64) as usize,
            postpaid: rng.percent(20),
            shadow: rng.percent(10),
            refund: rng.percent(25),
            adaptive: rng.percent(25),
        }
    }

    /// One that is its kind and nothing else, which stores have faster ways for.
    const fn plain(kind: Kind, uid: u32) -> Self {
        Self {
            uid,
            kind,
            level: 0,
            postpaid: false,
            shadow: false,
            refund: false,
            adaptive: false,
        }
    }

    fn is_plain(&self) -> bool {
        let is_fast = matches!(
            self.kind,
            Kind::Bucket { .. } | Kind::Slots { .. } | Kind::Window { .. } | Kind::FirstUse { .. }
        );
        is_fast && *self == Self::plain(self.kind, self.uid)
    }

    fn planned(&self) -> PlanLimit {
        PlanLimit {
            name: format!("limit {}", self.uid).into(),
            uid: self.uid,
            rule: self.kind.rule(),
            level: self.level,
            payment: if self.postpaid {
                Payment::Postpaid
            } else {
                Payment::Prepaid
            },
            shadow: self.shadow,
            refund_on_expiry: self.refund,
            adaptive: self.adaptive.then(Adaptive::default),
        }
    }
}

impl PlanData {
    /// A plain bucket, plain slots, a few of either, one limit of any kind, or several
    /// over some levels.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let keep = rng.between(1_000, 9_000);
        let (levels, limits) = match rng.below(9) {
            0 => (1, vec![LimitData::plain(Kind::bucket(rng), 0)]),
            1 => (1, vec![LimitData::plain(Kind::slots(rng), 0)]),
            2 => (1, vec![LimitData::random(rng, 0, 1)]),
            3..7 => {
                let uids = 0..rng.between(2, 4) as u32;
                let plain = |uid| LimitData::plain(Kind::plain(rng), uid);
                (1, uids.map(plain).collect())
            }
            _ => {
                let levels = rng.between(1, 3) as usize;
                let count = rng.between(1, MAX_LIMITS as u64) as u32;
                let limits = (0..count).map(|uid| LimitData::random(rng, uid, levels));
                (levels, limits.collect())
            }
        };
        let plan = Self {
            levels,
            keep,
            limits,
            own: BTreeMap::new(),
        };
        plan.sorted()
    }

    /// The same with something added, removed or changed; `uid` is a new one.
    pub(crate) fn changed(&self, rng: &mut Rng, uid: u32) -> Self {
        let mut plan = self.clone();
        let at = rng.below(plan.limits.len() as u64) as usize;
        // A few plain limits stay so more often than not.
        if plan.levels == 1 && plan.limits.iter().all(LimitData::is_plain) && rng.percent(60) {
            match rng.below(3) {
                0 if plan.limits.len() < MAX_LIMITS => {
                    plan.limits.push(LimitData::plain(Kind::plain(rng), uid));
                }
                1 if plan.limits.len() > 2 => drop(plan.limits.remove(at)),
                _ => plan.limits[at].kind = plan.limits[at].kind.resized(rng),
            }
            return plan;
        }
        match rng.below(8) {
            0 if plan.limits.len() < MAX_LIMITS => {
                plan.limits.push(LimitData::random(rng, uid, plan.levels));
            }
            1 if plan.limits.len() > 1 => drop(plan.limits.remove(at)),
            2 => plan.limits[at].kind = Kind::random(rng),
            3 if plan.levels == 1 => {
                plan.limits = vec![LimitData::plain(Kind::plain(rng), plan.limits[at].uid)];
            }
            4 => plan.limits[at].postpaid ^= true,
            5 => plan.limits[at].refund ^= true,
            6 => plan.limits[at].adaptive ^= true,
            _ => plan.limits[at].kind = plan.limits[at].kind.resized(rng),
        }
        plan.sorted()
    }

    /// The same, where `key` has other numbers, or no longer any.
    pub(crate) fn overridden(&self, rng: &mut Rng, key: &'static [u8]) -> Self {
        let mut plan = self.clone();
        if rng.percent(30) {
            plan.own.remove(key);
            return plan;
        }
        let limits = plan.limits.iter().filter(|_| rng.percent(80)).copied();
        let limits: Vec<_> = limits.collect();
        let resized = |limit: LimitData| (limit.uid, limit.kind.enlarged(rng));
        plan.own
            .insert(key, limits.into_iter().map(resized).collect());
        plan
    }

    /// Whether it is the same but for what keys have for themselves.
    pub(crate) fn goes_on_from(&self, old: &Self) -> bool {
        (self.levels, self.keep) == (old.levels, old.keep) && self.limits == old.limits
    }

    /// What its keys have for themselves, over `plan`.
    pub(crate) fn overrides(&self, plan: &Plan) -> Overrides {
        let variant = |(key, own): (&&'static [u8], &Vec<(u32, Kind)>)| {
            let level = KeyPath::of_row(key, self.levels).expect("a key").depth() - 1;
            let rule = |limit: &PlanLimit| {
                let known = self.limits.iter().find(|known| known.uid == limit.uid)?;
                let (_, kind) = own.iter().find(|(uid, _)| *uid == limit.uid)?;
                let alike = limit.level == level && kind.is_like(known.kind);
                alike.then(|| kind.rule())
            };
            (OwnedKey::new(key), Arc::new(plan.variant(rule)))
        };
        self.own.iter().map(variant).collect()
    }

    fn sorted(mut self) -> Self {
        self.limits.sort_by_key(|limit| limit.level);
        self
    }

    pub(crate) fn plan(&self, version: u64) -> Arc<Plan> {
        let limits = self.limits.iter().map(LimitData::planned).collect();
        let keep = Span::from_micros(self.keep);
        let plan = Plan::new(version, self.levels, limits, keep);
        let overrides = self.overrides(&plan);
        Arc::new(plan.with_overrides(overrides))
    }

    /// What travels with a command at `now`.
    pub(crate) fn calendars(&self, now: Timestamp) -> Vec<Option<Bounds>> {
        let bounds = self.limits.iter().map(|l| l.kind.bounds(now.as_micros()));
        let bounds: Vec<_> = bounds.collect();
        if bounds.iter().all(Option::is_none) {
            return Vec::new();
        }
        bounds
    }

    /// Whether the fast path may be taken: one limit on one level, nothing held.
    pub(crate) fn is_single_bucket(&self) -> bool {
        let held = |limit: &LimitData| matches!(limit.kind, Kind::Slots { .. });
        self.levels == 1 && self.limits.len() == 1 && !self.limits.iter().any(held)
    }

    pub(crate) fn has_calendar(&self) -> bool {
        let follows = |limit: &LimitData| matches!(limit.kind, Kind::Calendar { .. });
        self.limits.iter().any(follows)
    }

    /// How long the bucket takes to fill, if a store may keep nothing else.
    pub(crate) fn single_bucket_refill(&self) -> Option<Span> {
        let [limit] = &self.limits[..] else {
            return None;
        };
        let plain = !limit.postpaid && !limit.shadow && !limit.refund && !limit.adaptive;
        match limit.kind.rule() {
            Rule::Bucket(bucket) if plain && self.levels == 1 => Some(bucket.refill()),
            _ => None,
        }
    }
}

impl Kind {
    /// The same kind with other numbers, by the same calendar.
    fn enlarged(self, rng: &mut Rng) -> Self {
        match (self, self.resized(rng)) {
            (Self::Calendar { weeks, .. }, Self::Calendar { capacity, .. }) => {
                Self::Calendar { capacity, weeks }
            }
            (_, resized) => resized,
        }
    }

    /// Whether one may take the place of the other for some keys.
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Calendar { weeks, .. }, Self::Calendar { weeks: others, .. }) => weeks == others,
            _ => discriminant(&self) == discriminant(&other),
        }
    }

    /// The same kind with other numbers.
    fn resized(self, rng: &mut Rng) -> Self {
        let capacity = rng.between(1, 14);
        match self {
            Self::Bucket { period, .. } if rng.percent(50) => Self::Bucket {
                amount: rng.between(1, 14),
                period,
                burst: capacity,
            },
            Self::Bucket { .. } => Self::bucket(rng),
            Self::Window { period, .. } => Self::Window { capacity, period },
            Self::FirstUse { period, .. } => Self::FirstUse { capacity, period },
            Self::Calendar { weeks, .. } => Self::Calendar {
                capacity,
                weeks: weeks ^ rng.percent(30),
            },
            Self::Ring { period, parts, .. } => Self::Ring {
                capacity,
                period,
                parts,
            },
            Self::Log {
                period, entries, ..
            } => Self::Log {
                capacity,
                period,
                entries,
            },
            Self::Slots { ttl, .. } => Self::Slots { capacity, ttl },
        }
    }
}

impl fmt::Display for PlanData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} level(s), keep {}us", self.levels, self.keep)?;
        for limit in &self.limits {
            write!(
                f,
                "\n        limit {} at level {}: {:?}",
                limit.uid, limit.level, limit.kind
            )?;
            for (is, word) in [
                (limit.postpaid, "postpaid"),
                (limit.shadow, "shadow"),
                (limit.refund, "refund on expiry"),
                (limit.adaptive, "adaptive"),
            ] {
                if is {
                    write!(f, ", {word}")?;
                }
            }
        }
        for (key, own) in &self.own {
            write!(f, "\n        {} has {own:?}", key.escape_ascii())?;
        }
        Ok(())
    }
}
