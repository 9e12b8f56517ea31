//! The policy, key and lease that a command begins with.

use std::sync::Arc;

use tidegate::{Key, LeaseId, MAX_AMOUNT};
use tidegate_service::{Number, Scope, Served, bounds};

use crate::command::number::natural;
use crate::error::Fault;
use crate::parse::Arguments;
use crate::session::Session;

/// The policy of the first argument, if the caller may use it like this.
pub(super) fn policy(
    session: &mut Session,
    arguments: Arguments<'_>,
    scope: Scope,
) -> Result<Arc<Served>, Fault> {
    let name = text(arguments.get(1).unwrap_or_default(), "the policy's name")?;
    let (service, caller) = session.at_the_service()?;
    Ok(service.policy(caller, scope, name)?)
}

/// The policy of the first argument, if the caller may use it like this, for a command whose
/// second argument is a key.
pub(super) fn policy_for(
    session: &mut Session,
    arguments: Arguments<'_>,
    scope: Scope,
) -> Result<Arc<Served>, Fault> {
    let name = text(arguments.get(1).unwrap_or_default(), "the policy's name")?;
    let (service, caller) = session.at_the_service()?;
    Ok(service.policy_for(caller, scope, name, key(arguments))?)
}

pub(super) fn key<'a>(arguments: Arguments<'a>) -> Key<'a> {
    Key::from(arguments.get(2).unwrap_or_default())
}

/// The lease's id, of 32 hexadecimal digits.
pub(super) fn lease(arguments: Arguments<'_>) -> Result<LeaseId, Fault> {
    Ok(bounds::lease(arguments.get(3).unwrap_or_default())?)
}

pub(super) fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::NotText(what))
}

/// `limit n`: so much of the limit of that name, in its own unit.
pub(super) fn amount<'a>(
    served: &Served,
    limit: &'a [u8],
    number: &[u8],
) -> Result<(&'a str, u64), Fault> {
    let limit = text(limit, "the limit's name")?;
    Ok((
        limit,
        served.amount(limit, self::number(number, "the amount")?)?,
    ))
}

/// A whole number, or a decimal.
pub(super) fn number<'a>(bytes: &'a [u8], what: &'static str) -> Result<Number<'a>, Fault> {
    if bytes.contains(&b'.') {
        return Ok(Number::Decimal(text(bytes, what)?));
    }
    let whole = natural(bytes, 0..=MAX_AMOUNT.cast_signed(), what)?;
    Ok(Number::Whole(whole))
}
