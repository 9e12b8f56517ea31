//! A take from a set of one plain bucket, which one UPDATE decides
//! (`tidegate.take_plain`).
//!
//! ```text
//! NULL       admitted, and no more is asked for
//! LEVEL      admitted, after which the bucket is so full
//! -LEVEL     refused, as full as it is
//! {...}      as `tidegate.decide` says it
//! ```

use std::ops::RangeInclusive;

use smallvec::SmallVec;
use tidegate_net::SingleBucket;
use tidegate_store::core::Verdict;
use tidegate_store::{Decision, Detail, StoreError};

use crate::compiled::Compiled;
use crate::connection::Argument;
use crate::error::garbled;
use crate::inner::Calls;
use crate::options::Clock;
use crate::request::{Request, TAKE};

/// By the server's clock, which stands still for so many microseconds behind what was
/// written (`tidegate.instant`).
const TAKE_NOW: &str = "SELECT tidegate.take_plain($1, $2, tidegate.clock(), false,
    $3, $4, $5, $6, $7, $8, 10000000)";
const TAKE_NOW_AND_TELL: &str =
    "SELECT tidegate.take_plain_and_tell($1, $2, tidegate.clock(), false,
    $3, $4, $5, $6, $7, $8, 10000000)";

/// By the caller's, which never does.
const TAKE_AT: &str = "SELECT tidegate.take_plain($1, $2, $9, true,
    $3, $4, $5, $6, $7, $8, 0)";
const TAKE_AT_AND_TELL: &str = "SELECT tidegate.take_plain_and_tell($1, $2, $9, true,
    $3, $4, $5, $6, $7, $8, 0)";

/// The same, of a plan that counts what is used.
const TAKE_COUNTED_NOW: &str = "SELECT tidegate.take_counted($1, $2, tidegate.clock(), false,
    $3, $4, $5, $6, $7, $8, 10000000)";
const TAKE_COUNTED_AT: &str = "SELECT tidegate.take_counted($1, $2, $9, true,
    $3, $4, $5, $6, $7, $8, 0)";

/// The instants by which a plain row can be decided, in microseconds, if its bucket
/// drains no more than [`DRAIN`] in one: together 62 bits.
const INSTANTS: RangeInclusive<i64> = 0..=1 << 52;

/// See [`INSTANTS`].
const DRAIN: u64 = 1 << 10;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain {
    single_bucket: SingleBucket,
    amount: i64,
    drain: i64,
    brim: i64,
    /// What the amount weighs: no more than the brim.
    weight: i64,
}

impl Plain {
    /// What of `request` that is, decided by `clock`; `None` if it is more.
    pub(crate) fn of(request: &Request, clock: Clock) -> Option<Self> {
        let ([limit], [amount]) = (request.plan.limits(), &*request.amounts) else {
            return None;
        };
        let bucket = limit.simple_bucket()?;
        let is_common = request.rules.is_none() && request.plan.levels() <= 1;
        let in_time = clock == Clock::Server || INSTANTS.contains(&request.now.as_micros());
        if request.verb != TAKE || !is_common || !request.is_indexed() {
            return None;
        }
        let requested = u64::try_from(*amount).ok()?;
        let single_bucket = SingleBucket::new(bucket, requested, request.wanted, request.now);
        Some(Self {
            single_bucket: single_bucket.filter(|_| in_time && bucket.drain() <= DRAIN)?,
            amount: *amount,
            drain: bucket.drain() as i64,
            brim: bucket.brim() as i64,
            weight: amount * bucket.weight() as i64,
        })
    }

    /// Reads what it came to.
    pub(crate) fn read(&self, text: Option<String>) -> Result<Taken, StoreError> {
        let level = |text: &str| text.parse::<u64>().map_err(|_| garbled("no level"));
        let decision = match text {
            None => Decision::bare(Verdict::Admit, None),
            Some(text) if text.starts_with('{') => return Ok(Taken::Otherwise(text)),
            Some(text) => match text.strip_prefix('-') {
                Some(before) => self.single_bucket.refused(level(before)?)?,
                None => self.single_bucket.admitted(level(&text)?),
            },
        };
        Ok(Taken::Decision(decision))
    }
}

/// What a take from a plain row came to.
pub(crate) enum Taken {
    Decision(Decision),
    /// The row is not plain: what `tidegate.decide` said.
    Otherwise(String),
}

impl Calls {
    /// Null if it is admitted and no more is to be said.
    pub(crate) async fn take_plain(
        &self,
        plan: &Compiled,
        request: &Request,
        plain: &Plain,
    ) -> Result<Option<String>, StoreError> {
        let statement = match (self.clock, request.wanted, plan.counts_usage) {
            (Clock::Server, _, true) => TAKE_COUNTED_NOW,
            (Clock::Caller, _, true) => TAKE_COUNTED_AT,
            (Clock::Server, Detail::Always, false) => TAKE_NOW_AND_TELL,
            (Clock::Server, _, false) => TAKE_NOW,
            (Clock::Caller, Detail::Always, false) => TAKE_AT_AND_TELL,
            (Clock::Caller, _, false) => TAKE_AT,
        };
        let now = request.now.as_micros();
        let plain: [Argument<'_>; 8] = [
            &self.tab,
            &plan.revision,
            &request.key,
            &plain.amount,
            &request.detail,
            &plain.drain,
            &plain.brim,
            &plain.weight,
        ];
        let mut arguments: SmallVec<[Argument<'_>; 9]> = SmallVec::from_slice(&plain);
        arguments.extend(self.is_callers().then_some(&now as Argument<'_>));
        self.read(statement, &arguments).await
    }
}
