//! Amounts of an entity whose ancestors are not charged: those of the limits of its own level.

use super::path::EntityPath;
use crate::active_policy::ActivePolicy;
use crate::amounts::{Amounts, Number};
use tidegate::Limit;
use tidegate::internal::LimitInternals;

/// What is asked of the limits of an entity's own level: `cost` of each rate that is not named,
/// and what is. Of what is taken, every limit of another level is left out by its name; of what
/// was taken, such limits stay as they are.
pub(crate) fn of_own_level<'a>(
    active: &'a ActivePolicy,
    path: &EntityPath,
    (cost, named): (Option<Number<'a>>, &[(&'a str, Number<'a>)]),
    is_taken_now: bool,
) -> Amounts<'a> {
    let levels = &active.policy().levels;
    let own = path.level() - 1;
    let is_own = |limit: &Limit| limit.level_in(levels) == Ok(own);
    let limits = || active.policy().limit_lists().flatten();
    let is_other = |name: &str| limits().any(|limit| limit.name() == name && !is_own(limit));
    let own_named = named.iter().copied();
    let mut amounts: Amounts<'a> = own_named.filter(|(name, _)| !is_other(name)).collect();
    // Who names nothing is told so, as anybody is.
    let says_nothing = named.is_empty() && cost.is_none();
    let is_short = says_nothing && limits().any(|limit| is_own(limit) && !limit.is_counted());
    for limit in limits() {
        let name = limit.name();
        let amount = match cost {
            Some(cost) if is_own(limit) && !limit.is_counted() => cost,
            _ if !is_own(limit) && is_taken_now && !is_short => Number::Units(0),
            _ => continue,
        };
        if amounts.iter().all(|(known, _)| *known != name) {
            amounts.push((name, amount));
        }
    }
    amounts
}
