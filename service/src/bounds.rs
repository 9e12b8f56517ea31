//! What every request is held to, whichever protocol it came by: each bound stands here
//! once, or where the library has it (keys, amounts, idempotency keys, how long a lease
//! lasts), or the reader of files (entities, reasons).

use std::time::Duration;

use tidegate::{LONGEST_PAGE, LeaseId, NoLeaseId, Timestamp};
use tidegate_policy::wrong_reason;
pub use tidegate_policy::{
    LONGEST_ENTITY_ID, LONGEST_METADATA, LONGEST_NAME, LONGEST_REASON, MOST_METADATA,
};

use super::error::ServiceError;
use super::field::Field;

/// The longest cool-down, in milliseconds: 400 days, as the longest period.
pub const LONGEST_COOL_DOWN: u64 = 400 * 86_400 * 1_000;

/// How many items a page has if nothing is said.
pub const USUAL_PAGE: u64 = 100;

/// How many keys are counted as refused most often.
pub const MOST_DENIED: u64 = 256;

/// The most checks in one batch.
pub const MOST_CHECKS: u64 = 1_000;

/// The most limits of one override.
pub const MOST_LIMITS: usize = 256;

/// The longest that an override is set for, unless it is for good: ten years.
pub const LONGEST_OVERRIDE: Duration = Duration::from_secs(10 * 366 * 86_400);

/// The most audit events that a store keeps, whatever is set.
pub const MOST_EVENTS: u32 = tidegate_policy::MOST_AUDIT_EVENTS;

/// How many it keeps if nothing is said.
pub const USUAL_EVENTS: u32 = 10_000;

/// For how long it keeps them if nothing is said: 90 days.
pub const USUAL_AUDIT: Duration = Duration::from_secs(90 * 86_400);

/// The shortest and the longest time for which a grant is held, in milliseconds.
pub const HOLDS: (u64, u64) = (10, 60_000);

/// Instants from one on to another that is later.
///
/// # Errors
/// [`ServiceError::Form`]: nothing is between them.
pub fn instants(
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<[Option<Timestamp>; 2], ServiceError> {
    match (since, until) {
        (Some(since), Some(until)) if since >= until => Err(ServiceError::Form {
            field: Field::Until,
            wrong: "it must be later than `since`",
        }),
        within => Ok([within.0, within.1]),
    }
}

/// For how long a grant is held.
///
/// # Errors
/// [`ServiceError::Bound`]: 10 ms to 60 s.
pub fn hold(said_ms: u64) -> Result<Duration, ServiceError> {
    within(Field::Hold, HOLDS, said_ms).map(Duration::from_millis)
}

/// How many seconds earlier a request counts as having come.
///
/// # Errors
/// [`ServiceError::Bound`]: 255 at most.
pub fn priority(said: u64) -> Result<u8, ServiceError> {
    let fits = u8::try_from(said);
    fits.map_err(|_| out_of(Field::Priority, (0, u8::MAX.into()), said))
}

/// That the reason of a change is not too long.
pub(super) fn reason(said: Option<&str>) -> Result<(), ServiceError> {
    fits(Field::Reason, said.and_then(wrong_reason))
}

/// That nothing is wrong with what this field says.
pub(super) fn fits(field: Field, wrong: Option<&'static str>) -> Result<(), ServiceError> {
    match wrong {
        Some(wrong) => Err(ServiceError::Form { field, wrong }),
        None => Ok(()),
    }
}

/// How many items a page has.
///
/// # Errors
/// [`ServiceError::Bound`]: 1 to 1,000.
pub fn page(said: Option<u64>) -> Result<usize, ServiceError> {
    items(said, LONGEST_PAGE as u64)
}

/// How many keys a list of those that are refused most often has.
///
/// # Errors
/// [`ServiceError::Bound`]: 1 to 256.
pub fn most_denied(said: Option<u64>) -> Result<usize, ServiceError> {
    items(said, MOST_DENIED)
}

fn items(said: Option<u64>, most: u64) -> Result<usize, ServiceError> {
    let said = within(Field::PageSize, (1, most), said.unwrap_or(USUAL_PAGE))?;
    Ok(usize::try_from(said).unwrap_or(usize::MAX))
}

/// How many checks a batch has.
///
/// # Errors
/// [`ServiceError::Bound`]: 1 to 1,000.
pub fn checks(count: usize) -> Result<(), ServiceError> {
    within(Field::Checks, (1, MOST_CHECKS), count as u64).map(drop)
}

/// The id of a lease, as it was sent.
///
/// # Errors
/// [`ServiceError::Form`].
pub fn lease(said: &[u8]) -> Result<LeaseId, ServiceError> {
    let text = std::str::from_utf8(said).map_err(|_| NoLeaseId)?;
    Ok(text.parse::<LeaseId>()?)
}

/// How long a pool's member is to be passed over.
pub(super) fn cool_down(said: Option<Duration>) -> Result<(), ServiceError> {
    let Some(said) = said else {
        return Ok(());
    };
    let millis = u64::try_from(said.as_millis()).unwrap_or(u64::MAX);
    within(Field::CoolDown, (1, LONGEST_COOL_DOWN), millis).map(drop)
}

fn within(field: Field, (least, most): (u64, u64), found: u64) -> Result<u64, ServiceError> {
    match (least..=most).contains(&found) {
        true => Ok(found),
        false => Err(out_of(field, (least, most), found)),
    }
}

const fn out_of(field: Field, (least, most): (u64, u64), found: u64) -> ServiceError {
    ServiceError::Bound {
        field,
        least,
        most,
        found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_is_told_with_its_field_and_its_bounds() {
        let told = |answer: Result<usize, ServiceError>| answer.unwrap_err().to_string();
        assert_eq!(page(None), Ok(100));
        assert_eq!((page(Some(1)), page(Some(1_000))), (Ok(1), Ok(1_000)));
        assert_eq!(told(page(Some(0))), "`limit` is from 1 to 1000, not 0");
        assert_eq!(
            told(page(Some(1_001))),
            "`limit` is from 1 to 1000, not 1001"
        );
        assert_eq!(
            told(most_denied(Some(257))),
            "`limit` is from 1 to 256, not 257"
        );
        assert_eq!(
            (priority(255), checks(1), checks(1_000)),
            (Ok(255), Ok(()), Ok(()))
        );
        assert!(priority(256).is_err() && checks(0).is_err() && checks(1_001).is_err());
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        assert_eq!((cool_down(days(400)), cool_down(None)), (Ok(()), Ok(())));
        assert!(cool_down(days(401)).is_err() && cool_down(days(0)).is_err());
        assert!(lease(b"\xff").is_err() && lease(&[b'0'; 32]).is_ok());
    }
}
