//! Samples in, a limit out.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate_core::{Amount, MAX_AMOUNT, RuleError};

use super::estimate::{Aimd, Bounds, Gradient2, GuardedVegas, Vegas};
use super::sample::Sample;
use crate::limit::LimitError;
use crate::outcome::Outcome;

/// Where every estimator begins, unless another limit is said.
const START: f64 = 20.0;
/// The range of every estimator, unless another one is said.
const RANGE: Bounds = Bounds {
    least: 1,
    most: 200,
};

/// Estimates how much an upstream can serve at once: samples in, a limit out. It grants
/// nothing, reads no clock and draws nothing by chance: the same samples give the same
/// limits. A limit is 1 to 200 and begins at 20, unless [`within`](Self::within) and
/// [`starting_at`](Self::starting_at) say otherwise.
///
/// ```
/// use std::time::Duration;
/// use tidegate::adaptive::{Estimator, Sample};
/// use tidegate::{Outcome, Timestamp};
///
/// let mut estimator = Estimator::aimd(Duration::from_secs(5)).within(1..=100)?;
/// let sample = Sample {
///     at: Timestamp::from_micros(1_000_000),
///     signal: Duration::from_millis(80),
///     in_flight: 20,
///     outcome: Outcome::Succeeded,
/// };
/// assert_eq!(estimator.observe(&sample), 21);
/// assert_eq!(estimator.observe(&Sample { outcome: Outcome::Dropped, ..sample }), 18);
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Estimator {
    formula: Formula,
    bounds: Bounds,
    limit: f64,
}

#[derive(Clone, Debug)]
enum Formula {
    Aimd(Aimd),
    Vegas(Vegas),
    Gradient2(Box<Gradient2>),
    GuardedVegas(Box<GuardedVegas>),
}

impl Estimator {
    const fn new(formula: Formula) -> Self {
        Self {
            formula,
            bounds: RANGE,
            limit: START,
        }
    }

    /// Additive increase, multiplicative decrease (Chiu and Jain 1989; the numbers are those
    /// of Netflix's concurrency-limits): for each success one more while half of the limit
    /// is in use, for each drop a tenth less. A signal longer than `timeout` is a drop.
    ///
    /// For upstreams that refuse or time out when they have too much to do. It goes to its
    /// maximum before one that only gets slower, up to `timeout`.
    #[must_use]
    pub fn aimd(timeout: Duration) -> Self {
        let formula = Formula::Aimd(Aimd::new(timeout));
        Self::new(formula)
    }

    /// TCP Vegas (Brakmo and Peterson 1995; the numbers are those of Netflix's
    /// concurrency-limits): as many as make a short queue, by the shortest signal seen. That
    /// is measured anew at half the limit, for one round trip in 15 to 30.
    ///
    /// For signals without much noise, and for one process: the shortest of noisy signals is
    /// too short, and the limit then too low. A drop lowers it by less than a success without a
    /// queue raises it: not for upstreams that refuse.
    #[must_use]
    pub fn vegas() -> Self {
        let formula = Formula::Vegas(Vegas::default());
        Self::new(formula)
    }

    /// Netflix's Gradient2: the mean of each second against an average of the last 600
    /// seconds. Drops say nothing to it.
    ///
    /// **Its maximum is its only bound** under an overload that lasts: take one that the
    /// upstream survives.
    #[must_use]
    pub fn gradient2() -> Self {
        let formula = Formula::Gradient2(Box::new(Gradient2::new()));
        Self::new(formula)
    }

    /// Vegas with a guard that looks at how throughput goes with what is in flight (Uber's
    /// Cinnamon, failsafe-go): the default.
    ///
    /// It moves once in a window of 50 samples or more, which lasts a second at least, twice the
    /// signal, and 30 seconds at most, or until 10 samples came. A window of
    /// which more than one in 50 was dropped takes a tenth off. A queue never becomes what
    /// it takes for normal: that rises only where lowering the limit has cost throughput.
    #[must_use]
    pub fn guarded_vegas() -> Self {
        let formula = Formula::GuardedVegas(Box::new(GuardedVegas::new()));
        Self::new(formula)
    }

    /// The least and the most that the limit may be: 1 to 2^53 - 1. The limit is brought
    /// into it.
    ///
    /// # Errors
    /// [`LimitError::Rule`]: a least of 0, a most of more than 2^53 - 1 or of less than the
    /// least.
    pub fn within(mut self, range: RangeInclusive<Amount>) -> Result<Self, LimitError> {
        let (least, most) = range.into_inner();
        check("minimum", least, 1)?;
        check("maximum", most, least)?;
        self.bounds = Bounds { least, most };
        self.limit = self.bounds.hold(self.limit);
        Ok(self)
    }

    /// Begins with `limit`, brought into the range.
    #[must_use]
    pub fn starting_at(mut self, limit: Amount) -> Self {
        self.limit = self.bounds.hold(limit as f64);
        self
    }

    /// The limit now, always within the range.
    #[must_use]
    pub fn limit(&self) -> Amount {
        // Within the bounds, which are amounts.
        self.limit as Amount
    }

    /// The limit after one more sample. Samples come in the order in which work ended.
    pub fn observe(&mut self, sample: &Sample) -> Amount {
        if sample.outcome != Outcome::Ignored {
            let (limit, bounds) = (self.limit, self.bounds);
            self.limit = match &mut self.formula {
                Formula::Aimd(aimd) => aimd.next(limit, sample, bounds),
                Formula::Vegas(vegas) => vegas.next(limit, sample, bounds),
                Formula::Gradient2(gradient) => gradient.next(limit, sample, bounds),
                Formula::GuardedVegas(guarded) => guarded.next(limit, sample, bounds),
            };
        }
        self.limit()
    }
}

impl Estimator {
    /// The limit is `limit` at least, within the range.
    pub(super) fn raise_to(&mut self, limit: Amount) -> Amount {
        self.limit = self.bounds.hold(self.limit.max(limit as f64));
        self.limit()
    }
}

fn check(parameter: &'static str, got: Amount, least: Amount) -> Result<(), LimitError> {
    if (least..=MAX_AMOUNT).contains(&got) {
        return Ok(());
    }
    Err(LimitError::Rule(RuleError::OutOfRange {
        parameter,
        got,
        least,
        most: MAX_AMOUNT,
    }))
}

/// The [guarded Vegas](Self::guarded_vegas).
impl Default for Estimator {
    fn default() -> Self {
        Self::guarded_vegas()
    }
}
