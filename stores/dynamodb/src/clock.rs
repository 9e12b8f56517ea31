//! A clock beside DynamoDB's: this process's own, kept within a second of what the `Date` of
//! the answers says.
//!
//! An answer says the second in which it was made; that was between the request's going and
//! the answer's coming. So it bounds how far this clock may be off, from below and from above,
//! and the clock is moved to the nearer bound where it stands beyond one. A clock that is right
//! is never moved. What the system's clock does after the start is not looked at: the time
//! passes by the monotonic one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_async::time::TimeSource;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use tidegate_store::core::Timestamp;

/// A second, in microseconds.
const SECOND: i64 = 1_000_000;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct CorrectedClock {
    begun: Instant,
    /// What the system's clock said then, in microseconds since 1970.
    began_at: i64,
    /// By how much that is wrong, as far as the answers say.
    offset: AtomicI64,
    has_heard: AtomicBool,
}

impl CorrectedClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the store's clock is read here, and only here"
    )]
    pub(crate) fn start() -> Arc<Self> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Arc::new(Self::at(Instant::now(), micros(since.unwrap_or_default())))
    }

    const fn at(begun: Instant, began_at: i64) -> Self {
        Self {
            begun,
            began_at,
            offset: AtomicI64::new(0),
            has_heard: AtomicBool::new(false),
        }
    }

    /// Now, in microseconds since 1970.
    pub(crate) fn now(&self) -> Timestamp {
        let offset = self.offset.load(Ordering::Relaxed);
        Timestamp::from_micros(self.own_now().saturating_add(offset))
    }

    /// Whether any answer has said what time it is.
    pub(crate) fn has_heard(&self) -> bool {
        self.has_heard.load(Ordering::Relaxed)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the store's clock is read here, and only here"
    )]
    fn own_now(&self) -> i64 {
        self.began_at.saturating_add(micros(self.begun.elapsed()))
    }

    /// Takes note that an answer that came now to a request that went at `went` (by the
    /// uncorrected clock) was made in the second `date` since 1970.
    fn hear(&self, went: i64, date: i64) {
        self.correct((went, self.own_now()), date);
    }

    fn correct(&self, (went, came): (i64, i64), date: i64) {
        let date = date.saturating_mul(SECOND);
        let least = date.saturating_sub(came);
        let most = date.saturating_add(SECOND - 1).saturating_sub(went);
        let _ = self
            .offset
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |offset| {
                // An answer from before a step of its clock may contradict itself.
                Some(offset.clamp(least.min(most), most))
            });
        self.has_heard.store(true, Ordering::Relaxed);
    }
}

impl TimeSource for SdkClock {
    /// What requests are signed by: DynamoDB refuses signatures of other times.
    fn now(&self) -> SystemTime {
        let micros = u64::try_from(self.0.now().as_micros()).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_micros(micros)
    }
}

/// When a request went.
#[derive(Clone, Copy, Debug)]
struct Went(i64);

impl Storable for Went {
    type Storer = StoreReplace<Self>;
}

/// What the SDK has of the clock: it signs by it, and has it hear every answer, also those that
/// refuse.
#[derive(Clone, Debug)]
pub(crate) struct SdkClock(pub(crate) Arc<CorrectedClock>);

impl Intercept for SdkClock {
    fn name(&self) -> &'static str {
        "tidegate-clock"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(Went(self.0.own_now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").and_then(read_date);
        if let (Some(date), Some(Went(went))) = (date, bag.load::<Went>()) {
            self.0.hear(*went, date);
        }
        Ok(())
    }
}

/// The seconds since 1970 of a `Date`, as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn read_date(header: &str) -> Option<i64> {
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(header);
    Some(at.ok()?.as_second())
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer made in the 1,000th second, 20 ms after its request went.
    fn after_one(off: i64) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "a clock needs a beginning")]
        let clock = CorrectedClock::at(Instant::now(), 0);
        let truly = 1_000 * SECOND + 400_000;
        clock.correct((truly + off, truly + off + 20_000), 1_000);
        clock.offset.load(Ordering::Relaxed) + off
    }

    #[test]
    fn a_clock_that_is_an_hour_off_is_within_a_second_after_one_answer() {
        for off in [3_600, -3_600, 5, -5, 2] {
            let left = after_one(off * SECOND);
            assert!(left.abs() <= SECOND, "{off} s: {left} us");
        }
        assert_eq!(after_one(0), 0, "one that is right is not moved");
        assert_eq!(
            after_one(300_000),
            300_000,
            "nor one as far as nobody can tell"
        );
    }

    #[test]
    fn a_date_is_read() {
        assert_eq!(
            read_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777)
        );
        assert_eq!(read_date("yesterday"), None);
    }
}
