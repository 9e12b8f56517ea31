//! `CL.THROTTLE` and `THROTTLE`: the numbers come with the call.
//!
//! Both ask the same set. They differ in what they say: redis-cell begins with
//! 1 where it *limits*, counts `max_burst` on top of one, and tells when to
//! retry before when all is back; throttlecrab begins with 1 where it *allows*,
//! counts `max_burst` as all there is, and tells them the other way round.
//!
//! Seconds are rounded up, always: whoever comes back then is admitted.

use std::ops::RangeInclusive;

use tidegate::{MAX_AMOUNT, Verdict};
use tidegate_service::{Call, Rate, Rated};

use super::number::natural;
use crate::error::Fault;
use crate::parse::Arguments;
use crate::render::reply::Replies;

/// The largest number that is one.
const MOST: i64 = MAX_AMOUNT as i64;

/// The longest period: 400 days in seconds.
const LONGEST: i64 = 400 * 24 * 3_600;

/// What is answered, before either has put it into words.
struct Outcome {
    allowed: bool,
    limit: i64,
    remaining: i64,
    retry_secs: Retry,
    reset_secs: i64,
}

/// When to come again.
#[derive(Clone, Copy)]
enum Retry {
    Now,
    After(i64),
    Never,
}

pub(super) fn read_cell(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    read(arguments, 0..=MOST - 1, 1)
}

pub(super) fn read_crab(arguments: Arguments<'_>) -> Result<Call<'_>, Fault> {
    read(arguments, 1..=MOST, 0)
}

/// `CL.THROTTLE`, as redis-cell answers it.
pub(super) fn tell_cell(replies: &mut Replies, rated: &Rated) {
    let outcome = Outcome::from(rated);
    let retry = match outcome.retry_secs {
        Retry::After(seconds) => seconds,
        Retry::Now | Retry::Never => -1,
    };
    outcome.tell(replies, !outcome.allowed, [retry, outcome.reset_secs]);
}

/// `THROTTLE`, as throttlecrab answers it.
pub(super) fn tell_crab(replies: &mut Replies, rated: &Rated) {
    let outcome = Outcome::from(rated);
    let retry = match outcome.retry_secs {
        Retry::After(seconds) => seconds,
        Retry::Now => 0,
        Retry::Never => -1,
    };
    outcome.tell(replies, outcome.allowed, [outcome.reset_secs, retry]);
}

/// `key max_burst count period [quantity]`, with `extra` on top of the burst.
fn read(
    arguments: Arguments<'_>,
    bursts: RangeInclusive<i64>,
    extra: u64,
) -> Result<Call<'_>, Fault> {
    let argument = |position| arguments.get(position).unwrap_or_default();
    let quantity = match arguments.get(5) {
        Some(text) => natural(text, 0..=MOST, "quantity")?,
        None => 1,
    };
    let rate = Rate {
        capacity: natural(argument(2), bursts, "max_burst")? + extra,
        count: natural(argument(3), 1..=MOST, "count")?,
        period_secs: natural(argument(4), 1..=LONGEST, "period")?,
    };
    Ok(Call::Throttle(argument(1).into(), rate, quantity))
}

impl Outcome {
    fn tell(&self, replies: &mut Replies, first: bool, last: [i64; 2]) {
        let (limit, remaining) = (self.limit, self.remaining);
        replies.integers([i64::from(first), limit, remaining, last[0], last[1]]);
    }
}

impl From<&Rated> for Outcome {
    fn from(rated: &Rated) -> Self {
        let (standing, now) = (rated.standing, rated.at);
        let retry_secs = match rated.verdict {
            Verdict::Admit => Retry::Now,
            refused => match refused.retry_after(now) {
                Some(wait) => Retry::After(wait.secs_up().cast_signed()),
                None => Retry::Never,
            },
        };
        Self {
            allowed: rated.verdict.admitted(),
            limit: standing.limit.cast_signed(),
            remaining: standing.remaining.cast_signed(),
            retry_secs,
            reset_secs: standing
                .full_at
                .map_or(0, |at| at.since(now).secs_up().cast_signed()),
        }
    }
}
