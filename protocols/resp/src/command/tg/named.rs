//! The policy, key, lease and amounts of a command.

use tidegate::MAX_AMOUNT;
use tidegate_service::{Number, OfLease, Whose, bounds};

use crate::command::number::natural;
use crate::error::{Fault, quoted};
use crate::parse::Arguments;

/// What an error calls an entity's id.
pub(super) const ENTITY_ID: &str = "the entity's id";

/// The first argument.
pub(super) fn policy<'a>(arguments: Arguments<'a>) -> Result<&'a str, Fault> {
    text(arguments.get(1).unwrap_or_default(), "the policy's name")
}

/// Whose limits: those of the key in the second one; where the word ENTITY was said, those of
/// the entity whose id it is.
#[inline]
pub(super) fn whose<'a>(
    arguments: Arguments<'a>,
    is_entity: Option<()>,
) -> Result<Whose<'a>, Fault> {
    let key = arguments.get(2).unwrap_or_default();
    match is_entity {
        None => Ok(Whose::Key(key)),
        Some(()) => Ok(Whose::Entity(text(key, ENTITY_ID)?)),
    }
}

/// All three; the lease's id has 32 hexadecimal digits.
pub(super) fn of_lease<'a>(
    arguments: Arguments<'a>,
    is_entity: Option<()>,
) -> Result<OfLease<'a>, Fault> {
    Ok(OfLease {
        lease: bounds::lease(arguments.get(3).unwrap_or_default())?,
        policy: policy(arguments)?,
        whose: whose(arguments, is_entity)?,
    })
}

/// The word ENTITY, or nothing, from `position` on.
pub(super) fn entity_alone(arguments: Arguments<'_>, position: usize) -> Result<Option<()>, Fault> {
    let mut is_entity = None;
    for word in arguments.from(position) {
        match word.eq_ignore_ascii_case(b"ENTITY") {
            true => once(&mut is_entity, (), "ENTITY")?,
            false => return Err(Fault::Syntax(quoted(word))),
        }
    }
    Ok(is_entity)
}

/// Says a word that may be said once.
pub(super) fn once<T>(place: &mut Option<T>, value: T, word: &'static str) -> Result<(), Fault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::GivenTwice(word)),
    }
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
