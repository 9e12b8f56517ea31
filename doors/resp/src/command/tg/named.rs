//! The policy, key and lease that a command begins with.

use std::sync::Arc;

use tidegate::gate::{Scope, Served};
use tidegate::{Key, LeaseId, MAX_AMOUNT, Unit};

use crate::command::number::natural;
use crate::fault::Fault;
use crate::parse::Arguments;
use crate::session::Session;

/// The policy of the first argument, if the caller may use it like this.
pub(super) fn policy(
    session: &mut Session,
    arguments: Arguments<'_>,
    scope: Scope,
) -> Result<Arc<Served>, Fault> {
    let name = text(arguments.get(1).unwrap_or_default(), "the policy's name")?;
    let (gate, caller) = session.at_the_gate()?;
    Ok(gate.policy(caller, scope, name)?)
}

pub(super) fn key<'a>(arguments: Arguments<'a>) -> Key<'a> {
    Key::from(arguments.get(2).unwrap_or_default())
}

/// The lease's id, of 32 hexadecimal digits.
pub(super) fn lease(arguments: Arguments<'_>) -> Result<LeaseId, Fault> {
    let digits = arguments.get(3).unwrap_or_default();
    let hexadecimal = digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| hexadecimal);
    let id = digits.and_then(|digits| digits.parse().ok());
    id.ok_or(Fault::LeaseId)
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
    let unit = unit(served, limit);
    if unit == Unit::ONE {
        let most = MAX_AMOUNT.cast_signed();
        return Ok((limit, natural(number, 0..=most, "the amount")?));
    }
    let amount = unit.parse(text(number, "the amount")?);
    let amount = amount.map_err(|source| tidegate::Error::Amount {
        limit: limit.to_owned(),
        source,
    });
    Ok((limit, amount.map_err(tidegate::gate::GateError::from)?))
}

/// The unit of the limit of that name; one, if there is no such limit.
pub(super) fn unit(served: &Served, limit: &str) -> Unit {
    let policy = served.policy();
    let members = policy.members.iter().flat_map(|member| &member.limits);
    let mut limits = policy.limits.iter().chain(members);
    let found = limits.find(|known| known.name() == limit);
    found.map_or(Unit::ONE, |limit| limit.amounts())
}
