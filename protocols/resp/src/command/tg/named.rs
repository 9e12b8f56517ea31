//! The policy, key, lease and amounts of a command.

use tidegate::MAX_AMOUNT;
use tidegate_service::{Number, OfLease, Whose, bounds};

use crate::command::number::natural;
use crate::error::Fault;
use crate::parse::Arguments;

/// The first argument.
pub(super) fn policy<'a>(arguments: Arguments<'a>) -> Result<&'a str, Fault> {
    text(arguments.get(1).unwrap_or_default(), "the policy's name")
}

/// The second one.
pub(super) fn key<'a>(arguments: Arguments<'a>) -> &'a [u8] {
    arguments.get(2).unwrap_or_default()
}

/// All three; the lease's id has 32 hexadecimal digits.
pub(super) fn of_lease<'a>(arguments: Arguments<'a>) -> Result<OfLease<'a>, Fault> {
    Ok(OfLease {
        lease: bounds::lease(arguments.get(3).unwrap_or_default())?,
        policy: policy(arguments)?,
        whose: Whose::Key(key(arguments)),
    })
}

pub(super) fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::NotText(what))
}

/// `limit n`: so much of the limit of that name.
pub(super) fn amount<'a>(
    limit: &'a [u8],
    amount: &'a [u8],
) -> Result<(&'a str, Number<'a>), Fault> {
    let limit = text(limit, "the limit's name")?;
    Ok((limit, number(amount, "the amount")?))
}

/// A whole number, or a decimal.
pub(super) fn number<'a>(bytes: &'a [u8], what: &'static str) -> Result<Number<'a>, Fault> {
    if bytes.contains(&b'.') {
        return Ok(Number::Decimal(text(bytes, what)?));
    }
    let whole = natural(bytes, 0..=MAX_AMOUNT.cast_signed(), what)?;
    Ok(Number::Whole(whole))
}
