//! One constraint with a name.

use std::time::Duration;

use tidegate_core::{
    Align, Amount, Bucket, Log, Payment, Ring, Rule, RuleError, Slots, Span, Window,
};
use tidegate_store::{Adaptive, PlanLimit, key::MAX_LEVELS};

use super::algorithm::Algorithm;
use super::error::LimitError;
use super::period::Period;
use super::unit::Unit;

mod added;
pub(crate) mod bytes;
mod over;
mod said;
mod settings;

/// How long slots are held unless the limit or the request says otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(120);
/// Sub-windows of a sliding window: at most a sixtieth is refused too much.
const DEFAULT_SUB_WINDOWS: u32 = 60;
/// Entries of a sliding log before neighbours are merged.
const DEFAULT_ENTRIES: u32 = 4_096;

/// What becomes of a rate's amount when the work fails unreported: a lease that expires, or is dropped
/// by a panic or after [`Lease::fail`](crate::Lease::fail). One that `?` or an aborted task drops has
/// not failed: its amount stays charged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnFailure {
    /// It counts as fully used: it may have been.
    #[default]
    Charge,
    /// It is given back: as much of it as has not come back by itself.
    Refund,
}

/// What a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Calls,
    Rate,
    Concurrency,
}

/// One constraint with a name. Amounts: 1 to 2^53 - 1; periods: 1 ms to 400
/// days; ttl: 1 ms to 400 days. See the constructors for what each counts. A setting that
/// means nothing to a limit of its kind is [`LimitError::NoSetting`] when a set is built.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Limit {
    name: String,
    kind: Kind,
    capacity: Amount,
    period: Option<Period>,
    algorithm: Algorithm,
    burst: Option<Amount>,
    ttl: Option<Duration>,
    sub_windows: Option<u32>,
    max_entries: Option<u32>,
    payment: Payment,
    shadow: bool,
    on_failure: OnFailure,
    level: Option<String>,
    unit: Unit,
    adaptive: bool,
    /// Only the keys have it that are given it.
    added: bool,
    /// It stands for a limit that the key at hand was not given.
    absent: bool,
}

impl Limit {
    /// `count` calls per period; each request takes one unless it says otherwise. They come back one
    /// by one, so after a pause a period may see nearly twice as many: [`Algorithm::SlidingLog`]
    /// admits no more than `count` in any period ([`algorithm`](Self::algorithm)).
    #[must_use]
    pub fn calls(name: impl Into<String>, count: Amount, per: impl Into<Period>) -> Self {
        Self::timed(name, Kind::Calls, count, per.into())
    }

    /// `amount` units per period; the request says how many it takes. They come back as those of
    /// [`calls`](Self::calls) do.
    #[must_use]
    pub fn rate(name: impl Into<String>, amount: Amount, per: impl Into<Period>) -> Self {
        Self::timed(name, Kind::Rate, amount, per.into())
    }

    /// `amount` units in each window of the clock or the calendar.
    #[must_use]
    pub fn budget(name: impl Into<String>, amount: Amount, per: impl Into<Period>) -> Self {
        Self::timed(name, Kind::Rate, amount, per.into()).algorithm(Algorithm::FixedWindow)
    }

    /// `slots` held at once; each request holds one unless it says otherwise.
    #[must_use]
    pub fn concurrency(name: impl Into<String>, slots: Amount) -> Self {
        Self::new(name.into(), Kind::Concurrency, slots, None)
    }

    fn timed(name: impl Into<String>, kind: Kind, capacity: Amount, per: Period) -> Self {
        let calendar = !matches!(per, Period::Every(_));
        let limit = Self::new(name.into(), kind, capacity, Some(per));
        if calendar {
            return limit.algorithm(Algorithm::FixedWindow);
        }
        limit
    }

    fn new(name: String, kind: Kind, capacity: Amount, period: Option<Period>) -> Self {
        Self {
            name,
            kind,
            capacity,
            period,
            algorithm: Algorithm::TokenBucket,
            burst: None,
            ttl: None,
            sub_windows: None,
            max_entries: None,
            payment: Payment::Prepaid,
            shadow: false,
            on_failure: OnFailure::Charge,
            level: None,
            unit: Unit::ONE,
            adaptive: false,
            added: false,
            absent: false,
        }
    }

    /// Counts by another algorithm. (A calendar's period counts by windows.)
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// What may be used at once after a pause; the amount per period if not said. Of a
    /// bucket over a length of time.
    #[must_use]
    pub fn burst(mut self, burst: Amount) -> Self {
        self.burst = Some(burst);
        self
    }

    /// How long slots of concurrency are held unless renewed (2 minutes if not said).
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How finely a [sliding window](Algorithm::SlidingWindow) tells instants apart: 1 to
    /// 10,000 (60).
    #[must_use]
    pub fn sub_windows(mut self, sub_windows: u32) -> Self {
        self.sub_windows = Some(sub_windows);
        self
    }

    /// How many instants a [sliding log](Algorithm::SlidingLog) keeps apart: 2 to 1,048,576
    /// (4,096).
    #[must_use]
    pub fn max_entries(mut self, entries: u32) -> Self {
        self.max_entries = Some(entries);
        self
    }

    /// Admit while one unit is left; the request that crosses counts in full.
    #[must_use]
    pub fn postpaid(mut self) -> Self {
        self.payment = Payment::Postpaid;
        self
    }

    /// Decide and record, but refuse nobody.
    #[must_use]
    pub fn shadow(mut self) -> Self {
        self.shadow = true;
        self
    }

    /// What becomes of the amount when the work fails unreported.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// The level of the set's keys that this limit is about (the last if not said).
    #[must_use]
    pub fn at_level(mut self, level: impl Into<String>) -> Self {
        self.level = Some(level.into());
        self
    }

    /// The unit that the amounts of this rate or budget are given in.
    #[must_use]
    pub fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// Its capacity may change often: one that is learnt, or a share of a fleet's. The set
    /// [sets it](crate::LimitSet::set_capacity).
    ///
    /// A bucket's rate stays as it is (its capacity is its burst); where the amount per
    /// period is what changes, count by a [sliding window](Algorithm::SlidingWindow).
    #[must_use]
    pub fn adaptive(mut self) -> Self {
        self.adaptive = true;
        self
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The amount per period, or the number of slots.
    #[must_use]
    pub const fn capacity(&self) -> Amount {
        self.capacity
    }

    /// The most that can be granted at once.
    #[must_use]
    pub fn at_most(&self) -> Amount {
        self.burst.unwrap_or(self.capacity)
    }

    /// How often it starts afresh; `None` for concurrency.
    #[must_use]
    pub const fn period(&self) -> Option<&Period> {
        self.period.as_ref()
    }

    /// Whether each request takes one unit unless it says otherwise (calls, slots).
    #[must_use]
    pub const fn is_counted(&self) -> bool {
        !matches!(self.kind, Kind::Rate)
    }

    /// Whether what it grants is held until given back.
    #[must_use]
    pub const fn is_concurrency(&self) -> bool {
        matches!(self.kind, Kind::Concurrency)
    }

    /// The unit of its amounts.
    #[must_use]
    pub const fn amounts(&self) -> Unit {
        self.unit
    }

    pub(crate) const fn is_adaptive(&self) -> bool {
        self.adaptive
    }

    pub(crate) const fn failure(&self) -> OnFailure {
        self.on_failure
    }

    /// The same limit with another capacity; a burst that was said stays.
    #[must_use]
    pub fn with_capacity(mut self, capacity: Amount) -> Self {
        self.capacity = capacity;
        self
    }

    /// This limit as a store is given it.
    pub(crate) fn plan(&self, uid: u32, levels: &[String]) -> Result<PlanLimit, LimitError> {
        if self.name.is_empty() {
            return Err(LimitError::NoName);
        }
        Ok(PlanLimit {
            name: self.name.as_str().into(),
            uid,
            rule: self.rule()?,
            level: self.level_in(levels)?,
            payment: self.payment,
            shadow: self.shadow,
            refund_on_expiry: self.on_failure == OnFailure::Refund,
            adaptive: self.adaptive.then(Adaptive::default),
        })
    }

    /// Whether it says which level it is about.
    pub(crate) const fn has_level(&self) -> bool {
        self.level.is_some()
    }

    /// The position of the level that it is about, of these.
    ///
    /// # Errors
    /// [`LimitError::UnknownLevel`].
    pub(crate) fn level_in(&self, levels: &[String]) -> Result<usize, LimitError> {
        let last = levels.len().clamp(1, MAX_LEVELS) - 1;
        let Some(level) = &self.level else {
            return Ok(last);
        };
        let position = levels.iter().position(|name| name == level);
        position.ok_or_else(|| LimitError::UnknownLevel(level.clone()))
    }

    fn rule(&self) -> Result<Rule, LimitError> {
        self.check_settings()?;
        let Some(period) = &self.period else {
            return Ok(Rule::Slots(Slots::new(
                self.capacity,
                Span::from(self.ttl.unwrap_or(DEFAULT_TTL)),
            )?));
        };
        let Some(span) = period.span() else {
            return self.calendar_rule(period);
        };
        let burst = self.at_most();
        Ok(match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra | Algorithm::LeakyBucket => {
                Rule::Bucket(Bucket::new(self.capacity, span, burst)?)
            }
            Algorithm::FixedWindow => self.window(Align::Epoch(span))?,
            Algorithm::FirstUseWindow => self.window(Align::FirstUse(span))?,
            Algorithm::SlidingWindow => {
                let parts = self.sub_windows.unwrap_or(DEFAULT_SUB_WINDOWS);
                Rule::Ring(Ring::new(self.capacity, span, parts)?)
            }
            Algorithm::SlidingLog => {
                let entries = self.max_entries.unwrap_or(DEFAULT_ENTRIES);
                Rule::Log(Log::new(self.capacity, span, entries)?)
            }
        })
    }

    fn calendar_rule(&self, period: &Period) -> Result<Rule, LimitError> {
        period.calendar()?;
        if self.algorithm != Algorithm::FixedWindow {
            return Err(LimitError::CalendarNeedsWindow(self.algorithm));
        }
        Ok(self.window(Align::Calendar)?)
    }

    fn window(&self, align: Align) -> Result<Rule, RuleError> {
        Window::new(self.capacity, align).map(Rule::Window)
    }
}
